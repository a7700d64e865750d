"""Keras layers: attention, position embeddings, norms, structured outputs, pooling."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.attention.gau import GatedAttentionUnit
    from keras_posenc.attention.layer import PositionalAttention
    from keras_posenc.attention.log_n import LogNAttention
    from keras_posenc.attention.shared_table import SharedTable
    from keras_posenc.encodings.contextual import ContextualPositionEmbedding
    from keras_posenc.encodings.rotary import RotaryEmbedding
    from keras_posenc.layers.norm import ConditionalLayerNormalization, RMSNormalization
    from keras_posenc.layers.structured.crf import ConditionalRandomField
    from keras_posenc.layers.structured.decoders import ChainMarginals, ViterbiDecoder
    from keras_posenc.layers.structured.memm import MaximumEntropyMarkovModel
    from keras_posenc.layers.structured.pointer import EfficientGlobalPointer, GlobalPointer
    from keras_posenc.models.pooling import MaskedPooling
    from keras_posenc.models.span_logits import SpanLogits
    from keras_posenc.positions import (
        AbacusPositionIds,
        CoupledPositionIds,
        PaddedPositionIds,
        RandomPositionIds,
        SegmentPositionIds,
    )
    from keras_posenc.positions.learned import LearnedPositionEmbedding
    from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding
    from keras_posenc.positions.stretched import (
        FreshPositionEmbedding,
        HierarchicalPositionEmbedding,
        InterpolatedPositionEmbedding,
        TiledPositionEmbedding,
    )
    from keras_posenc.retrieval.sparse.pooling import SparsePooling

__all__ = [
    "AbacusPositionIds", "ChainMarginals", "ConditionalLayerNormalization",
    "ConditionalRandomField", "ContextualPositionEmbedding", "CoupledPositionIds",
    "EfficientGlobalPointer", "FreshPositionEmbedding", "GatedAttentionUnit", "GlobalPointer",
    "HierarchicalPositionEmbedding", "InterpolatedPositionEmbedding", "LearnedPositionEmbedding",
    "LogNAttention", "MaskedPooling", "MaximumEntropyMarkovModel", "PaddedPositionIds",
    "PositionalAttention", "RandomPositionIds", "RMSNormalization", "RotaryEmbedding",
    "SegmentPositionIds", "SharedTable", "SinusoidalPositionEmbedding", "SpanLogits",
    "SparsePooling", "TiledPositionEmbedding", "ViterbiDecoder",
]  # fmt: skip

names_on_request(__name__)
