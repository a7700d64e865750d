"""What scikit-learn's estimator takes: texts, one label each, of two classes or more."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from keras_posenc.adapters import TextClassifier
from keras_posenc.training import Classify, Embed

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]

TEXTS, LABELS = ["w1 w4", "w2 w3", "w5 w1", "w2 w9"], ["a", "b", "a", "b"]


@pytest.fixture
def classifier(pretrained):
    return TextClassifier(pretrained, max_length=8, epochs=1)


@pytest.fixture(scope="module")
def fitted(pretrained):
    return TextClassifier(pretrained, max_length=8, epochs=1).fit(TEXTS, LABELS)


def columns():
    """What is no list of texts, and the error."""
    for wrong in (None, float("nan"), b"w1", 3, np.float32("nan")):
        yield [*TEXTS[:3], wrong], f"Text 3 is a {type(wrong).__name__}"
    for wrong in ("w1 w2", {"t": TEXTS}, iter(TEXTS), set(TEXTS), None, np.array([TEXTS])):
        yield wrong, "`X` must"


@pytest.mark.parametrize("texts, error", list(columns()))
def test_what_is_no_list_of_texts_is_refused(texts, error, classifier, fitted):
    for call in (lambda: classifier.fit(texts, LABELS), lambda: fitted.predict(texts)):
        with pytest.raises(TypeError, match=error):
            call()
    validated = classifier.set_params(settings={"validation": ([*TEXTS[:3], None], LABELS)})
    with pytest.raises(TypeError, match="Text 3 is a NoneType.*leave out the rows"):
        validated.fit(TEXTS, LABELS)


def test_what_pandas_has_in_place_of_texts(fitted):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"t": TEXTS, "n": range(4)})
    assert fitted.predict(frame["t"]).shape == (4,)
    for wrong in (frame, pandas.Series(["w1", pandas.NA]), pandas.Series(["w1", pandas.NaT])):
        with pytest.raises(TypeError, match="`X` must be a list|Text 1 is a .*leave out the rows"):
            fitted.predict(wrong)


@pytest.mark.parametrize(
    "labels, error",
    [
        (np.eye(2)[[0, 1, 0, 1]], r"give np.argmax\(y, axis=1\).*Received: shape \(4, 2\)"),
        (["a"] * 4, r"`y` must have two classes or more. Received: \['a'\]"),
        (["a", None, "b", "a"], "a label for each text. Received: None"),
        ([1.0, 2.0, float("nan"), 1.0], "a label for each text. Received: nan"),
        ([1, "a", 1, "a"], "`y` must have labels of one kind, .* Received: 1 and 'a'$"),
        (np.array([1, "a", 1, "a"], object), "labels of one kind, .* Received: 1 and 'a'$"),
        ([True, 2, 2, True], "labels of one kind, .* Received: True and 2$"),
        ([b"a", "b", "b", "b"], "labels of one kind, .* Received: b'a' and 'b'$"),
        ([["a"], ["b", "c"], ["a"], ["b"]], r"one label per text.* Received: shape \(4,\)"),
        (None, r"one label per text.* Received: shape \(\)"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, error, classifier):
    with pytest.raises(ValueError, match=error):
        classifier.fit(TEXTS, labels)


@pytest.mark.parametrize("kind", ["object", "string", "Int64"])
def test_what_pandas_has_in_place_of_labels(classifier, kind):
    pandas = pytest.importorskip("pandas")
    values = [1, 0, 1, 0] if kind == "Int64" else LABELS
    found = classifier.fit(TEXTS, pandas.Series(values, dtype=kind)).classes_
    assert found.tolist() == sorted(set(values))
    missing = pandas.Series([*values[:3], pandas.NA], dtype=kind)
    with pytest.raises(ValueError, match="`y` must have a label for each text. Received: <NA>"):
        classifier.fit(TEXTS, missing)
    validated = classifier.set_params(settings={"validation": (TEXTS, missing)})
    with pytest.raises(ValueError, match="`validation` must have a label for each text"):
        validated.fit(TEXTS, values)


@pytest.mark.parametrize("pair", [list, tuple])
def test_settings_are_further_arguments(pretrained, pair):
    settings = {"validation": pair([TEXTS, LABELS]), "task": "classify"}
    settings |= {"max_length": 8, "epochs": 1}
    assert TextClassifier(pretrained, settings=settings).fit(TEXTS, LABELS).classes_.size == 2


@pytest.mark.parametrize(
    "settings, error",
    [
        ({"epochs": 2}, "further arguments of finetune, and epochs .* Received: epochs=2$"),
        ({"max_length": 2}, "and max_length are those of TextClassifier or `fit`: leave them out"),
        ({"output": "x", "train": 1}, "and output and train are .* output='x', train=1$"),
        ({"task": "multilabel"}, "must be \"classify\" or a Classify.* Received: 'multilabel'$"),
        ({"task": Embed()}, r"must be \"classify\" or a Classify.* Received: Embed\(\)$"),
        ({"validation": "x.tsv"}, "validation of `settings` must be a pair .* Received: 'x.tsv'$"),
        ({"test": 0.5}, "test of `settings` must be a pair .* Received: '?0.5'?$"),
        ({"test": [TEXTS, LABELS, 0]}, "test of `settings` must be a pair"),
        ({"test": [TEXTS, [*LABELS[:3], "c"]]}, "`settings` has the label 'c', which is none"),
    ],
)
def test_settings_that_are_refused(settings, error, classifier):
    with pytest.raises(ValueError, match=error):
        classifier.set_params(settings=settings).fit(TEXTS, LABELS)


def test_a_column_of_labels_is_one_label_per_text(classifier):
    assert classifier.fit(TEXTS, np.array(LABELS)[:, None]).classes_.tolist() == ["a", "b"]


def test_weights_of_texts_are_refused_in_a_sentence(classifier):
    with pytest.raises(ValueError, match="`sample_weight` is not supported: weight whole classes"):
        classifier.fit(TEXTS, LABELS, sample_weight=[1, 2, 1, 1])


def test_weights_of_classes_have_the_names_of_the_labels(classifier):
    task = Classify(class_weight={"a": 2.0})
    assert classifier.set_params(settings={"task": task}).fit(TEXTS, LABELS).classes_.size == 2
    task = Classify(class_weight={"c": 2.0})
    with pytest.raises(ValueError, match="`settings` has the label 'c', which is none of the 2"):
        classifier.set_params(settings={"task": task}).fit(TEXTS, LABELS)


def test_nothing_is_there_before_fit(classifier):
    from sklearn.exceptions import NotFittedError

    for read in (lambda: classifier.classes_, lambda: classifier.predict(TEXTS)):
        with pytest.raises(NotFittedError, match="call `fit` first"):
            read()
    assert not hasattr(classifier, "classes_") and not hasattr(classifier, "n_features_in_")
    with pytest.raises(ValueError):
        classifier.fit(TEXTS, ["a"] * 4)
    assert not hasattr(classifier, "classes_")


def test_a_frozen_encoder_has_a_linear_head(pretrained):
    classifier = TextClassifier(pretrained, freeze="encoder").fit(TEXTS * 3, LABELS * 3)
    assert classifier.model_.pool == "logits" and classifier.classes_.tolist() == ["a", "b"]
    assert classifier.score(TEXTS, LABELS) == 1
    with pytest.raises(ValueError, match="takes no epochs"):
        classifier.set_params(epochs=2).fit(TEXTS, LABELS)
