"""Any number of classes a text."""

import dataclasses
import functools
import typing

import keras
import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.scores import by_lengths, check_finite, f1_of_counts
from keras_posenc.text import MultiLabels
from keras_posenc.text.files import read_table
from keras_posenc.text.label_columns import names_in
from keras_posenc.training.finetuning.task import TextTask, pooled


class MultiPrediction(typing.NamedTuple):
    """The predicted labels of a document, those of a probability of one half or more, and the
    probabilities of all labels."""

    labels: list
    probabilities: dict

    def columns(self):
        """The names of the cells."""
        return ["labels"]

    def cells(self):
        """The labels, with | between, as the input has them."""
        return ("|".join(self.labels),)


@dataclasses.dataclass(frozen=True, repr=False)
class MultiLabel(TextTask):
    """Texts, or pairs of texts, with any number of classes each.

    Args:
        pooling, head_dropout: as in `Classify`.

    Example:

    >>> MultiLabel(pooling="cls")
    MultiLabel(pooling='cls')
    """

    pooling: str = "mean"
    head_dropout: float = 0.1

    name = "multilabel"
    scores = {
        "micro_f1": "micro F1",
        "macro_f1": "macro F1",
        "exact_match": "exact match",
        "loss": "loss",
    }
    watched = ("accuracy",)
    problem_type = "multi_label_classification"
    read_file = staticmethod(functools.partial(read_table, parse=names_in))
    loss_of_outputs = staticmethod(
        functools.partial(keras.losses.BinaryCrossentropy, from_logits=True)
    )
    metrics_of_outputs = (  # of logits
        functools.partial(keras.metrics.BinaryAccuracy, "accuracy", threshold=0.0),
    )

    def checked(self, where, text, value):
        names = value if isinstance(value, (list, tuple, set, frozenset, np.ndarray)) else [None]
        if not all(isinstance(name, str) and name for name in names):
            raise ValueError(
                f"The text {where} has the labels {quote(value)}: give a list of names (str), "
                "which may be empty. Of a row of 0 and 1, these are [name for name, is_one in "
                "zip(names, row) if is_one]."
            )
        return sorted(set(names))

    def label_names(self, train):
        label_names = sorted({name for labels in train.labels for name in labels})
        if len(label_names) < 2:
            raise ValueError(f"train has the labels {quote(label_names)} only: give two or more.")
        return label_names

    def names_in(self, label):
        return label

    def labels(self, label_names, values=None):
        return MultiLabels(values, label_names)

    def merged(self, texts, batches, outputs, label_names, pool):
        """Probabilities (N, C)."""
        check_finite(outputs)
        if pool == "logits":
            return _sigmoid(pooled(batches, outputs, pool))
        return pooled(batches, _sigmoid(outputs), pool)

    def measure(self, finetuned, documents, verbose):
        results, lengths = finetuned.judged(documents.texts, verbose)
        true = np.array(
            [[name in label for name in finetuned.label_names] for label in documents.labels]
        )
        predicted = results >= 0.5
        p = np.clip(np.where(true, results, 1 - results), 1e-7, None)

        def scores(chosen):
            hits, num_true, num_predicted = _counts(true[chosen], predicted[chosen])
            micro = f1_of_counts(hits.sum(), num_true.sum(), num_predicted.sum())
            return {"micro_f1": micro["f1"], "exact_match": _share(true[chosen], predicted[chosen])}

        hits, num_true, num_predicted = _counts(true, predicted)
        classes = {
            name: f1_of_counts(*counts)
            for name, *counts in zip(
                finetuned.label_names, hits, num_true, num_predicted, strict=True
            )
        }
        return {
            **by_lengths(scores, lengths),
            "macro_f1": float(np.mean([each["f1"] for each in classes.values()])),
            "loss": float(-np.log(p).mean()),
            "classes": classes,
        }

    def predictions(self, texts, results, label_names):
        rows = [dict(zip(label_names, row, strict=True)) for row in results.tolist()]
        return [MultiPrediction([name for name in row if row[name] >= 0.5], row) for row in rows]


def _sigmoid(logits):
    return 0.5 * (1 + np.tanh(np.asarray(logits, "float64") / 2))


def _counts(true, predicted):
    return (true & predicted).sum(0), true.sum(0), predicted.sum(0)


def _share(true, predicted):
    return float((true == predicted).all(axis=1).mean())
