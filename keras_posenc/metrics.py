"""Metrics for `model.compile`: of chains of tags, sets of spans, spans and pairs."""

from keras_posenc.training.chains import ViterbiAccuracy
from keras_posenc.training.multilabel_losses import SpanF1
from keras_posenc.training.similarity_losses import InBatchAccuracy
from keras_posenc.training.span_losses import SpanAccuracy

__all__ = [
    "InBatchAccuracy",
    "SpanAccuracy",
    "SpanF1",
    "ViterbiAccuracy",
]
