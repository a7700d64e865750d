"""Activations by the names that configs use."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu(x):
    """GELU by the error function, x Phi(x), keeping nothing but x for the backward pass.

    Keras' own keeps up to three more tensors of the inner size on TensorFlow, and takes 1.3 to 2
    times as long there and on JAX. torch has a fused kernel.
    """
    return keras.activations.gelu(x) if keras.backend.backend() == "torch" else _gelu(x)


@ops.custom_gradient
def _gelu(x):
    def gradient(*upstream, **named):
        (g,) = upstream or named.values()
        return g * (_phi(x) + x * (math.sqrt(0.5 / math.pi) * ops.exp(-0.5 * x * x)))

    return x * _phi(x), gradient


def _phi(x):
    """The normal distribution function."""
    return 0.5 + 0.5 * ops.erf(x * math.sqrt(0.5))


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu_tanh(x):
    """GELU by the tanh formula, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_posenc")
def quick_gelu(x):
    """GELU by a sigmoid, x sigmoid(1.702 x)."""
    return x * keras.ops.sigmoid(1.702 * x)


# "gelu" is the exact one (erf), as in Hugging Face.
NAMES = {
    "gelu": gelu,
    "gelu_python": gelu,
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_tanh": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "swish": "silu",
}


def get(name):
    """The activation that a config's `hidden_act` means: one, or a list for a gated unit."""
    if isinstance(name, (list, tuple)):
        return [get(one) for one in name]
    try:
        return keras.activations.get(NAMES.get(name) or name)
    except (ValueError, TypeError):
        raise ValueError(
            f"Unknown activation {name!r}: give a name Keras knows (relu, silu, tanh, ...) or one "
            "of "
            f"{sorted(NAMES)}."
        ) from None
