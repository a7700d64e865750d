import json

import numpy as np
import pytest

from keras_posenc.metrics import scores as metrics

pytestmark = pytest.mark.once


def test_the_confusion_matrix_counts_row_true_column_predicted():
    matrix = metrics.confusion_matrix([0, 0, 2, 2, 2], [0, 1, 2, 2, 0], 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 2]]


def test_precision_recall_f1_by_hand():
    precision, recall, f1 = metrics.precision_recall_f1([[1, 1, 0], [0, 0, 0], [1, 0, 2]])
    np.testing.assert_allclose(precision, [1 / 2, 0, 1])
    np.testing.assert_allclose(recall, [1 / 2, 0, 2 / 3])
    np.testing.assert_allclose(f1, [1 / 2, 0, 4 / 5])


SERIES = "`true` and `predicted` must be as many numbers, at least one. Received: shapes "


@pytest.mark.parametrize("correlation", [metrics.pearson, metrics.spearman])
@pytest.mark.parametrize(
    "true, predicted, words",
    [
        ([], [], SERIES + r"\(0,\) and \(0,\)"),
        ([1, 2, 3], [1, 2], SERIES + r"\(3,\) and \(2,\)"),
        ([[1], [2]], [[1], [2]], SERIES + r"\(2, 1\)"),
        ([1, 2, 3], [1, 2, np.nan], "`predicted` must be finite numbers. Received: nan at index 2"),
        ([1, -np.inf, np.nan], [1, 2, 3], "`true` must be finite .* Received: -inf at index 1"),
    ],
)
def test_a_correlation_that_is_not_defined_is_refused(correlation, true, predicted, words):
    with pytest.raises(ValueError, match=words):
        correlation(true, predicted)


@pytest.mark.parametrize("correlation", [metrics.pearson, metrics.spearman])
def test_a_constant_series_correlates_with_nothing(correlation):
    assert correlation([1, 2], [3, 3]) == correlation([7], [7]) == 0.0


@pytest.mark.parametrize("matrix", [[[0, 0], [0, 0]], [[np.nan, 0], [0, 1]]])
def test_macro_f1_needs_a_document(matrix):
    with pytest.raises(ValueError, match="`matrix` must count at least one document. Received: "):
        metrics.macro_f1(matrix)


def test_macro_f1_leaves_out_a_class_that_does_not_occur():
    assert metrics.macro_f1([[3, 0, 0], [0, 1, 0], [0, 0, 0]]) == 1.0
    assert metrics.macro_f1([[3, 0, 1], [0, 1, 0], [0, 0, 0]]) == pytest.approx((6 / 7 + 1) / 3)


def test_wilson_is_the_root_of_its_equation():
    for hits, count in [(0, 5), (5, 5), (1, 3), (420, 500)]:
        low, high = metrics.wilson(hits, count)
        assert 0 <= low <= hits / count <= high <= 1
        for bound in (low, high):
            if 0 < bound < 1:
                spread = 1.96 * np.sqrt(bound * (1 - bound) / count)
                assert abs(hits / count - bound) == pytest.approx(spread, abs=1e-9)


def test_lengths_fall_into_their_groups():
    lengths = [1, 128, 129, 512, 513, 4096, 4097, 99999]
    groups = metrics.accuracy_by_length([1, 0, 1, 1, 0, 1, 0, 1], lengths)
    found = [(g["more_than"], g["up_to"], g["documents"], g["accuracy"]) for g in groups]
    assert found == [
        (0, 128, 2, 0.5),
        (128, 256, 1, 1.0),
        (256, 512, 1, 1.0),
        (512, 1024, 1, 0.0),
        (2048, 4096, 1, 1.0),
        (4096, None, 2, 0.5),
    ]


def test_the_histogram_counts_every_document():
    lengths = np.random.default_rng(0).integers(3, 13000, 500)
    for part in (lengths, lengths[:1], np.array([512, 1024])):
        histogram = metrics.length_histogram(part)
        assert sum(histogram["counts"]) == len(part)
        assert len(histogram["edges"]) == len(histogram["counts"]) + 1


def test_the_histogram_counts_documents_of_one_length_on_an_edge():
    """Texts that are all cut at 512 tokens have one bin, from 512."""
    histogram = metrics.length_histogram(np.full(3, 512))
    assert histogram["edges"][:2] == [512.0, 608.87]
    assert histogram["counts"] == [3, 0, 0, 0]


def test_classification_agrees_with_a_plain_computation_and_is_json():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(50, 3)).astype("float32"), rng.integers(0, 3, 50)
    lengths = rng.integers(10, 2000, 50)
    found = json.loads(json.dumps(metrics.classification(logits, labels, lengths, 3)))
    right = logits.argmax(1) == labels
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert found["accuracy"] == pytest.approx(right.mean())
    assert found["loss"] == pytest.approx(-np.log(shares[range(50), labels]).mean(), rel=1e-5)
    assert found["long"]["documents"] == (lengths > 512).sum()
    assert found["long"]["accuracy"] == pytest.approx(right[lengths > 512].mean())
    assert found["documents"] == 50 == np.sum(found["confusion"])


def test_no_long_document_is_named():
    assert metrics.classification([[1.0, 0.0]], [0], [512], 2)["long"] is None


def test_large_logits_do_not_overflow():
    np.testing.assert_allclose(metrics.softmax([[1e4, 0.0]]), [[1, 0]])
    assert metrics.log_softmax([[1e4, 0.0]])[0, 1] == -1e4


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_diverged_model_is_called_one(value):
    with pytest.raises(ValueError, match="logits are not finite .* has diverged. Lower learning_r"):
        metrics.classification([[value, 0.0]], [0], [5], 2)
