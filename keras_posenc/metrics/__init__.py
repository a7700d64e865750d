"""Metrics for `model.compile`: of chains of tags, sets of spans, spans, pairs, and any loss."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.losses.chains import ViterbiAccuracy
    from keras_posenc.losses.multilabel import SpanF1
    from keras_posenc.losses.similarity import InBatchAccuracy
    from keras_posenc.losses.spans import SpanAccuracy
    from keras_posenc.metrics.mean_loss import MeanLoss

__all__ = [
    "InBatchAccuracy", "MeanLoss", "SpanAccuracy", "SpanF1", "ViterbiAccuracy",
]  # fmt: skip

names_on_request(__name__)
