"""Published weights, converted, give the published biases."""

import math

import numpy as np
import oracles_bias
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.encodings import FIRE, KERPLE, Grid, RotaryBias
from keras_posenc.encodings.published import (
    fire_weights,
    kerple_weights,
    rotary_bias_weights,
)

pytestmark = pytest.mark.once

H, D, T = 3, 6, 9
IDS = np.arange(T)
A, P = np.array([0.01, 0.4, 1.7]), np.array([0.01, 1.0, 1.99])


def close(ours, reference):
    np.testing.assert_allclose(ops.convert_to_numpy(ours)[0], reference, atol=1e-5, rtol=1e-4)


def bias_of(encoding, weights):
    encoding.build((1, T, H, D))
    encoding.set_weights(weights)
    ids = ops.convert_to_tensor(IDS[None], "int32")
    return encoding.bias(ops.zeros((1, T, H, D)), Grid(query_positions=ids, key_positions=ids))


def test_kerple():
    close(bias_of(KERPLE(), kerple_weights(A, P)), oracles_bias.kerple_log(P, A, IDS, IDS))
    power = oracles_bias.kerple_power(P, A, IDS, IDS)
    close(bias_of(KERPLE("power"), kerple_weights(A, P, "power")), power)
    square = oracles_bias.kerple_power(np.full(H, 2.0), A, IDS, IDS)
    close(bias_of(KERPLE("power", power=2), kerple_weights(A, None, "power")), square)


def test_fire():
    rng = np.random.default_rng(0)
    shapes = (5, 1), (5,), (H, 5), (H,)
    w, u, v, d = layers = [rng.normal(size=shape) for shape in shapes]
    ours = bias_of(FIRE(units=5, length=4), fire_weights(-0.3, 1.5, *layers))
    close(ours, oracles_bias.fire((w.T, u, v.T, d), 0.3, 4 * 1.5, IDS, IDS))


def test_t5_behind_a_temperature_is_not_divided_by_the_root():
    x = np.random.default_rng(0).normal(size=(1, T, 4)).astype("float32")
    temperature = {"name": "temperature", "value": math.sqrt(D)}
    layer = PositionalAttention(H, D, encodings=[temperature, "t5"])
    _, logits = layer(x, x, return_attention_logits=True)
    heads = ops.einsum("bqhd,bkhd->bhqk", layer.query_dense(x), layer.key_dense(x))
    table = ops.convert_to_numpy(layer.encodings[1].table).astype("float64")
    biases = oracles_bias.t5(table, IDS, IDS, bidirectional=True, longest=128)
    close(logits, ops.convert_to_numpy(heads)[0] + biases)


def test_rotary_bias_of_halves():
    """GAU's listing: the halves of a vector are rotated against each other."""
    a, b = np.random.default_rng(0).normal(size=(2, D))
    angles = np.outer(IDS, 10000.0 ** (-np.arange(D // 2) / (D // 2)))
    sin, cos = np.sin(angles), np.cos(angles)

    def rotated(vector):
        one, two = np.split(vector, 2)
        return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)

    layer = PositionalAttention(1, D, encodings=[RotaryBias()])
    layer.build((1, T, 4), (1, T, 4))
    layer.encodings[0].set_weights(rotary_bias_weights(a, b))
    x = ops.zeros((1, T, 4))
    _, logits = layer(x, x, return_attention_logits=True)
    close(logits, (rotated(a) @ rotated(b).T)[None])


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda: kerple_weights([0.0], [1.0]), "`a` must be positive. Received: .0.0."),
        (lambda: kerple_weights([1.0], [2.0], "power"), "between 0 and 2, both excluded"),
        (lambda: kerple_weights([1.0], [1.0], "linear"), '"log" or "power". Received: .linear'),
        (lambda: fire_weights(0.0, 1.0, *[np.ones((1, 1))] * 4), "`c` must be positive"),
        (lambda: rotary_bias_weights(np.ones(3), np.ones(3)), "S must be even. Received: 3"),
    ],
)
def test_numbers_out_of_range_are_refused(convert, words):
    with pytest.raises(ValueError, match=words):
        convert()
