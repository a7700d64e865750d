"""The only subpackage that depends on which backend runs.

`torch.py`, `jax.py` and `tensorflow.py` have the same functions under the same names. The module of
the backend that Keras runs on is imported here. Call its functions as `backend.NAME`. No other
subpackage imports a backend, except for writing the backend's file formats.

| name | what it does |
|---|---|
| `SafeTrainer` | base class of models whose weights must survive a call that fails |
| `TRAITS` | what was measured on this backend, and what its programs may do |
| `platform` | "cpu", "gpu" or "tpu": what a tensor's program is traced for |
| `on_accelerator` | whether a tensor is computed on a GPU or TPU |
| `sum_over_replicas` | the sum over the devices that compute a step together |
| `gather_rows` | the rows of a tensor on all those devices |
| `row_multiple` | the number that must divide the rows of a batch, so that devices can share them |
| `processes` | the rank of this process, and how many work together |
| `launched_processes` | how many processes were launched as one job |
| `device_count`, `over_devices` | the devices of this process, and a context that uses several |
| `gather` | the values of all processes, as a list |
| `is_traced` | whether a tensor's values are only known when the program runs |
| `all_true` | whether a mask is known to be True everywhere, at no cost |
| `unmasked`, `is_unmasked` | ids that are known to have no padding |
| `looked_at` | a mask whose values are known from here on |
| `number`, `moved_on` | a scalar tensor as a number, and a later one |
| `cache_programs`, `keeps_programs` | compiled programs on disk, for later processes |
| `check_floatx` | refuses a `floatx` that changes integers |
| `check_range` | checks position ids when the program runs |
| `call_back`, `await_calls` | a Python function called from inside a program |
| `bind_keywords` | a call with its keyword arguments, where `keras.RematScope` would lose them |
| `one_pass` | several operations over an attention matrix as one program |
| `lay_out` | a tensor stored in the order of its axes |
| `apart` | a tensor that is not computed in one kernel with what reads it |
| `product` | a product of matrices that float16 has room for |
| `exact_product` | a product whose factors are not rounded |
| `take_last`, `interpolate` | numbers of a row by an index, or between two indices |
| `look_up` | rows of a table |
| `clip`, `take`, `segment_sum` | those of `keras.ops`, which free lengths of exports need |
| `cumsum` | a running sum, from either end |
| `update_slice`, `choose` | `ops.slice_update` and `ops.cond` where those fail |
| `scan` | `ops.scan`, with a gradient under XLA |
| `is_plain` | whether a layer's call may be made without what Keras does around it |
| `by_group` | a function of rows whose groups have weights of their own, such as experts |
| `linear`, `layer_norm`, `rms_norm` | a product with bias and norms as one operation each |
| `rotate` | pairs of features turned by angles |
| `dot_product_attention` | that of `keras.ops`, without copies of its inputs |
| `write`, `overwrite` | rows of a cache, in a copy of it or in place |
| `keep_by_hash` | attention dropout by hashed bits |
| `kernels_drop`, `next_seed` | whether kernels drop numbers, and by which seeds of the host |
| `inference_dtype` | in which dtype a device computes texts with a model of float32 |
| `drop_features` | dropout by one kernel |
| `weigh_values` | softmax(logits) v over unmasked positions, with a gradient in few passes |
| `map_blocks` | blocks of query rows one after another, computed again in the backward pass |
| `has_kernel`, `kernel_forms_map` | what the backend's fused attention kernels can do |
| `kernel_multiple`, `runs_cudnn` | which heads and masks they take |
| `fused_kernels` | refuses a kernel that would materialise a large matrix |
| `batch_shards`, `over_batch` | a function whose texts are split over several devices |
| `sequence_shards`, `over_sequence` | attention whose rows are split over several devices |
| `with_neighbours` | a device's part of a tensor, with columns of the devices around it |
| `has_splash`, `splash` | the kernel for attention on TPUs that JAX ships |
| `trace_any_shape` | one program of predictions for batches of every shape |
| `train_steps` | many training steps as one program |
| `gradient` | the gradient of a function, inside a loss |
| `without_gradients` | operations that are not recorded for gradients |
| `exporting`, `is_exporting` | tracing a program for another runtime |
| `exporting_free_sizes` | the same, for tensors whose sizes are variables |
| `saved_model_options` | a SavedModel whose inputs have one free length |
| `export_model` | a model as an ONNX or LiteRT file of any batch size and length |
| `log1p` | `ops.log1p`, in exported programs too |
| `gelu`, `adamw_step` | the fastest exact GELU and AdamW step |
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
