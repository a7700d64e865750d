"""Activations by the names that published configs use."""

import keras

from keras_posenc import backend
from keras_posenc.files.untrusted import quote


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu(x):
    """Exact GELU, x Phi(x), with an efficient gradient.

    It keeps only x for the backward pass. On TensorFlow, the GELU of Keras keeps up to three more
    tensors of the inner size, and it is 1.3 to 2 times slower on TensorFlow and JAX. PyTorch has a
    fused kernel. Returns the shape and dtype of x.

    Example:

    >>> round(float(gelu(ops.convert_to_tensor(1.0))), 4)
    0.8413
    """
    return backend.gelu(x)


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu_tanh(x):
    """GELU in its tanh approximation, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_posenc")
def quick_gelu(x):
    """GELU in its sigmoid approximation, x sigmoid(1.702 x)."""
    return x * keras.ops.sigmoid(1.702 * x)


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu_10(x):
    """Exact GELU, cut off at -10 and 10."""
    return keras.ops.clip(gelu(x), -10, 10)


@keras.saving.register_keras_serializable(package="keras_posenc")
def relu2(x):
    """The square of ReLU."""
    return keras.ops.square(keras.ops.relu(x))


@keras.saving.register_keras_serializable(package="keras_posenc")
def leaky_relu(x):
    """Leaky ReLU with the slope 0.01 below 0, as in Hugging Face; that of Keras has 0.2."""
    return keras.ops.leaky_relu(x, negative_slope=0.01)


@keras.saving.register_keras_serializable(package="keras_posenc")
def rounded_tanh(x):
    """round(127 tanh(x)), the int8 of pplx-embed, with the gradient of 127 tanh(x)."""
    constant, exact = keras.ops.stop_gradient, 127 * keras.ops.tanh(x)
    return constant(keras.ops.round(exact)) + (exact - constant(exact))


# "gelu" is the exact one (erf), as in Hugging Face.
NAMES = {
    "gelu": gelu,
    "gelu_python": gelu,
    "gelu_new": gelu_tanh,
    "gelu_accurate": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_tanh": gelu_tanh,
    "gelu_python_tanh": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu_10": gelu_10,
    "quick_gelu": quick_gelu,
    "relu2": relu2,
    "hardswish": "hard_silu",
    "leaky_relu": leaky_relu,
    "swish": "silu",
}


def get(name):
    """Returns the activation that a config's `hidden_act` names.

    `name`: a name, a function, or a list of them for a gated unit. Returns a function, or a list of
    functions.

    Example:

    >>> get("gelu_new").__name__
    'gelu_tanh'
    """
    if isinstance(name, (list, tuple)):
        return [get(one) for one in name]
    try:
        return keras.activations.get(NAMES.get(name) or name)
    except (ValueError, TypeError):
        raise ValueError(
            f"Unknown activation {quote(name)}: give a name Keras knows (relu, silu, tanh, ...) or "
            f"one of {sorted(NAMES)}."
        ) from None
