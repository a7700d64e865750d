import keras
import numpy as np
import pytest

from keras_posenc.training.schedules import LinearWarmup, cosine_warmup


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in range(steps)])


@pytest.mark.parametrize("steps, warmup", [(10, 3), (10, 0), (1, 0), (2, 1)])
def test_linear_follows_its_formula(steps, warmup):
    t = np.arange(steps + 3)
    expected = 2.0 * np.minimum((t + 1) / (warmup + 1), (steps - t) / (steps - warmup))
    expected = np.maximum(expected, 0)
    np.testing.assert_allclose(rates(LinearWarmup(2.0, steps, warmup), steps + 3), expected, 1e-6)


@pytest.mark.parametrize("steps, warmup", [(10, 3), (10, 0), (1, 0), (2, 1)])
def test_cosine_follows_its_formula(steps, warmup):
    t = np.arange(steps + 3)
    rise = (t + 1) / (warmup + 1)
    fall = 0.5 * (1 + np.cos(np.pi * np.minimum((t - warmup) / (steps - warmup), 1)))
    expected = 2.0 * np.where(t < warmup, rise, fall)
    actual = rates(cosine_warmup(2.0, steps, warmup), steps + 3)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [LinearWarmup, cosine_warmup])
def test_no_step_is_lost_and_the_peak_is_reached(make):
    steps = rates(make(1.0, 20, 5), 20)
    assert steps.min() > 0
    assert steps.argmax() == 5 and steps.max() == pytest.approx(1)


@pytest.mark.parametrize("make", [LinearWarmup, cosine_warmup])
@pytest.mark.parametrize("warmup", [-1, 20, 21])
def test_a_warmup_as_long_as_the_training_is_refused(make, warmup):
    with pytest.raises(ValueError, match=rf"less than total_steps \(20\); received {warmup}"):
        make(1.0, 20, warmup)


def test_linear_is_saved_with_its_optimizer():
    schedule = LinearWarmup(1e-3, 20, 5)
    optimizer = keras.optimizers.AdamW(schedule)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again._learning_rate, LinearWarmup)
    np.testing.assert_array_equal(rates(again._learning_rate, 21), rates(schedule, 21))


def test_linear_trains_under_jit():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(LinearWarmup(1e-2, 4, 1)), "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, verbose=0)
    assert float(model.optimizer.learning_rate) == 0.0
