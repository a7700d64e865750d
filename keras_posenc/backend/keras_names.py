"""What this package uses of Keras beyond its public names: all of it stands here.

Each use is a faster way of something that Keras does by itself. Where a version of Keras has no
such name, Keras does it, and one line is logged. `tests/backend/test_keras_names.py` runs with each
supported Keras.
"""

import contextlib
import functools
import logging
import types

import keras

LOGGER = logging.getLogger("keras_posenc")


def _has_scopes():
    from keras.src.backend.common.global_state import GLOBAL_STATE_TRACKER

    return hasattr(GLOBAL_STATE_TRACKER, "__dict__") and hasattr(keras.Layer(), "_remat_mode")


def _has_graphs():
    x = keras.Input((1,))
    model = keras.Model(x, keras.layers.Identity()(x))
    nodes = [node for nodes in model._nodes_by_depth.values() for node in nodes]
    wanted = ("is_input", "operation", "arguments", "outputs", "input_tensors")
    return hasattr(model, "_outputs_struct") and all(hasattr(nodes[0], name) for name in wanted)


def _has_moments():
    # Of the class: a program is traced when this is asked for, and may make no variables.
    names = ("_apply_weight_decay", "_use_weight_decay", "_get_variable_index")
    return all(callable(getattr(keras.optimizers.AdamW, name, None)) for name in names)


def _has_lazy_modules():
    return hasattr(_tensorflow(), "_available")


# Use -> whether Keras has its names, and what follows without them.
USES = {
    "scopes": (_has_scopes, "layers are called with all that Keras does around a call"),
    "graphs": (_has_graphs, "the calls of a functional model cannot be read"),
    "moments": (_has_moments, "AdamW is computed without fused kernels"),
    "lazy modules": (_has_lazy_modules, "TensorFlow is imported with any backend"),
}


@functools.cache
def has(use):
    """Whether Keras has the names of a use, a key of `USES`; logs once if it has not."""
    check, without = USES[use]
    try:
        found = check()
    except (ImportError, AttributeError):
        found = False
    if not found:
        LOGGER.warning(f"Keras {keras.__version__} is not known to keras_posenc: {without}.")
    return found


@functools.cache
def _scopes():
    from keras.src.backend.common.global_state import GLOBAL_STATE_TRACKER

    return GLOBAL_STATE_TRACKER


def scope(name):
    """What Keras has set for all calls of this thread under a name, such as "autocast_scope"."""
    return _scopes().__dict__.get(name)


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


def is_recomputed(layer):
    """Whether the results of a layer are computed again in the backward pass."""
    return bool(layer._remat_mode)


def nodes_by_depth(graph):
    """{depth: nodes} of a functional graph; of one that is not functional, none."""
    return getattr(graph, "_nodes_by_depth", {}) if has("graphs") else {}


def output_structure(graph):
    """The nested structure of the outputs of a functional graph."""
    return graph._outputs_struct


def save_zero_points(layer):
    """Makes a dense layer write its zero points of GPTQ or AWQ.

    Keras 3.15 reads them of a file, and writes them for int4 only: no such file could be loaded.
    """
    calibrated = getattr(layer, "quantization_mode", None) in ("gptq", "awq")
    if calibrated and hasattr(layer, "_get_kernel_with_merged_lora"):
        layer._get_kernel_with_merged_lora = types.MethodType(_zero_points, layer)


def _zero_points(layer):
    return None, None, layer.kernel_zero


def tensor_of(variable):
    """The tensor of a variable, without the scopes that Keras asks for; a tensor stays."""
    return getattr(variable, "_value", variable)  # with LoRA, a kernel is a tensor


def moments(optimizer, variable):
    """The variables m and v that an Adam has for a weight."""
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index], optimizer._velocities[index]
