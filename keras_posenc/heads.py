"""Heads: functions that put one on an encoder, and the layers that they are made of."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.models.heads import classifier, regressor, span_head, token_classifier
    from keras_posenc.models.pooling import MaskedPooling
    from keras_posenc.models.similarity import ranking, similarity
    from keras_posenc.models.span_logits import SpanLogits
    from keras_posenc.retrieval.sparse.pooling import SparsePooling

__all__ = [
    "classifier", "MaskedPooling", "ranking", "regressor", "similarity", "span_head", "SpanLogits",
    "SparsePooling", "token_classifier",
]  # fmt: skip

names_on_request(__name__)
