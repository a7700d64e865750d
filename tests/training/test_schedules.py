import keras
import numpy as np
import pytest

from keras_posenc.training.schedules import LinearWarmup, Noam, cosine_warmup


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in range(steps)])


@pytest.mark.once
@pytest.mark.parametrize("steps, warmup", [(10, 3), (10, 0), (1, 0), (2, 1)])
def test_linear_follows_its_formula(steps, warmup):
    t = np.arange(steps + 3)
    expected = 2.0 * np.minimum((t + 1) / (warmup + 1), (steps - t) / (steps - warmup))
    expected = np.maximum(expected, 0)
    np.testing.assert_allclose(rates(LinearWarmup(2.0, steps, warmup), steps + 3), expected, 1e-6)


@pytest.mark.once
@pytest.mark.parametrize("steps, warmup", [(10, 3), (10, 0), (1, 0), (2, 1)])
def test_cosine_follows_its_formula(steps, warmup):
    t = np.arange(steps + 3)
    rise = (t + 1) / (warmup + 1)
    fall = 0.5 * (1 + np.cos(np.pi * np.minimum((t - warmup) / (steps - warmup), 1)))
    expected = 2.0 * np.where(t < warmup, rise, fall)
    actual = rates(cosine_warmup(2.0, steps, warmup), steps + 3)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("size, warmup, factor", [(512, 10, 1.0), (16, 1, 2.0)])
def test_noam_follows_its_formula(size, warmup, factor):
    n = np.arange(40) + 1.0
    expected = factor * size**-0.5 * np.minimum(n**-0.5, n * warmup**-1.5)
    actual = rates(Noam(size, warmup, factor), 40)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert actual.argmax() == warmup - 1
    assert actual.max() == pytest.approx(factor * (size * warmup) ** -0.5, rel=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, name", [((0,), "hidden_size"), ((8, 0), "warmup_steps"), ((8, 5, -1.0), "factor")]
)
def test_noam_refuses_what_is_not_positive(arguments, name):
    with pytest.raises(ValueError, match=rf"`{name}` must be above 0. Received: {arguments[-1]}"):
        Noam(*arguments)


@pytest.mark.once
@pytest.mark.parametrize("make", [LinearWarmup, cosine_warmup])
def test_no_step_is_lost_and_the_peak_is_reached(make):
    steps = rates(make(1.0, 20, 5), 20)
    assert steps.min() > 0
    assert steps.argmax() == 5 and steps.max() == pytest.approx(1)


@pytest.mark.once
@pytest.mark.parametrize("make", [LinearWarmup, cosine_warmup])
@pytest.mark.parametrize("warmup", [-1, 20, 21])
def test_a_warmup_as_long_as_the_training_is_refused(make, warmup):
    with pytest.raises(ValueError, match=rf"less than total_steps \(20\); received {warmup}"):
        make(1.0, 20, warmup)


@pytest.mark.parametrize("schedule", [LinearWarmup(1e-3, 20, 5), Noam(64, 5, 0.5)])
def test_a_schedule_is_saved_with_its_optimizer(schedule):
    optimizer = keras.optimizers.AdamW(schedule)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again._learning_rate) is type(schedule)
    np.testing.assert_array_equal(rates(again._learning_rate, 21), rates(schedule, 21))


@pytest.mark.parametrize(
    "schedule, last", [(LinearWarmup(1e-2, 4, 1), 0.0), (Noam(4, 2), 5**-0.5 / 2)]
)
def test_a_schedule_trains_under_jit(schedule, last):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(schedule), "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, verbose=0)
    assert float(model.optimizer.learning_rate) == pytest.approx(last)
