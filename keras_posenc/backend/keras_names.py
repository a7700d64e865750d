"""Private names of Keras that this package reads: outside `backend/`, it reads them from here.

The uses in `USES` are faster or safer ways of something that Keras does by itself. Where a version
of Keras lacks their names, Keras does it, and one line is logged. For most of the other functions,
Keras has no public way; all supported versions have these names.
`tests/backend/test_keras_names.py` runs with each version, and `tests/test_structure.py` fails if a
private name is read elsewhere.

Some private names are not here, because a class inherits them:

- The trainers in `jax.py`, `jax_devices.py` and `tensorflow.py` replace and call private methods
  of Keras' trainers, and set their attributes.
- `training/optimizer.py` replaces `_apply_weight_decay` and `_backend_update_step` of Keras'
  optimizers.

`torch_calls.py` also reads private names of PyTorch: the hooks of its modules, what
`torch.jit.is_tracing` asks, and whether `torch.func` transforms a program.
"""

import contextlib
import logging
import types

import keras

try:
    from keras.src.backend.common import global_state
except ImportError:  # `has` logs what is done without
    global_state = None

LOGGER = logging.getLogger("keras_posenc")
PLAIN_POLICIES = keras.DTypePolicy, keras.dtype_policies.FloatDTypePolicy


def _has_scopes():
    layer = keras.Layer()
    found = hasattr(layer, "_remat_mode") and hasattr(layer._dtype_policy, "_compute_dtype")
    return found and hasattr(global_state, "GLOBAL_STATE_TRACKER")


def _has_graphs():
    x = keras.Input((1,))
    model = keras.Model(x, keras.layers.Identity()(x))
    nodes = [node for nodes in model._nodes_by_depth.values() for node in nodes]
    of_node = ("is_input", "operation", "arguments", "outputs", "input_tensors")
    of_model = ("_outputs_struct", "_standardize_inputs")
    found = [hasattr(nodes[0], name) for name in of_node]
    return all(found + [hasattr(model, name) for name in of_model])


def _has_moments():
    # Of the class: a program is traced when this is asked for, and may make no variables.
    names = ("_apply_weight_decay", "_use_weight_decay", "_get_variable_index")
    return all(callable(getattr(keras.optimizers.AdamW, name, None)) for name in names)


def _has_masks():
    names = "get_global_attribute", "set_global_attribute"
    return all(callable(getattr(global_state, name, None)) for name in names)


def _has_lazy_modules():
    return hasattr(_tensorflow(), "_available")


# Use -> whether Keras has its names, and what follows without them.
USES = {
    "scopes": (_has_scopes, "layers are called with all that Keras does around a call"),
    "graphs": (_has_graphs, "the calls of a functional model cannot be read"),
    "moments": (_has_moments, "AdamW is computed without fused kernels"),
    "masks": (_has_masks, "on JAX, masks of programs that are gone may be found"),
    "lazy modules": (_has_lazy_modules, "TensorFlow is imported with any backend"),
}
KNOWN = {}  # use -> whether Keras has its names


def has(use):
    """Whether Keras has the names of a use, a key of `USES`; logs once if it has not."""
    if use not in KNOWN:
        check, without = USES[use]
        try:
            KNOWN[use] = check()
        except (ImportError, AttributeError):
            KNOWN[use] = False
        if not KNOWN[use]:
            LOGGER.warning(f"Keras {keras.__version__} is not known to keras_posenc: {without}.")
    return KNOWN[use]


def scope(name):
    """What Keras has set for all calls of this thread under a name, such as "autocast_scope"."""
    # Of the module: `keras.utils.clear_session` makes another one.
    return global_state.GLOBAL_STATE_TRACKER.__dict__.get(name)


def takes_training(operation):
    """Whether a layer or operation is called with `training`."""
    return getattr(operation, "_call_has_training_arg", False)


def uncast():
    """A context in which variables keep their dtype, as within layers that cast by themselves."""
    from keras.src.backend import AutocastScope

    if has("scopes") and scope("autocast_scope") is None:
        return contextlib.nullcontext()
    return AutocastScope(None)


def _tensorflow():
    from keras.src.utils.module_utils import tensorflow

    return tensorflow


@contextlib.contextmanager
def hidden_tensorflow():
    """Within it, Keras takes TensorFlow as not installed."""
    module = _tensorflow()
    known, module._available = module._available, False
    try:
        yield
    finally:
        module._available = known


def layers_in(layer):
    """A list of a layer or model and of all layers inside it, at any depth."""
    return layer._flatten_layers()


def plain_dtypes(layer):
    """The dtypes of a layer's results and variables; None if a call of it is more than casts, as
    where it is quantized, has a penalty, or is computed again in the backward pass."""
    policy = layer._dtype_policy
    if not layer.built or layer._remat_mode or layer.activity_regularizer is not None:
        return None
    if type(policy) in PLAIN_POLICIES:  # properties take half of such a check
        return policy._compute_dtype, policy._variable_dtype
    return None if policy.quantization_mode else (policy.compute_dtype, policy.variable_dtype)


def nodes_by_depth(graph):
    """{depth: nodes} of a functional graph; of one that is not functional, none."""
    return getattr(graph, "_nodes_by_depth", {}) if has("graphs") else {}


def output_structure(graph):
    """The nested structure of the outputs of a functional graph."""
    return graph._outputs_struct


def input_list(model, inputs):
    """What a functional model is called with, as a list of tensors in the order of its inputs."""
    return model._standardize_inputs(inputs)


def maker_of(tensor):
    """The layer or operation that made a symbolic tensor."""
    return tensor._keras_history.operation


def mask_of(x):
    """The mask that Keras keeps with a tensor, or None."""
    return getattr(x, "_keras_mask", None)


def set_mask(x, mask):
    """Keeps a mask with a tensor, where the next layer finds it."""
    x._keras_mask = mask


@contextlib.contextmanager
def fresh_masks():
    """Within it, no mask of a tensor from before is found.

    Keras finds masks of traced tensors by their id, in a dict of the thread. Of a tensor that the
    garbage collector frees in another thread the mask stays, and a new tensor may have its id.
    """
    if not has("masks"):
        yield
        return
    before = global_state.get_global_attribute("_keras_mask_dict")
    global_state.set_global_attribute("_keras_mask_dict", {})
    try:
        yield
    finally:
        global_state.set_global_attribute("_keras_mask_dict", before)


def forget_global_seeds():
    """Restarts the generator that Keras has for all calls without a seed.

    Before 3.15, a new random seed leaves it as it is.
    """
    if has("masks"):
        global_state.set_global_attribute("global_seed_generator", None)


def save_zero_points(layer):
    """Makes a dense layer write its zero points of GPTQ or AWQ.

    Keras 3.15 reads them of a file, and writes them for int4 only: no such file could be loaded.
    """
    calibrated = getattr(layer, "quantization_mode", None) in ("gptq", "awq")
    if calibrated and hasattr(layer, "_get_kernel_with_merged_lora"):
        layer._get_kernel_with_merged_lora = types.MethodType(_zero_points, layer)


def _zero_points(layer):
    return None, None, layer.kernel_zero


def track(layer, part):
    """Makes `tf.train.Checkpoint` save a part in a list, where Keras 3.15 does not look for it."""
    if hasattr(layer, "_track_trackable"):
        layer._track_trackable(part, part.name, overwrite=True)


def tensor_of(variable):
    """The tensor of a variable, without the scopes that Keras asks for; a tensor stays."""
    return getattr(variable, "_value", variable)  # with LoRA, a kernel is a tensor


def kernel_of(dense):
    """The kernel of a dense layer that is not quantized, with what LoRA adds to it."""
    # `kernel` asks for all kinds of quantization first.
    return dense.kernel if dense.lora_enabled else dense._kernel


def index_of(optimizer, variable):
    """The place of a variable among those that an optimizer was built with."""
    return optimizer._get_variable_index(variable)


def is_decayed(optimizer, variable):
    """Whether an optimizer applies its weight decay to a variable."""
    return optimizer._use_weight_decay(variable)


def has_moments(optimizer):
    """Whether the moments of an Adam are where `moments` looks for them."""
    return has("moments") and hasattr(optimizer, "_momentums") and hasattr(optimizer, "_velocities")


def moments(optimizer, variable):
    """The variables m and v that an Adam has for a weight."""
    index = index_of(optimizer, variable)
    return optimizer._momentums[index], optimizer._velocities[index]


def has_direction(metric):
    """Whether a callback of Keras knows if a metric is better when higher or when lower."""
    return hasattr(metric, "_direction")


def called_by_fit(arguments):
    """Whether a call of `evaluate` with these keyword arguments is one that `fit` makes."""
    return "_use_cached_eval_dataset" in arguments
