"""Metrics for `model.compile`: of chains of tags, sets of spans, spans, pairs, and any loss."""

from typing import TYPE_CHECKING

from keras_posenc.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.training.chains import ViterbiAccuracy
    from keras_posenc.training.mean_loss import MeanLoss
    from keras_posenc.training.multilabel_losses import SpanF1
    from keras_posenc.training.similarity_losses import InBatchAccuracy
    from keras_posenc.training.span_losses import SpanAccuracy

__all__ = [
    "InBatchAccuracy",
    "MeanLoss",
    "SpanAccuracy",
    "SpanF1",
    "ViterbiAccuracy",
]

names_on_request(__name__)
