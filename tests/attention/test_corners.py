"""Attention in blocks where weights are frozen or share a name, and at the edges of shapes."""

import keras
import numpy as np
import pytest
from backend_gradients import GRADIENTS
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.encodings import Encoding

BACKEND = keras.backend.backend()
# JAX, which compiles for seconds, reads no weight in another way than the rest.
WITH_WEIGHTS = ["t5", "fire", "kerple", "cope", "transformer_xl"] if BACKEND != "jax" else ["t5"]


@pytest.fixture(autouse=True)
def small_blocks(cut_maps):
    cut_maps(0, 2**7, 4)


def features(rows=10, batch=2):
    x = np.random.default_rng(0).normal(size=(batch, rows, 8)).astype("float32")
    return ops.convert_to_tensor(x)


def gradients(layer, x):
    """The output, the gradient of x and those of all trainable weights."""

    def loss(x, layer):
        out = layer(x, x, use_causal_mask=True, training=True)
        return ops.sum(out**2), out

    return [ops.convert_to_numpy(g) for g in GRADIENTS[BACKEND](layer, x, loss, False)]


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_frozen_weights_are_read_and_change_nothing_else(name):
    layer, x = PositionalAttention(2, 4, encodings=[name], seed=1), features()
    layer.build(x.shape, x.shape)
    out, of_x, *_ = gradients(layer, x)
    layer.trainable = False
    frozen = gradients(layer, x)
    assert len(frozen) == 2
    np.testing.assert_allclose(frozen[0], out, atol=1e-6)
    np.testing.assert_allclose(frozen[1], of_x, atol=1e-5)


def of_tables(layer, x):
    """The gradients of the weights that are called "table"."""
    found = zip(layer.trainable_variables, gradients(layer, x)[2:], strict=True)
    return [gradient for weight, gradient in found if weight.name == "table"]


@pytest.mark.once
def test_a_weight_learns_though_its_encoding_is_frozen():
    layer, x = PositionalAttention(2, 4, encodings=["t5"], seed=1), features()
    layer(x, x)
    layer.encodings[0].trainable = False
    assert of_tables(layer, x) == []
    layer.encodings[0].weights[0].trainable = True
    (found,) = of_tables(layer, x)
    assert np.abs(found).max() > 1e-3


class TwoOfOneName(Encoding):
    """A bias of two weights that are both called "table"."""

    def build(self, heads_shape):
        self.first, self.second = (
            self.add_weight(shape=(), name="table", initializer="ones") for _ in range(2)
        )
        self.built = True

    def bias(self, queries, grid):
        distance = ops.cast(grid.distance(), "float32")[:, None]
        return self.first * distance - self.second * ops.cos(distance)


def test_weights_of_one_name_learn_apart():
    layer, x = PositionalAttention(2, 4, encodings=[TwoOfOneName()], seed=1), features()
    layer(x, x)
    of_first, of_second = of_tables(layer, x)
    assert abs(of_first) > 1e-3 and abs(of_second) > 1e-3
    assert abs(of_first - of_second) > 1e-3


@pytest.mark.skipif(BACKEND != "torch", reason="the others take the gradient of what has none")
def test_a_map_that_depends_on_no_gradient_gives_zeros():
    """Of a text of one token all weights are 1."""
    layer, x = PositionalAttention(2, 4, encodings=["t5"], seed=1), features(rows=1)
    layer(x, x)
    (table,) = layer.encodings[0].weights
    for weight in layer.weights:
        weight.trainable = weight is table
    layer(x, x, training=True).sum().backward()
    assert float(table.value.grad.abs().max()) == 0


@pytest.mark.skipif(BACKEND != "torch", reason="autocast is torch's")
def test_blocks_are_computed_again_under_the_autocast_they_had():
    import torch

    seen = []

    class Seen(Encoding):
        def bias(self, queries, grid):
            seen.append((queries @ queries.transpose(-1, -2)).dtype)
            return ops.zeros((1, 1, 1, 1))

    layer, x = PositionalAttention(2, 4, encodings=[Seen()]), features()
    layer(x, x, use_causal_mask=True)
    del seen[:]
    with torch.autocast("cpu", torch.bfloat16):
        total = layer(x, x, training=True).sum()
    total.backward()
    assert set(seen) == {torch.bfloat16} and len(seen) > 4


@pytest.mark.once
@pytest.mark.parametrize("name", ["log_n", "ssmax"])
def test_rows_after_the_last_column_see_all_columns(name):
    layer = PositionalAttention(2, 4, encodings=[name])
    x, few = features(), features()[:, :6]
    out = ops.convert_to_numpy(layer(x, few, use_causal_mask=True))
    again = ops.convert_to_numpy(layer(x[:, 6:], few))
    np.testing.assert_allclose(out[:, 6:], again, atol=1e-5)


@pytest.mark.once
def test_a_forget_gate_needs_the_queries_among_the_keys():
    x = features()
    with pytest.raises(ValueError, match="ForgetGate needs .* Received: 10 queries and 6 keys"):
        PositionalAttention(2, 4, encodings=["forget_gate"])(x, x[:, :6], use_causal_mask=True)


@pytest.mark.once
@pytest.mark.parametrize("shape", [(), (10,), (10, 1), (2, 1, 10)])
def test_a_bias_has_any_axes_that_fit(shape):
    layer, x = PositionalAttention(2, 4), features()
    bias = np.random.default_rng(1).normal(size=shape).astype("float32")
    found = layer(x, x, bias=bias, training=True)
    whole = layer(x, x, bias=np.broadcast_to(bias, (2, 2, 10, 10)), training=True)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, whole)), atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_may_be_empty(training):
    layer = PositionalAttention(2, 4, encodings=["t5"])
    assert layer(features(), features(), training=training).shape == (2, 10, 8)
    empty = features(batch=0)
    assert layer(empty, empty, training=training).shape == (0, 10, 8)


@pytest.mark.parametrize(
    "encodings",
    [
        ["squared_relu"],
        ["log_n"],
        ["ssmax"],
        [{"name": "cope", "npos_max": 3, "bidirectional": True}],
        ["selective"],
        ["stick_breaking"],
    ],
    ids=str,
)
def test_a_mask_of_one_column_is_that_of_all_columns(encodings):
    """It says which queries attend at all; what counts keys counted one."""
    layer, x = PositionalAttention(2, 4, encodings=encodings), features()
    narrow = np.arange(10)[:, None] % 3 > 0
    found, whole = (
        ops.convert_to_numpy(layer(x, x, attention_mask=mask))
        for mask in (narrow, np.broadcast_to(narrow, (10, 10)))
    )
    np.testing.assert_allclose(found, whole, atol=1e-5)
