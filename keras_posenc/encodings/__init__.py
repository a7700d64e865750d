"""Position encodings, one file for each place in attention where they act, and `get` by name."""

import difflib
import functools

import keras

from keras_posenc.encodings.base import Encoding
from keras_posenc.encodings.bias import FIRE, KERPLE, T5Bias
from keras_posenc.encodings.conditioned import ContentBias
from keras_posenc.encodings.contextual import ContextualPositionEmbedding
from keras_posenc.encodings.dape import DAPE
from keras_posenc.encodings.deberta import DeBERTaRelative
from keras_posenc.encodings.forgetting import ForgetGate, SelectiveAttention
from keras_posenc.encodings.log_cpb import LogCPB
from keras_posenc.encodings.normalizers import SquaredReLU, StickBreaking
from keras_posenc.encodings.path import PaTH
from keras_posenc.encodings.patterns import alternate
from keras_posenc.encodings.pope import PoPE
from keras_posenc.encodings.relative import NEZHA, ShawRelative
from keras_posenc.encodings.remapped import STRING, DualChunk, ReRoPE, SelfExtend
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.encodings.scale import LogN, ScalableSoftmax, Temperature
from keras_posenc.encodings.separable import ALiBi, RotaryBias, Sandwich
from keras_posenc.encodings.sinks import SinkLogits
from keras_posenc.encodings.transformer_xl import TransformerXLRelative
from keras_posenc.encodings.window import Window
from keras_posenc.encodings.xpos import XPos
from keras_posenc.files.untrusted import quote
from keras_posenc.keras_support.lazy import names_on_request
from keras_posenc.maps.grid import Grid

__all__ = [
    "ALiBi", "alternate", "ContentBias", "ContextualPositionEmbedding", "DAPE", "DeBERTaRelative",
    "DualChunk", "Encoding", "ENCODINGS", "FIRE", "ForgetGate", "get", "Grid", "KERPLE", "LogCPB",
    "LogN", "NEZHA", "PaTH", "PoPE", "ReRoPE", "RotaryBias", "RotaryEmbedding", "Sandwich",
    "ScalableSoftmax", "SelectiveAttention", "SelfExtend", "ShawRelative", "SinkLogits",
    "SquaredReLU", "StickBreaking", "STRING", "T5Bias", "Temperature", "TransformerXLRelative",
    "Window", "XPos",
]  # fmt: skip

# Name -> class. Every encoding that attention accepts is listed.
ENCODINGS = {
    "alibi": ALiBi,
    "content_bias": ContentBias,
    "cope": ContextualPositionEmbedding,
    "dape": DAPE,
    "deberta": DeBERTaRelative,
    "dual_chunk": DualChunk,
    "fire": FIRE,
    "forget_gate": ForgetGate,
    "kerple": KERPLE,
    "log_cpb": LogCPB,
    "log_n": LogN,
    "nezha": NEZHA,
    "path": PaTH,
    "pope": PoPE,
    "rerope": ReRoPE,
    "rotary": RotaryEmbedding,
    "rotary_bias": RotaryBias,
    "sandwich": Sandwich,
    "selective": SelectiveAttention,
    "self_extend": SelfExtend,
    "shaw": ShawRelative,
    "sink_logits": SinkLogits,
    "squared_relu": SquaredReLU,
    "ssmax": ScalableSoftmax,
    "stick_breaking": StickBreaking,
    "string": STRING,
    "t5": T5Bias,
    "temperature": Temperature,
    "transformer_xl": TransformerXLRelative,
    "window": Window,
    "xpos": XPos,
}
# Names of what is found under another name, or is no encoding of attention.
ELSEWHERE = {
    "rope": "it is called 'rotary' here.",
    "relative": "there are several: 'shaw', 't5', 'transformer_xl' and others.",
    "sinusoidal": "SinusoidalPositionEmbedding is a layer of its own, before attention.",
    "learned": "LearnedPositionEmbedding is a layer of its own, before attention.",
    "none": "give an empty list.",
}


def get(spec):
    """Returns the encoding that `spec` names, as `keras.activations.get` does for activations.

    Args:
        spec: str, dict or `Encoding`. A name of `ENCODINGS`, a dict with that name under "name"
            and the arguments, or the serialised form of an encoding. An instance is cloned from
            its config, because two layers that share a trainable encoding cannot be saved.

    Returns:
        A new `Encoding`.

    Example:

    >>> get({"name": "t5", "num_buckets": 16}).num_buckets
    16
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
            f"An encoding is a name, a dict with a name, or an Encoding. Received: {quote(spec)}"
        )
    if name not in ENCODINGS:
        folded = name.replace("_", "").casefold()
        exact = [n for n, kind in ENCODINGS.items() if folded in _spellings(n, kind)]
        near = exact or difflib.get_close_matches(name.casefold(), ENCODINGS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {sorted(ENCODINGS)}."
        hint = ELSEWHERE.get(name.lower(), hint)
        raise ValueError(f"Unknown encoding {quote(name)}: {hint}")
    return ENCODINGS[name](**arguments)


def _spellings(name, kind):
    return name.replace("_", ""), kind.__name__.casefold()


def spec_of(encoding):
    """The dict by which `get` makes an encoding again: its name, and arguments unlike the defaults.

    `encoding`: an `Encoding`. Returns a dict that JSON can hold.

    Example:

    >>> spec_of(Window(128, global_tokens=1))
    {'name': 'window', 'window': 128, 'global_tokens': 1}
    """
    name = next((name for name, known in ENCODINGS.items() if known is type(encoding)), None)
    if name is None:
        raise ValueError(
            f"{type(encoding).__name__} has no name among those of `ENCODINGS`: save "
            "the model as .keras, which keeps classes."
        )
    usual, config = _default_config(type(encoding)), _unshared(encoding.get_config())
    changed = {k: v for k, v in config.items() if k not in ("name", "dtype") and v != usual[k]}
    return {"name": name, **changed}


@functools.cache
def _default_config(kind):
    return _unshared(kind().get_config())


def _unshared(config):
    """A config without the marks that Keras sets in a file on objects that occur twice, by their
    addresses: of what is thrown away immediately, the next may have the same."""
    if isinstance(config, dict):
        return {k: _unshared(v) for k, v in config.items() if k != "shared_object_id"}
    return [_unshared(x) for x in config] if isinstance(config, list) else config


names_on_request(__name__)
