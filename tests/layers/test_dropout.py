import pathlib

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG
from keras import ops
from packaging.version import Version

import keras_posenc
from keras_posenc import build_transformer_model
from keras_posenc.layers.dropout import Dropout
from keras_posenc.models import heads

X = np.random.RandomState(0).normal(size=(3, 50, 64)).astype("float32") + 10  # no zeros


def numpy(x):
    return ops.convert_to_numpy(x)


def test_a_share_is_dropped_and_the_rest_scaled():
    layer = Dropout(0.3, seed=1)
    first, second = (numpy(layer(X, training=True)) for _ in range(2))
    for dropped in (first, second):
        kept = dropped != 0
        np.testing.assert_allclose(dropped[kept], X[kept] / 0.7, rtol=1e-6)
        assert kept.mean() == pytest.approx(0.7, abs=0.03)  # 6 deviations of 9,600 coins
    # Two calls drop independently: both keep 0.49 of the elements.
    assert ((first != 0) & (second != 0)).mean() == pytest.approx(0.49, abs=0.04)
    np.testing.assert_array_equal(numpy(Dropout(0.3, seed=1)(X, training=True)), first)


def test_rows_and_columns_are_dropped_alike():
    kept = numpy(Dropout(0.3, seed=2)(X, training=True)) != 0
    for axes, count in (((0, 1), 150), (2, 64)):
        share = kept.mean(axis=axes)
        assert np.abs(share - 0.7).max() < 5.5 * np.sqrt(0.21 / count)
        assert share.std() > 0.5 * np.sqrt(0.21 / count)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_nothing_is_dropped_outside_training(rate):
    np.testing.assert_array_equal(numpy(Dropout(rate)(X)), X)


def test_what_the_hash_cannot_say_is_left_to_keras():
    if Version(keras.__version__) >= Version("3.15"):  # before, Keras on TensorFlow refuses it
        assert not numpy(Dropout(1.0, seed=0)(X, training=True)).any()
    whole = numpy(Dropout(0.5, noise_shape=(None, 1, None), seed=0)(X, training=True)) != 0
    assert (whole == whole[:, :1]).all() and 0 < whole.mean() < 1


def test_saved_and_reloaded(tmp_path):
    inputs = keras.Input((None, 64))
    model = keras.Model(inputs, Dropout(0.3, seed=1)(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again.layers[1]) is Dropout and again.layers[1].rate == 0.3
    np.testing.assert_array_equal(numpy(model(X, training=True)), numpy(again(X, training=True)))


@pytest.mark.once
def test_all_dropout_is_of_this_kind():
    package = pathlib.Path(keras_posenc.__file__).parent
    found = [p for p in package.rglob("*.py") if "keras.layers.Dropout(" in p.read_text("utf-8")]
    assert not found


@pytest.mark.once
def test_heads_with_the_dropout_of_keras_open(tmp_path, monkeypatch):
    """As versions before 0.6 wrote them."""
    with monkeypatch.context() as patch:
        patch.setattr(heads, "Dropout", keras.layers.Dropout)
        model = heads.classifier(build_transformer_model(TINY_CONFIG), 2)
    assert type(model.get_layer("Head-Dropout")) is keras.layers.Dropout
    model.save(tmp_path / "model.keras")
    opened = keras.saving.load_model(tmp_path / "model.keras")
    x = [np.ones((2, 5), "int32"), np.zeros((2, 5), "int32")]
    np.testing.assert_array_equal(model.predict(x, verbose=0), opened.predict(x, verbose=0))
