"""The loss that `fit` shows: a mean over what counts, also where batches are filled up."""

import keras
import numpy as np
import pytest

from keras_posenc.layers import ConditionalRandomField
from keras_posenc.losses import ConditionalRandomFieldLoss
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


@pytest.mark.parametrize("masked", ["by the model", "by the loss", "by the weights"])
def test_padding_does_not_count(masked):
    ids, tags = (
        np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 0]]),
        np.array([[1, 2, 0, 0, 0], [3, 1, 1, 2, 0]]),
    )
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=MEAN, ignore_class=0 if masked == "by the loss" else None
    )
    model = keras.Sequential(
        [
            keras.layers.Embedding(10, 4, mask_zero=masked == "by the model"),
            keras.layers.Dense(4),
        ]
    )
    weights = (ids > 0).astype("float32") if masked == "by the weights" else None
    shown = []
    for metrics in ([], [MeanLoss(loss)]):
        model.compile("sgd", loss, weighted_metrics=metrics)
        shown.append(model.evaluate(ids, tags, 2, 0, weights, return_dict=True)["loss"])
    logits = np.asarray(keras.ops.convert_to_numpy(model(ids)), "float64")
    shares = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = -np.take_along_axis(shares, tags[..., None], axis=-1)[ids > 0].mean()
    assert shown == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.once
def test_the_loss_may_change_the_weights():
    """A conditional random field has a loss per text, of the largest weight of its tokens."""
    loss = ConditionalRandomFieldLoss(reduction=MEAN)
    scores = np.random.default_rng(0).random((2, 4, 3))
    potentials = keras.ops.convert_to_numpy(ConditionalRandomField()(scores))
    tags, weights = np.array([[0, 1, 2, 1], [2, 1, 0, 0]]), [[1, 1, 1, 1], [2, 2, 0, 0]]
    weights = np.array(weights, "float32")
    metric = MeanLoss(loss)
    metric.update_state(tags, potentials, weights)
    expected = float(keras.ops.convert_to_numpy(loss(tags, potentials, weights)))
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


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
