import keras
import numpy as np
import pytest

from keras_posenc.training.averaging import average_checkpoints


def small_model():
    layers = [keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("suffix", [pytest.param(".weights.h5", marks=pytest.mark.once), ".keras"])
def test_the_mean_of_the_last_epochs(tmp_path, suffix):
    model, seen = small_model(), []
    kept = keras.callbacks.ModelCheckpoint(
        tmp_path / f"{{epoch}}{suffix}", save_weights_only=suffix != ".keras"
    )
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append([np.array(v) for v in model.weights])
    )
    x, y = np.ones((4, 3)), np.ones((4, 1))
    model.fit(x, y, epochs=4, callbacks=[kept, watch], verbose=0)
    fresh = small_model()
    paths = [tmp_path / f"{epoch}{suffix}" for epoch in (2, 3, 4)]
    assert average_checkpoints(fresh, paths) is fresh
    mean = [np.mean(values, axis=0) for values in zip(*seen[1:], strict=True)]
    for variable, expected in zip(fresh.weights, mean, strict=True):
        np.testing.assert_allclose(np.array(variable), expected, rtol=1e-6)
    fresh.save(tmp_path / "mean.keras")
    again = keras.saving.load_model(tmp_path / "mean.keras")
    for one, other in zip(fresh.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_missing_file_leaves_the_model_alone(tmp_path):
    """Also the steps and moments of its optimizer, and the seeds of dropout."""
    model, other = small_model(), small_model()
    other.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    other.save_weights(tmp_path / "one.weights.h5")
    model.fit(np.ones((4, 3)), np.zeros((4, 1)), epochs=3, verbose=0)
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, 7.0))
    everything = [*model.variables, *model.optimizer.variables]
    before = [np.array(keras.ops.convert_to_numpy(v)) for v in everything]
    with pytest.raises((ValueError, OSError)):
        average_checkpoints(model, [tmp_path / "one.weights.h5", tmp_path / "two.weights.h5"])
    for variable, value in zip(everything, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), value)
    with pytest.raises(ValueError, match="names no file: give at least one"):
        average_checkpoints(model, [])
