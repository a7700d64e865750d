"""Smoothed cross-entropy against NumPy, against Keras on one-hot targets, and in `fit`."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.losses.smoothed import SmoothedSparseCategoricalCrossentropy as Smoothed

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5)).astype("float32") * 3
LABELS = RNG.integers(0, 5, (3, 4))


def softmax(x):
    e = np.exp(x.astype("float64"))
    return e / e.sum(-1, keepdims=True)


def by_place(p, labels, share):
    """Oracle: the cross-entropy with the smoothed one-hot target, place by place."""
    target = (1 - share) * np.eye(p.shape[-1])[labels] + share / p.shape[-1]
    return -(target * np.log(p)).sum(-1)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("from_logits", [True, False])
def test_it_is_the_cross_entropy_with_smoothed_targets(share, from_logits):
    given = LOGITS if from_logits else softmax(LOGITS).astype("float32")
    loss = Smoothed(share, from_logits=from_logits, reduction=None)
    expected = by_place(softmax(LOGITS), LABELS, share)
    np.testing.assert_allclose(ops.convert_to_numpy(loss(LABELS, given)), expected, rtol=1e-5)
    column = ops.convert_to_numpy(loss(LABELS[..., None], given))
    np.testing.assert_allclose(column, expected, rtol=1e-5)
    on_one_hot = keras.losses.CategoricalCrossentropy(from_logits, share)
    mean = float(Smoothed(share, from_logits=from_logits)(LABELS, given))
    assert mean == pytest.approx(float(on_one_hot(np.eye(5)[LABELS], given)), rel=1e-5)


@pytest.mark.parametrize("ignored", [2, -1])
def test_an_ignored_class_does_not_count(ignored):
    labels = np.where(LABELS == 2, ignored, LABELS)
    kept = labels != ignored
    expected = by_place(softmax(LOGITS), LABELS, 0.1)
    places = ops.convert_to_numpy(Smoothed(0.1, True, ignored, reduction=None)(labels, LOGITS))
    np.testing.assert_allclose(places, expected * kept, rtol=1e-5)
    mean = float(Smoothed(0.1, True, ignored)(labels, LOGITS))
    assert mean == pytest.approx(expected[kept].mean(), rel=1e-5)
    weights = RNG.random((3, 4)).astype("float32")
    mean = float(Smoothed(0.1, True, ignored)(labels, LOGITS, weights))
    assert mean == pytest.approx((expected * weights)[kept].sum() / kept.sum(), rel=1e-5)


@pytest.mark.parametrize("ignore_class", [None, 2])
def test_a_mask_of_the_predictions_counts(ignore_class):
    features = np.array(LOGITS)
    features[0, 2:] = features[2, 1:] = 0
    masked = keras.layers.Masking()(features)
    kept = (features != 0).any(-1) & (LABELS != ignore_class)
    expected = by_place(softmax(LOGITS), LABELS, 0.2)[kept].mean()
    loss = Smoothed(0.2, from_logits=True, ignore_class=ignore_class)
    assert float(loss(LABELS, masked)) == pytest.approx(expected, rel=1e-5)


def test_it_is_saved_and_trains(tmp_path):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(6, 4, mask_zero=True)(ids)
    model = keras.Model(ids, keras.layers.Dense(5)(x))
    loss = Smoothed(0.1, from_logits=True, ignore_class=-1)
    model.compile(keras.optimizers.SGD(1.0), loss)
    tokens = np.array([[1, 2, 3], [4, 5, 0]])
    labels = np.array([[0, 1, -1], [3, 4, 2]])
    history = model.fit(tokens, labels, epochs=20, verbose=0).history["loss"]
    kept = np.array([[1, 1, 0], [1, 1, 0]], bool)
    p = softmax(model.predict(tokens, verbose=0))
    expected = by_place(p, np.maximum(labels, 0), 0.1)[kept].mean()
    assert model.evaluate(tokens, labels, verbose=0) == pytest.approx(expected, rel=1e-4)
    assert history[-1] < history[0] / 2
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.loss.get_config() == loss.get_config()
    assert again.evaluate(tokens, labels, verbose=0) == pytest.approx(expected, rel=1e-4)


@pytest.mark.once
@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_leaves_no_label_is_refused(share):
    with pytest.raises(ValueError, match=f"at least 0 and below 1.*Received: {share}"):
        Smoothed(share)
