"""scikit-learn: a classifier of long texts with `fit`, `predict` and `predict_proba`."""

import dataclasses
import numbers
import tempfile

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.scores import softmax
from keras_posenc.text.documents import texts_of
from keras_posenc.training import Classify, finetune, load_finetuned
from keras_posenc.training.finetuning.labelled_documents import is_missing

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import NotFittedError
except ImportError:
    raise ImportError("This adapter needs scikit-learn: pip install scikit-learn") from None


class TextClassifier(ClassifierMixin, BaseEstimator):
    """An encoder that `fit` trains to classify texts, as an estimator of scikit-learn.

    Args:
        checkpoint: str or path, as in `finetune`.
        max_length: int or None. Tokens that are read of a text.
        epochs: int or None.
        freeze: as in `finetune`. "encoder", for few texts, trains a linear head in seconds.
        settings: dict or None. Further arguments of `finetune`.

    Attributes:
        classes_: array of the labels.
        model_: `TextModel`.

    Raises:
        ImportError: if scikit-learn is not installed.

    Example:

    >>> classifier = TextClassifier("bert", max_length=16, epochs=1)
    >>> classifier = classifier.fit(["a quiet house", "a loud street"] * 4, ["good", "bad"] * 4)
    >>> classifier.predict_proba(["a quiet street"]).shape
    (1, 2)
    """

    def __init__(self, checkpoint, max_length=None, epochs=None, settings=None, freeze=None):
        self.checkpoint, self.max_length = checkpoint, max_length
        self.epochs, self.settings, self.freeze = epochs, settings, freeze

    def __getattr__(self, name):
        if name in ("classes_", "model_"):
            raise NotFittedError(f"This TextClassifier has no {name} yet: call `fit` first.")
        raise AttributeError(f"TextClassifier has no attribute {name!r}")

    def fit(self, X, y, sample_weight=None):
        """Trains on texts X and labels y; returns the estimator."""
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` is not supported: weight whole classes, with settings="
                '{"task": Classify(class_weight="balanced")}.'
            )
        texts, classes, places = texts_of(X, "X"), *_classes(y)
        settings = {"verbose": 0, **self._given(), **_named(self.settings or {}, classes)}
        names = [_class_name(place) for place in places]
        with tempfile.TemporaryDirectory() as output:
            finetune(self.checkpoint, (texts, names), output, **settings)
            self.model_, self.classes_ = load_finetuned(output), classes
        return self

    def _given(self):
        """The arguments of `finetune` that are arguments here, without those of `settings`."""
        settings = self.settings or {}
        names = ("max_length", "epochs", "freeze")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        fixed = {"checkpoint", "train", "output", *given}
        if twice := [name for name in settings if name in fixed]:
            raise ValueError(
                f"`settings` must be further arguments of finetune, and {' and '.join(twice)} "
                "are those of TextClassifier or `fit`: leave them out. Received: "
                f"{', '.join(f'{name}={settings[name]!r}' for name in twice)}"
            )
        return given

    def predict_proba(self, X):
        """Probabilities (N, C), in the order of `classes_`."""
        return softmax(self.model_.predict(texts_of(X, "X"), verbose=0))

    def predict(self, X):
        """The most probable label of each text."""
        return self.classes_[self.predict_proba(X).argmax(axis=-1)]


def _named(settings, classes):
    """The settings with the names of the classes in place of their labels."""
    settings = dict(settings)
    for role in ("validation", "test"):
        documents = settings.get(role)
        if documents is None or (role == "validation" and isinstance(documents, float)):
            continue
        if not isinstance(documents, (tuple, list)) or len(documents) != 2:
            raise ValueError(
                f"{role} of `settings` must be a pair (texts, labels), and validation may be a "
                f"fraction of the texts of `fit`. Received: {quote(documents)}"
            )
        texts, labels = documents
        names = [_name_of(label, classes) for label in _labels(labels, role).tolist()]
        settings[role] = texts_of(texts, role), names
    weights = settings.get("class_weight")
    if isinstance(weights, dict):
        settings["class_weight"] = _named_weights(weights, classes)
    task = settings.get("task", "classify")
    if task != "classify" and not isinstance(task, Classify):
        raise ValueError(
            'task of `settings` must be "classify" or a Classify, since `fit` takes one label per '
            f"text: give finetune other tasks. Received: {task!r}"
        )
    if isinstance(getattr(task, "class_weight", None), dict):
        weights = _named_weights(task.class_weight, classes)
        settings["task"] = dataclasses.replace(task, class_weight=weights)
    return settings


def _named_weights(weights, classes):
    return {_name_of(label, classes): weight for label, weight in weights.items()}


def _name_of(label, classes):
    found = np.flatnonzero(classes == label)
    if not len(found):
        raise ValueError(
            f"`settings` has the label {label!r}, which is none of the {len(classes)} that `fit` "
            f"was given: {', '.join(map(repr, classes[:10].tolist()))}."
        )
    return _class_name(found[0])


def _classes(y):
    """The labels of the classes, and the number of the class of each text."""
    classes, places = np.unique(_labels(y, "y"), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"`y` must have two classes or more. Received: {classes.tolist()}")
    return classes, places


def _labels(y, name):
    """An array of labels, all of one kind and none missing."""
    labels = np.asarray(y, object)
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column of a data frame
        labels = labels[:, 0]
    if labels.ndim != 1 or any(isinstance(label, (list, tuple, set)) for label in labels):
        raise ValueError(
            f"`{name}` must have one label per text. Of one-hot rows, give np.argmax({name}, axis=1"
            f'); several are for finetune(task="multilabel"). Received: shape {labels.shape}'
        )
    if missing := [label for label in labels if is_missing(label)]:
        raise ValueError(f"`{name}` must have a label for each text. Received: {missing[0]}")
    kinds = {_kind(label): label for label in labels}
    if len(kinds) > 1:
        raise ValueError(
            f"`{name}` must have labels of one kind, such as str: convert them. Received: "
            f"{' and '.join(map(repr, kinds.values()))}"
        )
    return np.asarray(y).reshape(-1)


def _kind(label):
    for kind in ((bool, np.bool_), numbers.Number, str):
        if isinstance(label, kind):
            return kind
    return type(label)


def _class_name(number):
    """The name of a class in the training: names are ordered as the classes are."""
    return f"{number:06d}"
