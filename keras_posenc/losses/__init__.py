"""Losses for `model.compile`: of chains of tags, sets, spans, similarity and ranking."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.losses.chains import ConditionalRandomFieldLoss, MaximumEntropyMarkovLoss
    from keras_posenc.losses.matryoshka import Matryoshka
    from keras_posenc.losses.multilabel import (
        MultilabelCategoricalCrossentropy,
        SparseMultilabelCategoricalCrossentropy,
    )
    from keras_posenc.losses.passages import PassageRanking
    from keras_posenc.losses.ranking import ListwiseKL, MarginMSE, MaxSimRanking
    from keras_posenc.losses.similarity import CoSENT, CosineRegression, MultipleNegativesRanking
    from keras_posenc.losses.smoothed import SmoothedSparseCategoricalCrossentropy
    from keras_posenc.losses.spans import SpanCrossentropy

__all__ = [
    "ConditionalRandomFieldLoss", "CoSENT", "CosineRegression", "ListwiseKL", "MarginMSE",
    "Matryoshka", "MaximumEntropyMarkovLoss", "MaxSimRanking", "MultilabelCategoricalCrossentropy",
    "MultipleNegativesRanking", "PassageRanking", "SmoothedSparseCategoricalCrossentropy",
    "SpanCrossentropy", "SparseMultilabelCategoricalCrossentropy",
]  # fmt: skip

names_on_request(__name__)
