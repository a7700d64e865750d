"""Lengths by step, as `fit` sees them."""

import keras
import numpy as np
import pytest

from keras_posenc import tasks
from keras_posenc.training.curriculum_batches import CurriculumBatches


def make_batch(length, seed):
    x = np.random.default_rng(seed).normal(size=(2, length, 3)).astype("float32")
    return x, x.sum(-1, keepdims=True) + length, np.ones((2, length))


def small_model():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


@pytest.mark.parametrize("start", [0, 7])
def test_fit_takes_every_step_once_and_in_order(start):
    """Its weights are those of the same batches, one after another; lengths grow in an epoch."""
    growing = tasks.curriculum("regular_increase", start=2, amount=2, every=3)
    by_fit, by_hand = small_model(), small_model()
    batches = CurriculumBatches(make_batch, growing, seed=5, start=start)
    by_fit.fit(batches, steps_per_epoch=4, epochs=2, shuffle=False, verbose=0)
    for step in range(start, start + 8):
        by_hand.train_on_batch(*make_batch(growing(step), (5, step)))
    for one, other in zip(by_fit.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_one_length_is_a_curriculum_too():
    batches = CurriculumBatches(make_batch, tasks.curriculum("fixed", length=3))
    history = small_model().fit(batches, steps_per_epoch=2, epochs=4, shuffle=False, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_a_batch_follows_from_seed_and_step():
    uniform = tasks.curriculum("uniform", lengths=range(3, 9))

    def drawn(seed):
        batches = CurriculumBatches(make_batch, uniform, seed=seed)
        batches[0], batches[1]
        return [batches[i][0] for i in range(6)]

    one, same, other = drawn(1), drawn(1), drawn(2)
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert [x.shape for x in one] != [x.shape for x in other]
    assert [x.shape[1] for x in one] == [uniform(step, 1) for step in range(6)]
