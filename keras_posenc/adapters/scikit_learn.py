"""scikit-learn: a classifier of long texts with `fit`, `predict` and `predict_proba`."""

import tempfile

import numpy as np

from keras_posenc.metrics.scores import softmax
from keras_posenc.training import finetune, load_finetuned

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise ImportError("This adapter needs scikit-learn: pip install scikit-learn") from None


class TextClassifier(ClassifierMixin, BaseEstimator):
    """An encoder that `fit` trains to classify texts, as an estimator of scikit-learn.

    Args:
        checkpoint: str or path, as in `finetune`.
        max_length: int or None. Tokens that are read of a text.
        epochs: int or None.
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

    def __init__(self, checkpoint, max_length=None, epochs=None, settings=None):
        self.checkpoint, self.max_length = checkpoint, max_length
        self.epochs, self.settings = epochs, settings

    def fit(self, X, y):
        """Trains on texts X and labels y; returns the estimator."""
        self.classes_, numbers = np.unique(np.asarray(y), return_inverse=True)
        names = list(map(_class_name, numbers))
        settings = {"verbose": 0, **self._named(self.settings or {})}
        with tempfile.TemporaryDirectory() as output:
            finetune(
                self.checkpoint,
                (list(map(str, X)), names),
                output,
                max_length=self.max_length,
                epochs=self.epochs,
                **settings,
            )
            self.model_ = load_finetuned(output)
        return self

    def _named(self, settings):
        """The settings with the names of the classes in place of their labels."""
        settings = dict(settings)
        for role in ("validation", "test"):
            if isinstance(settings.get(role), tuple) and len(settings[role]) == 2:
                texts, labels = settings[role]
                settings[role] = list(map(str, texts)), [self._name(each) for each in labels]
        weights = settings.get("class_weight")
        if isinstance(weights, dict):
            settings["class_weight"] = {self._name(each): weights[each] for each in weights}
        return settings

    def _name(self, label):
        found = np.flatnonzero(self.classes_ == label)
        if not len(found):
            raise ValueError(
                f"`settings` has the label {label!r}, which is none of the {len(self.classes_)} "
                f"that `fit` was given: {', '.join(map(repr, self.classes_[:10].tolist()))}."
            )
        return _class_name(found[0])

    def predict_proba(self, X):
        """Probabilities (N, C), in the order of `classes_`."""
        check_is_fitted(self, "model_")
        return softmax(self.model_.predict(list(map(str, X)), verbose=0))

    def predict(self, X):
        """The most probable label of each text."""
        return self.classes_[self.predict_proba(X).argmax(axis=-1)]


def _class_name(number):
    """The name of a class in the training: names are ordered as the classes are."""
    return f"{number:06d}"
