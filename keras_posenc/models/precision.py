"""Inference of models of float32 in the half precision of a GPU."""

import contextlib

import keras

from keras_posenc import backend
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.backend.keras_names import LOGGER, layers_in
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import RMSNormalization
from keras_posenc.layers.token_embedding import AddTo, BiasAdd, IdEmbedding, TokenEmbedding
from keras_posenc.models.model import TransformerModel
from keras_posenc.positions.learned import LearnedPositionEmbedding
from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding

# The layers of a transformer; what pools or classifies their features stays in float32.
KINDS = {
    AddTo,
    BiasAdd,
    Dropout,
    FeedForward,
    IdEmbedding,
    LearnedPositionEmbedding,
    PositionalAttention,
    RMSNormalization,
    SinusoidalPositionEmbedding,
    TokenEmbedding,
    TransformerModel,
    keras.layers.Dense,
    keras.layers.Dropout,
    keras.layers.EinsumDense,
    keras.layers.LayerNormalization,
}
_SAID = set()


@contextlib.contextmanager
def lower_precision(model):
    """A context in which the transformer of a model of float32 computes in half precision.

    That is where a GPU with PyTorch has it: bfloat16, or float16 where that is all it has. The
    weights stay, and are cast once for all batches.

    Args:
        model: `keras.Model`.
    """
    dtype = backend.inference_dtype()
    if dtype == "float32":
        yield
        return
    layers = [x for x in layers_in(model) if type(x) in KINDS and x.dtype_policy.name == "float32"]
    if layers and dtype not in _SAID:
        _SAID.add(dtype)
        LOGGER.warning(
            f"Texts are computed in {dtype} on this GPU. Set the environment variable "
            "KERAS_POSENC_PRECISION=float32 for float32, which takes longer."
        )
    for layer in layers:
        layer.dtype_policy = f"mixed_{dtype}"
    try:
        yield
    finally:
        for layer in layers:
            layer.dtype_policy = "float32"
