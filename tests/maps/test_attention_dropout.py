"""The statistics of attention's own dropout: it must not be told from independent coins."""

import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.maps.attention_dropout import drop_weights

SHAPE = (2, 8, 300, 280)


def kept(rate, seed=(12345, 678), shape=SHAPE):
    ones = ops.ones(shape, "float32")
    return ops.convert_to_numpy(drop_weights(ones, rate, np.array(seed, "int32")))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.01, 0.95])
def test_cells_are_like_independent_coins(rate):
    values = kept(rate)
    np.testing.assert_allclose(np.unique(values), [0, 1 / (1 - rate)], rtol=1e-6)
    z = ((values > 0) - (1 - rate)) / np.sqrt(rate * (1 - rate))

    def deviation(x):
        """The mean, in units of its standard deviation were the cells independent."""
        return abs(x.mean()) * np.sqrt(x.size)

    assert deviation(z) < 4
    for axis in range(4):  # the share kept of each row, column, head and sequence
        others = tuple(a for a in range(4) if a != axis)
        scaled = z.mean(others) * np.sqrt(z.size / z.shape[axis])
        assert np.abs(scaled).max() < 5
    down, right = z[:, :, 1:], z[:, :, :, 1:]
    pairs = {
        "rows": down * z[:, :, :-1],
        "columns": right * z[:, :, :, :-1],
        "heads": z[:, 1:] * z[:, :-1],
        "sequences": z[1:] * z[:-1],
        "corners": down[..., 1:] * z[:, :, :-1, 1:] * down[..., :-1] * z[:, :, :-1, :-1],
    }
    for name, product in pairs.items():
        assert deviation(product) < 4.5, name
    # Any two rows, not only neighbours: their correlations scatter as they should.
    flat = z[0, 0]
    gram = (flat @ flat.T / np.sqrt(flat.shape[1]))[~np.eye(len(flat), dtype=bool)]
    assert abs(gram.std() - 1) < 0.05


def test_the_seed_decides():
    shape = (1, 2, 50, 60)
    np.testing.assert_array_equal(kept(0.3, (1, 2), shape), kept(0.3, (1, 2), shape))
    for other in ((1, 3), (2, 2), (-5, 2**31 - 1)):
        agree = (kept(0.5, (1, 2), shape) == kept(0.5, other, shape)).mean()
        assert abs(agree - 0.5) < 0.05


def test_a_layer_drops_in_training_only_and_anew_each_time():
    x = np.random.default_rng(0).normal(size=(2, 40, 8)).astype("float32")
    layers = [PositionalAttention(2, 4, dropout=0.5, seed=seed) for seed in (7, 7, 8)]
    for layer in layers:
        layer(x, x)
        layer.set_weights(layers[0].get_weights()[: len(layer.get_weights())])
    still = ops.convert_to_numpy(layers[0](x, x, training=False))
    np.testing.assert_array_equal(still, ops.convert_to_numpy(layers[1](x, x)))
    first, same, other = (ops.convert_to_numpy(layer(x, x, training=True)) for layer in layers)
    again = ops.convert_to_numpy(layers[0](x, x, training=True))
    assert np.abs(first - still).max() > 1e-2
    assert np.abs(first - again).max() > 1e-2
    np.testing.assert_allclose(first, same, atol=1e-6)
    assert np.abs(first - other).max() > 1e-2
