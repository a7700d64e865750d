"""One class a text."""

import dataclasses
import functools
import typing

import keras
import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.scores import check_finite, classification, softmax
from keras_posenc.text import ClassLabels, labels_of, read_texts
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.finetuning.task import TextTask, pooled

FEW = 10  # documents, whose classes may well have one example each


class Prediction(typing.NamedTuple):
    """The predicted label of a document, with probabilities.

    Attributes:
        label: str. The most probable label.
        probability: float. Its probability.
        probabilities: dict, label -> probability, for all labels.

    Example:

    >>> Prediction("b", 0.75, {"a": 0.25, "b": 0.75}).label
    'b'
    """

    label: str
    probability: float
    probabilities: dict

    def columns(self):
        """The names of the cells."""
        return ["label", "probability"]

    def cells(self):
        """The label and its probability, as text."""
        return self.label, f"{self.probability:.4f}"


def _question(labels):
    """Logs that there are nearly as many classes as documents: the column may be another one.

    No error, because there may be one example per class.
    """
    classes = len(set(labels))
    if len(labels) >= FEW and 2 * classes > len(labels):
        LOGGER.warning(
            f"The {len(labels):,} documents to train on have {classes:,} different labels, such as "
            f"{quote(labels[0])} and {quote(labels[1])}. Is this a column of ids, or of numbers? "
            "Name the column of the classes with label (--label-column), or predict numbers with "
            'task="regress" (--task regress).'
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Classify(TextTask):
    """Texts, or pairs of texts, with one class each.

    Args:
        pooling: str. How the features of the tokens become those of a text. One of "mean", "cls",
            "max", "last", "weighted_mean", "sqrt_mean", or "head": the head that the family has in
            transformers, which `TextModel.export` can write.
        head_dropout: float. Dropout before the last layer; with `pooling` "head" that of the
            config.
        class_weight: weight of each class in the loss. A dict, label or its index -> number, has 1
            for those left out. "balanced" gives all classes the same total weight. They also weight
            the training accuracy, but not `validation`.

    Example:

    >>> Classify(class_weight="balanced")
    Classify(class_weight='balanced')
    """

    pooling: str = "mean"
    head_dropout: float = 0.1
    class_weight: object = None

    name = "classify"
    scores = {"accuracy": "accuracy", "macro_f1": "macro F1", "loss": "loss"}
    watched = ("accuracy",)
    problem_type = "single_label_classification"
    read_file = staticmethod(read_texts)
    loss_of_outputs = staticmethod(
        functools.partial(keras.losses.SparseCategoricalCrossentropy, from_logits=True)
    )
    metrics_of_outputs = (lambda: "accuracy",)

    def check_labels(self, documents, role):
        super().check_labels(documents, role)
        if role == "train":
            _question(documents.labels)

    def checked(self, where, text, value):
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.item()
        if isinstance(value, bytes):
            raise ValueError(
                f"The label {where} must be a str, and is bytes: decode it. Received: "
                f"{quote(value)}"
            )
        if isinstance(value, (float, np.floating)) and not np.isfinite(value):
            raise ValueError(
                f"The label {where} must be a name or a finite number; give another one, or leave "
                f"the text out. Received: {value}"
            )
        if hasattr(value, "__len__") and not isinstance(value, str):
            raise ValueError(
                f"The label {where} must be one name or number. Of one-hot rows, give the numbers "
                "of the classes, np.argmax(labels, axis=1); several labels of a text are for "
                f'task="multilabel". Received: {quote(value)}'
            )
        name = str(value).strip()
        if not name:
            raise ValueError(f"The label {where} is empty; leave the text out or name it.")
        return name

    def label_names(self, train):
        labels = labels_of(train)
        if len(labels) < 2:
            raise ValueError(
                f"train has one label only, {quote(labels[0])}: there is nothing to learn."
            )
        return labels

    def names_in(self, label):
        return [label]

    def labels(self, label_names, values=None):
        return ClassLabels(values, label_names)

    def merged(self, texts, batches, outputs, label_names, pool):
        """Logits (N, C), those of several windows by their probabilities."""
        check_finite(outputs)
        if len(outputs) == len(texts) or pool == "logits":
            return pooled(batches, outputs, pool)
        return np.log(np.maximum(pooled(batches, softmax(outputs), pool), 1e-30))

    def measure(self, finetuned, documents, verbose):
        order = {name: index for index, name in enumerate(finetuned.label_names)}
        labels = [order[name] for name in documents.labels]
        logits, lengths = finetuned.judged(documents.texts, verbose)
        return classification(logits, labels, lengths, len(order))

    def predictions(self, texts, results, label_names):
        rows = [dict(zip(label_names, row, strict=True)) for row in softmax(results).tolist()]
        return [Prediction(best := max(row, key=row.get), row[best], row) for row in rows]
