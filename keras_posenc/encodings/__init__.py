"""Position encodings by the place where position acts, and `get`, which finds one by its name."""

import difflib

import keras

from keras_posenc.encodings.base import Encoding
from keras_posenc.encodings.bias import FIRE, KERPLE, T5Bias
from keras_posenc.encodings.contextual import ContextualPositionEmbedding
from keras_posenc.encodings.deberta import DeBERTaRelative
from keras_posenc.encodings.forgetting import ForgetGate, SelectiveAttention
from keras_posenc.encodings.masks import Window
from keras_posenc.encodings.normalizers import SquaredReLU, StickBreaking
from keras_posenc.encodings.relative import NEZHA, ShawRelative
from keras_posenc.encodings.rerope import ReRoPE
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.encodings.scale import LogN, ScalableSoftmax, Temperature
from keras_posenc.encodings.separable import ALiBi, RotaryBias, Sandwich
from keras_posenc.encodings.transformer_xl import TransformerXLRelative
from keras_posenc.encodings.xpos import XPos

# name -> class, every encoding that attention can be given.
ENCODINGS = {
    "alibi": ALiBi,
    "cope": ContextualPositionEmbedding,
    "deberta": DeBERTaRelative,
    "fire": FIRE,
    "forget_gate": ForgetGate,
    "kerple": KERPLE,
    "log_n": LogN,
    "nezha": NEZHA,
    "rerope": ReRoPE,
    "rotary": RotaryEmbedding,
    "rotary_bias": RotaryBias,
    "sandwich": Sandwich,
    "selective": SelectiveAttention,
    "shaw": ShawRelative,
    "squared_relu": SquaredReLU,
    "ssmax": ScalableSoftmax,
    "stick_breaking": StickBreaking,
    "t5": T5Bias,
    "temperature": Temperature,
    "transformer_xl": TransformerXLRelative,
    "window": Window,
    "xpos": XPos,
}


def get(spec):
    """The encoding that `spec` means, in the manner of `keras.activations.get`.

    Args:
        spec: a name of `ENCODINGS`; a dict with that name under "name" and the arguments beside it;
            the serialised form of an encoding; or an instance, which is cloned from its config,
            since two layers that hold one trainable encoding cannot be saved.

    Example:

    >>> class Backwards(Encoding):
    ...     def bias(self, q, grid):
    ...         return -1.0 * grid.distance()[:, None]
    >>> get(Backwards())
    """
    if isinstance(spec, Encoding):
        return type(spec).from_config(spec.get_config())
    if isinstance(spec, dict) and "class_name" in spec:
        return keras.saving.deserialize_keras_object(spec)
    name, arguments = spec, {}
    if isinstance(spec, dict):
        arguments = dict(spec)
        name = arguments.pop("name", None)
    if not isinstance(name, str):
        raise TypeError(
            f"An encoding is a name, a dict with a name, or an Encoding. Received: {spec!r}"
        )
    if name not in ENCODINGS:
        near = difflib.get_close_matches(name, ENCODINGS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {sorted(ENCODINGS)}."
        raise ValueError(f"Unknown encoding {name!r}: {hint}")
    return ENCODINGS[name](**arguments)
