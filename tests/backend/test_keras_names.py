"""Private names of Keras: this version has them, and without them Keras does the work."""

import logging

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG

from keras_posenc import backend, build_transformer_model
from keras_posenc.backend import keras_names
from keras_posenc.training import FusedAdamW


@pytest.mark.parametrize("use", keras_names.USES)
def test_this_keras_has_the_names(use):
    check, _ = keras_names.USES[use]
    assert check()
    optimizer = FusedAdamW()
    optimizer.build([keras.Variable([0.0])])
    assert keras_names.has_moments(optimizer)


def test_this_keras_has_the_names_that_nothing_replaces():
    x = keras.Input((3,))
    dense = keras.layers.Dense(2, use_bias=False)
    model = keras.Model(x, dense(x))
    assert keras_names.layers_in(model) == [model, *model.layers]
    assert keras_names.maker_of(model.output) is dense
    (tensor,) = keras_names.input_list(model, np.ones((1, 3), "float32"))
    found = dense(tensor)
    expected = keras.ops.matmul(tensor, keras_names.kernel_of(dense))
    np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (found, expected)), atol=1e-6)
    masked = keras.layers.Embedding(2, 2, mask_zero=True)(np.array([[0, 1]]))
    np.testing.assert_array_equal(keras_names.mask_of(masked), [[False, True]])
    keras_names.set_mask(tensor, None)
    assert keras_names.mask_of(tensor) is None


class Stale(dict):
    """Keras' masks by the ids of tensors, all of which had a mask in a program that is gone."""

    def get(self, key, default=None):
        return super().get(key, np.ones((4, 24), bool))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="other tensors take attributes")
def test_masks_of_a_former_program_are_not_of_this_one(monkeypatch):
    class Model(backend.SafeTrainer, keras.Model):
        def __init__(self):
            x = keras.Input((None,), dtype="int32")
            super().__init__(x, keras.layers.Embedding(6, 3, embeddings_initializer="ones")(x))

    ids, targets = np.array([[1, 2, 0], [3, 4, 5]]), np.zeros((2, 3, 3))

    def results(masks):
        model = Model()
        tracker = keras_names.global_state.GLOBAL_STATE_TRACKER
        monkeypatch.setattr(tracker, "_keras_mask_dict", masks, raising=False)
        model.compile("sgd", "mse", metrics=["mae"])
        fitted = model.fit(ids, targets, verbose=0).history
        trained = backend.train_steps(model)([ids[None], targets[None]], 1)
        tested = model.evaluate(ids, targets, verbose=0), model.predict(ids, verbose=0)
        monkeypatch.undo()
        return fitted["loss"], fitted["mae"], trained, *tested

    for found, expected in zip(results(Stale()), results({}), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_lora_is_in_the_kernel():
    dense = keras.layers.Dense(2)
    dense.build((None, 3))
    assert keras_names.kernel_of(dense) is dense.kernel
    dense.enable_lora(1)
    dense.lora_kernel_b.assign(np.ones((1, 2)))
    kernels = keras_names.kernel_of(dense), dense.kernel
    np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, kernels))


def test_weight_decay_and_directions_are_asked_of_keras():
    kernel, bias = keras.Variable([0.0], name="kernel"), keras.Variable([0.0], name="bias")
    optimizer = keras.optimizers.AdamW(weight_decay=0.1)
    optimizer.build([kernel, bias])
    optimizer.exclude_from_weight_decay([bias])
    assert [keras_names.is_decayed(optimizer, each) for each in (kernel, bias)] == [True, False]
    assert [keras_names.index_of(optimizer, each) for each in (kernel, bias)] == [0, 1]
    assert keras_names.has_direction(keras.metrics.BinaryAccuracy())
    assert not keras_names.has_direction(keras.metrics.Sum())


def test_fit_calls_evaluate_as_it_is_known():
    calls = []

    class Model(keras.Sequential):
        def evaluate(self, *args, **kwargs):
            calls.append(keras_names.called_by_fit(kwargs))
            return super().evaluate(*args, **kwargs)

    model = Model([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    x, y = np.ones((2, 3)), np.ones((2, 2))
    model.fit(x, y, validation_data=(x, y), verbose=0)
    model.evaluate(x, y, verbose=0)
    assert calls == [True, False]


@pytest.fixture
def without(monkeypatch):
    """A function that takes the names of a use away, as a later Keras might."""
    keras_names.KNOWN.clear()

    def take(use, error=AttributeError):
        def check():
            raise error("it is gone")

        uses = keras_names.USES | {use: (check, keras_names.USES[use][1])}
        monkeypatch.setattr(keras_names, "USES", uses)
        keras_names.KNOWN.clear()

    yield take
    keras_names.KNOWN.clear()


@pytest.mark.parametrize("use", ["scopes", "graphs", "masks"])
@pytest.mark.parametrize("error", [AttributeError, ImportError])
def test_without_names_a_model_computes_the_same(without, use, error, caplog):
    model = build_transformer_model(TINY_CONFIG)
    ids = np.arange(1, 13).reshape(2, 6)
    expected = model.predict_on_batch([ids, 0 * ids])
    without(use, error)
    with caplog.at_level(logging.WARNING, "keras_posenc"):
        for _ in range(2):
            found = model.predict_on_batch([ids, 0 * ids])
        keras_names.has(use)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # One line, however many calls; TensorFlow has warnings of its own.
    (record,) = [each for each in caplog.records if each.name == "keras_posenc"]
    assert f"Keras {keras.__version__} is not known to keras_posenc: " in record.message


def test_without_names_the_optimizer_is_that_of_keras(without):
    def trained(optimizer):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(optimizer, "mse")
        x = np.arange(12.0).reshape(4, 3)
        for _ in range(3):
            model.train_on_batch(x, x[:, :2])
        return np.concatenate([np.ravel(w) for w in model.get_weights()])

    settings = {"learning_rate": 0.1, "weight_decay": 0.3}
    expected = trained(keras.optimizers.AdamW(**settings))
    np.testing.assert_allclose(trained(FusedAdamW(**settings)), expected, atol=1e-5)
    without("moments")
    np.testing.assert_allclose(trained(FusedAdamW(**settings)), expected, atol=1e-6)
    other = trained(keras.optimizers.AdamW(learning_rate=0.1, weight_decay=0.0))
    assert np.abs(other - expected).max() > 1e-2  # decay counts here


def test_layers_are_called_directly_where_that_is_faster(without):
    if not backend.TRAITS.eager:
        pytest.skip("calls are compiled")
    layer = keras.layers.Dense(2)
    x = keras.ops.ones((1, 3))
    layer(x)
    assert backend.is_plain(layer, x)
    without("scopes")
    assert not backend.is_plain(layer, x)
