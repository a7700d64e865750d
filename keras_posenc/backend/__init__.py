"""The one room that knows which backend runs.

`torch.py`, `jax.py` and `tensorflow.py` have the same functions under the same names; the one that
Keras runs on is imported here. Call them as `backend.NAME`. No other room imports a backend, but
for writers of its own file formats.

| name | what it does |
|---|---|
| `SafeTrainer` | what a model inherits so that its weights outlive a call that fails |
| `TRAITS` | what was measured on this backend, and what its programs may do |
| `platform` | "cpu", "gpu" or "tpu": what a tensor's program is traced for |
| `on_accelerator` | whether a tensor is computed on a GPU or TPU |
| `row_multiple` | of what the rows of a batch must be a multiple, to be shared by devices |
| `processes` | the rank of this process, and how many work together |
| `launched_processes` | how many were launched as one job |
| `gather` | a list of a value of each process |
| `is_traced` | whether a tensor's values are only known when the program runs |
| `all_true` | whether a mask is known to be True everywhere, at no cost |
| `check_floatx` | refuses a `floatx` that changes integers |
| `check_range` | checks position ids when the program runs |
| `call_back`, `await_calls` | a Python function called from inside a program |
| `one_pass` | several operations over a map as one program |
| `lay_out` | a tensor in memory as its axes say |
| `product` | a product of matrices that float16 has room for |
| `take_last`, `interpolate` | numbers of a row by an index, or between two indices |
| `cumsum` | a running sum, from either end |
| `update_slice`, `choose` | `ops.slice_update` and `ops.cond` where those fail |
| `keep_by_hash` | attention dropout by hashed bits |
| `weigh_values` | softmax(logits) v over unmasked positions, with a gradient in few passes |
| `map_blocks` | blocks of query rows one after another, computed again in the backward pass |
| `has_kernel`, `kernel_forms_map` | what the backend's fused attention kernels can do |
| `train_steps` | many training steps as one program |
| `gradient` | the gradient of a function, inside a loss |
| `exporting`, `is_exporting` | tracing a program for another runtime |
| `export_model` | a model as an ONNX or LiteRT file of any batch size and length |
| `gelu`, `adamw_step` | the fastest exact GELU and AdamW step |
"""

import keras

if keras.backend.backend() == "torch":
    from keras_posenc.backend.torch import *  # noqa: F403
elif keras.backend.backend() == "jax":
    from keras_posenc.backend.jax import *  # noqa: F403
else:
    from keras_posenc.backend.tensorflow import *  # noqa: F403
