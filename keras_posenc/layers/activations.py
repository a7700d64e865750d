"""Activations by the names that configs use."""

import keras


@keras.saving.register_keras_serializable(package="keras_posenc")
def gelu_tanh(x):
    """GELU by the tanh formula, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_posenc")
def quick_gelu(x):
    """GELU by a sigmoid, x sigmoid(1.702 x)."""
    return x * keras.ops.sigmoid(1.702 * x)


# "gelu" is the exact one (erf), as in Hugging Face; where it is Keras' own, None.
NAMES = {
    "gelu": None,
    "gelu_python": "gelu",
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
