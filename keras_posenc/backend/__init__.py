"""The only subpackage that depends on which backend runs.

`torch.py`, `jax.py` and `tensorflow.py` have the same functions under the same names. The module of
the backend that Keras runs on is imported here. Call its functions as `backend.NAME`. No other
subpackage imports a backend, except for writing the backend's file formats.

| name | what it does |
|---|---|
| `SafeTrainer` | base class of models whose weights must survive a call that fails |
| `TRAITS` | what was measured on this backend, and what its programs may do |
| `platform`, `on_accelerator` | what a tensor's program is traced for: "cpu", "gpu" or "tpu" |
| `sum_over_replicas`, `gather_rows` | sums and rows over the devices that compute a step together |
| `row_multiple` | the number that must divide the rows of a batch, so that devices can share them |
| `processes`, `launched_processes`, `gather` | the processes that work together, and their values |
| `device_count`, `over_devices` | the devices of this process, and a context that uses several |
| `is_traced` | whether a tensor's values are only known when the program runs |
| `all_true`, `unmasked`, `is_unmasked`, `looked_at` | masks whose values are known at no cost |
| `number`, `moved_on` | a scalar tensor as a number, and a later one |
| `cache_programs`, `keeps_programs` | compiled programs on disk, for later processes |
| `check_floatx`, `check_range` | refuse a `floatx` or position ids that cannot be served |
| `call_back`, `await_calls` | a Python function called from inside a program |
| `bind_keywords` | a call with its keyword arguments, where `keras.RematScope` would lose them |
| `one_pass` | several operations over an attention matrix as one program |
| `lay_out`, `apart` | tensors in the order of their axes, or computed by themselves |
| `product`, `exact_product` | products with room in float16, or with factors that are not rounded |
| `look_up`, `take_last`, `interpolate` | rows of a table, and numbers of a row by an index |
| `constant`, `clip`, `take`, `segment_sum`, `cumsum` | those of `keras.ops`, for programs |
| `pad`, `split`, `take_along_axis` | those of `keras.ops` that stop torch.compile or a GPU |
| `update_slice`, `choose`, `scan` | those of `keras.ops` where they fail |
| `is_plain` | whether a layer's call may be made without what Keras does around it |
| `by_group` | a function of rows whose groups have weights of their own, such as experts |
| `linear`, `layer_norm`, `rms_norm`, `rotate` | as one operation each |
| `dot_product_attention` | that of `keras.ops`, without copies of its inputs |
| `write`, `overwrite` | rows of a cache, in a copy of it or in place |
| `keep_by_hash`, `kernels_drop`, `next_seed`, `drop_features` | dropout, by hashes or kernels |
| `inference_dtype` | in which dtype a device computes texts with a model of float32 |
| `weigh_values`, `map_blocks`, `fused_kernels` | softmax(logits) v in few passes, blocks, fused |
| `has_kernel`, `kernel_forms_map`, `kernel_multiple`, `runs_cudnn` | what fused kernels can do |
| `batch_shards`, `over_batch`, `sequence_shards`, `over_sequence` | texts or rows over devices |
| `mesh_size` | the devices along an axis of Keras' mesh |
| `has_splash`, `splash`, `with_neighbours` | JAX's kernel for TPUs, and columns of other devices |
| `has_dropout_kernel`, `dropout_kernel` | JAX's kernel for GPUs that drops attention weights |
| `trace_any_shape`, `train_steps` | one program of all shapes, or of many training steps |
| `gradient`, `without_gradients` | gradients inside a loss, and operations without them |
| `exporting`, `is_exporting`, `exporting_free_sizes` | tracing a program for another runtime |
| `saved_model_options`, `export_model` | files for other runtimes, of any batch size and length |
| `log1p`, `gelu`, `adamw_step` | the fastest, also in exported programs |
"""

import keras

BACKENDS = ("torch", "jax", "tensorflow")
if keras.backend.backend() == "torch":
    from keras_posenc.backend.torch import *  # noqa: F403
elif keras.backend.backend() == "jax":
    from keras_posenc.backend.jax import *  # noqa: F403
elif keras.backend.backend() == "tensorflow":
    from keras_posenc.backend.tensorflow import *  # noqa: F403
else:
    raise ImportError(
        f"keras_posenc runs on the Keras backends {BACKENDS}. Received: "
        f"{keras.backend.backend()!r}. Set the environment variable KERAS_BACKEND to one of them "
        "before Keras is imported."
    )
