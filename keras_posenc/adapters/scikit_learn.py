"""scikit-learn: a classifier of long texts with `fit`, `predict` and `predict_proba`."""

import dataclasses
import tempfile

import numpy as np

from keras_posenc.metrics.scores import softmax
from keras_posenc.text.documents import texts_of
from keras_posenc.training import finetune, load_finetuned

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
        texts, classes, numbers = texts_of(X, "X"), *_classes(y)
        settings = {"verbose": 0, **_named(self.settings or {}, classes)}
        with tempfile.TemporaryDirectory() as output:
            finetune(
                self.checkpoint,
                (texts, list(map(_class_name, numbers))),
                output,
                max_length=self.max_length,
                epochs=self.epochs,
                **{"freeze": self.freeze, **settings},
            )
            self.model_, self.classes_ = load_finetuned(output), classes
        return self

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
        if isinstance(settings.get(role), tuple) and len(settings[role]) == 2:
            texts, labels = settings[role]
            names = [_name_of(label, classes) for label in labels]
            settings[role] = texts_of(texts, role), names
    weights = settings.get("class_weight")
    if isinstance(weights, dict):
        settings["class_weight"] = _named_weights(weights, classes)
    task = settings.get("task")
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
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column of a data frame
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            "`y` must have one label per text. Of one-hot rows, give np.argmax(y, axis=1); several "
            'labels of a text are for finetune(task="multilabel"). Received: shape '
            f"{labels.shape}"
        )
    if len(missing := [label for label in labels if label is None or label != label]):
        raise ValueError(f"`y` must have a label for each text. Received: {missing[0]}")
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"`y` must have two classes or more. Received: {classes.tolist()}")
    return classes, numbers


def _class_name(number):
    """The name of a class in the training: names are ordered as the classes are."""
    return f"{number:06d}"
