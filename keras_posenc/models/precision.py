"""Inference of models of float32 in the half precision of a GPU."""

import collections
import contextlib
import contextvars
import threading

import keras

from keras_posenc import backend
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.backend.keras_names import LOGGER, layers_in
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import RMSNormalization
from keras_posenc.layers.token_embedding import AddTo, BiasAdd
from keras_posenc.models.direct import CALLS, calls_in
from keras_posenc.models.model import TransformerModel

# The layers of a transformer; what pools or classifies their features stays in float32.
KINDS = {*CALLS, TransformerModel, keras.layers.EinsumDense}
BLOCKS = {FeedForward, PositionalAttention}
# What may follow the last block of a transformer, and is a part of it.
ENDS = (AddTo, BiasAdd, keras.layers.Dropout, keras.layers.LayerNormalization, RMSNormalization)
_SAID = set()
_LOCK, _USES = threading.Lock(), collections.Counter()
_DTYPE = contextvars.ContextVar("_DTYPE", default="float32")


class _Lower(keras.DTypePolicy):
    """A mixed policy within `lower_precision`, and that of float32 in other threads."""

    @property
    def compute_dtype(self):
        return _DTYPE.get()


_POLICY = _Lower("float32")


@contextlib.contextmanager
def lower_precision(model):
    """A context in which the transformer of a model of float32 computes in half precision.

    That is where a GPU with PyTorch has it: bfloat16, or float16 where that is all it has. The
    weights stay, and are cast once for all batches. A model without the attention of this package
    stays as it is, and so does what other threads compute.
    """
    dtype = backend.inference_dtype()
    if dtype == "float32":
        yield
        return
    layers = [x for x in _transformer_of(model) if x.dtype_policy.name == "float32"]
    if layers and dtype not in _SAID:
        _SAID.add(dtype)
        LOGGER.warning(
            f"Texts are computed in {dtype} on this GPU. Set the environment variable "
            "KERAS_POSENC_PRECISION=float32 for float32, which takes longer."
        )
    token = _DTYPE.set(dtype)
    try:
        with _LOCK:
            for layer in layers:
                _USES[layer] += 1
                layer.dtype_policy = _POLICY
        yield
    finally:
        _DTYPE.reset(token)
        with _LOCK:
            for layer in layers:
                _USES[layer] -= 1
                if not _USES[layer]:
                    del _USES[layer]
                    layer.dtype_policy = "float32"


def _transformer_of(model):
    """The layers of a model up to the end of its last block, and those inside of them."""
    layers = [call.operation for call in calls_in(model)]
    blocks = [i for i, x in enumerate(layers) if any(type(y) in BLOCKS for y in _inside(x))]
    if not blocks:
        return []
    end = blocks[-1] + 1
    while end < len(layers) and isinstance(layers[end], ENDS):
        end += 1
    inside = {id(x): x for layer in layers[:end] for x in _inside(layer)}
    inside |= {id(model): model} if type(model) is TransformerModel else {}
    return [x for x in inside.values() if type(x) in KINDS]


def _inside(operation):
    return layers_in(operation) if isinstance(operation, keras.Layer) else []
