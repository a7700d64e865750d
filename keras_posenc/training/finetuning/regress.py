"""Numbers of a text, or of a pair of texts."""

import dataclasses
import functools
import typing

import keras
import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.scores import by_lengths, check_finite, pearson, spearman
from keras_posenc.models.heads import regressor
from keras_posenc.text import FloatLabels
from keras_posenc.text.files import read_table
from keras_posenc.text.groups import SCORE_NAMES
from keras_posenc.text.label_columns import numbers_in
from keras_posenc.training.finetuning.task import TextTask, pooled, value_names


class NumberPrediction(typing.NamedTuple):
    """The predicted numbers of a document."""

    values: list

    def columns(self):
        """The names of the cells."""
        return value_names(len(self.values))

    def cells(self):
        """The numbers, as text."""
        return [f"{value:.6g}" for value in self.values]


@dataclasses.dataclass(frozen=True, repr=False)
class Regress(TextTask):
    """Texts, or pairs of texts, with one number or several each.

    Args:
        pooling, head_dropout: as in `Classify`.

    Example:

    >>> Regress(head_dropout=0.2)
    Regress(head_dropout=0.2)
    """

    pooling: str = "mean"
    head_dropout: float = 0.1

    name = "regress"
    scores = {
        "spearman": "Spearman",
        "pearson": "Pearson",
        "mean_absolute_error": "mean error",
        "loss": "loss",
    }
    watched = ("mean_absolute_error",)
    problem_type = "regression"
    read_file = staticmethod(
        functools.partial(read_table, parse=numbers_in, usual_names=SCORE_NAMES)
    )
    head = regressor
    loss_of_outputs = keras.losses.MeanSquaredError
    metrics_of_outputs = (keras.metrics.MeanAbsoluteError,)

    def checked(self, where, text, value):
        try:
            numbers = [float(number) for number in np.atleast_1d(np.asarray(value, "float64"))]
        except (TypeError, ValueError, OverflowError):
            numbers = []
        if not numbers or not np.isfinite(numbers).all():
            raise ValueError(
                f"The text {where} has the label {quote(value)}: give a finite number, or a list "
                "of them."
            )
        return numbers

    def label_names(self, train):
        count = len(train.labels[0])
        self.check_label_names(train, ["value"] * count, "train")
        return value_names(count)

    def check_label_names(self, documents, label_names, role):
        for line, numbers in zip(documents.lines, documents.labels, strict=True):
            if len(numbers) != len(label_names):
                raise ValueError(
                    f"{role}, line {line}: {len(numbers)} numbers where the training's first text "
                    f"has {len(label_names)}."
                )

    def labels(self, label_names, values=None):
        return FloatLabels(values)

    def merged(self, texts, batches, outputs, label_names, pool):
        """Numbers (N, C)."""
        check_finite(outputs)
        return pooled(batches, outputs, pool)

    def measure(self, finetuned, documents, verbose):
        results, lengths = finetuned.judged(documents.texts, verbose)
        true, predicted = np.array(documents.labels), np.asarray(results, "float64")

        def scores(chosen):
            return {"mean_absolute_error": float(np.abs(true - predicted)[chosen].mean())}

        columns = list(zip(true.T, predicted.T, strict=True))
        return {
            **by_lengths(scores, lengths),
            "pearson": float(np.mean([pearson(*each) for each in columns])),
            "spearman": float(np.mean([spearman(*each) for each in columns])),
            "loss": float(np.square(true - predicted).mean()),
        }

    def predictions(self, texts, results, label_names):
        return [NumberPrediction([float(value) for value in row]) for row in results]
