"""The loss that `fit` shows: a mean over what counts, also where batches are filled up."""

import keras
import numpy as np
import pytest

from keras_posenc.metrics import MeanLoss

MEAN = "mean_with_sample_weight"


class Filled(keras.utils.PyDataset):
    """Batches of four rows, of which 4, 1 and 2 count."""

    x = np.arange(12, dtype="float32").reshape(3, 4, 1)
    weights = np.array([[1, 1, 1, 1], [0.5, 0, 0, 0], [2, 1, 0, 0]], "float32")

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.x[index], np.zeros((4, 1), "float32"), self.weights[index]


def ones(loss, **options):
    """A model that returns its input, and stays as it is."""
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.build((None, 1))
    model.compile(keras.optimizers.SGD(0.0), loss, **options)
    return model


def test_fit_and_evaluate_show_the_mean_over_what_counts():
    loss, batches = keras.losses.MeanSquaredError(reduction=MEAN), Filled()
    expected = np.average(batches.x[..., 0] ** 2, weights=batches.weights)
    model = ones(loss, weighted_metrics=[MeanLoss(loss), "mse"])
    shown = model.fit(batches, verbose=0, shuffle=False).history["loss"][0]
    assert shown == pytest.approx(expected, rel=1e-6)
    found = model.evaluate(batches, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(expected, rel=1e-6)
    # Keras' mean of the means of the batches is another number.
    found = ones(loss).evaluate(batches, verbose=0, return_dict=True)
    assert abs(found["loss"] - expected) > 1


@pytest.mark.once
def test_its_config_makes_the_same_metric():
    metric = MeanLoss(keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=MEAN))
    again = MeanLoss.from_config(metric.get_config())
    for each in (metric, again):
        each.update_state([0, 1], [[2.0, 0.0], [0.0, 1.0]])
        each.update_state([0], [[0.0, 3.0]], [2.0])
    assert float(metric.result()) == float(again.result()) > 1
    metric.reset_state()
    assert float(metric.result()) == 0


@pytest.mark.once
@pytest.mark.parametrize("loss", [keras.losses.MeanSquaredError(), "mse"])
def test_another_reduction_is_refused(loss):
    with pytest.raises(
        ValueError, match="`loss` must be an object of Keras with reduction='mean_w"
    ):
        MeanLoss(loss)
