"""Where no ids are given, some encodings read a part of the columns, or the diagonals."""

import keras
import laws
import numpy as np
import pytest
from backend_gradients import GRADIENTS
from cases import case, spec
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.encodings import Grid
from keras_posenc.maps import diagonals
from keras_posenc.maps.columns import Columns, band

BACKEND = keras.backend.backend()
T, ROWS = 22, 5
# All with distances that end well before the text does, but Transformer-XL.
TOGETHER = case(
    spec("shaw", max_distance=2),
    spec("nezha", max_distance=1),
    spec("t5", num_buckets=8, max_distance=3),
    spec("deberta", max_distance=2),
    spec("deberta", max_distance=4, buckets=4, released=True),
    "transformer_xl",
)
SCALED = [
    case("transformer_xl", last)
    for last in ("log_n", "ssmax", spec("temperature", value=2.0), "rotary", "deberta")
]
ALONE = [case(encoding) for encoding in TOGETHER.encodings]
ON_TORCH = [*ALONE, *SCALED] if BACKEND == "torch" else []


def a_grid(start, rows, columns):
    grid = Grid(ops.arange(start, start + rows)[None], ops.arange(columns)[None])
    return grid.replace(ids_are_indices=True)


@pytest.mark.parametrize("causal", [False, True] if BACKEND == "torch" else [True])
@pytest.mark.parametrize("some", [TOGETHER, *ON_TORCH], ids=str)
def test_given_ids_and_none_say_the_same(some, causal, cut_maps):
    """Values and gradients, in blocks of rows and in one piece, beside padding."""
    layer, x = laws.attention(some), laws.numbers(length=T)
    keep = np.arange(T) < np.array([[T], [T - 3]])
    arguments = dict(causal=causal, value_mask=keep, counted=keep, training=True)
    ids = {"query_positions": np.arange(7, T + 7), "key_positions": np.arange(7, T + 7)}
    given = laws.gradients(layer, x, **ids, **arguments)
    pieces = [laws.gradients(layer, x, **arguments)]
    cut_maps(0, 4 * len(x) * laws.H * T * ROWS)
    pieces.append(laws.gradients(layer, x, **arguments))
    for found in pieces:
        for one, other in zip(found, given, strict=True):
            laws.close(one, other, 1e-4)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow with XLA")
def test_xla_trains_to_the_same_weights(cut_maps):
    """Of sizes that are known only when it runs."""
    parts = [spec("shaw", max_distance=2, values=False), spec("cope", npos_max=3)]
    parts += ["t5", "selective"]
    x, trained = laws.numbers(length=100), []
    cut_maps(0, 4 * len(x) * laws.H * 100 * ROWS)
    for compiled in (False, True):
        inputs = keras.Input((None, x.shape[-1]))
        layer = PositionalAttention(laws.H, laws.D, encodings=parts)
        model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
        rng = np.random.default_rng(1)
        model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=compiled)
        model.train_on_batch(x, x)
        trained.append(model.get_weights())
    for one, other in zip(*trained, strict=True):
        laws.close(one, other, 1e-4)


@pytest.mark.once
def test_a_window_with_sinks_leaves_columns_out(cut_maps):
    """Then they do not stand side by side, and every cell is looked up."""
    cut_maps(0, 4 * 2 * laws.H * T * ROWS)
    window = spec("window", window=4, sinks=2)
    layer = laws.attention(case(window, *TOGETHER.encodings), dropout=0.0)
    x = laws.numbers(length=T)
    blocks = laws.run(layer, x, causal=True, training=True)
    whole = laws.call(layer, x, causal=True, return_attention_scores=True)[0]
    laws.close(blocks, laws.to_numpy(whole), 1e-4)


@pytest.mark.once
@pytest.mark.parametrize("some", [TOGETHER, *SCALED], ids=str)
def test_a_cache_is_read_from_where_its_rows_stand(some):
    """Also by one row, of which Transformer-XL makes another computation."""
    layer, x = laws.attention(some), laws.numbers(length=T)
    whole = laws.run(layer, x, causal=True)
    cache, found = layer.make_cache(len(x), T), []
    for start, stop in ((0, 14), (14, 15), (15, T)):
        out, cache = layer(*[ops.convert_to_tensor(x[:, start:stop])] * 2, cache=cache)
        found.append(laws.to_numpy(out))
    laws.close(np.concatenate(found, 1), whole, 1e-4)


@pytest.mark.parametrize("start", [0, 3, 17])
def test_what_is_cut_is_put_back_between_its_neighbours(start):
    rng = np.random.default_rng(0)
    x, before, after = (rng.normal(size=s).astype("float32") for s in ((2, 3, 4, 5), (3, 4, 1), 22))
    columns = Columns(a_grid(0, 4, 22), start, 5)
    put = laws.to_numpy(columns.put(*map(ops.convert_to_tensor, (x, before, after))))
    assert put.shape == (2, 3, 4, 22)
    np.testing.assert_array_equal(put[..., start : start + 5], x)
    np.testing.assert_array_equal(put[..., :start], before * np.ones((2, 1, 1, start)))
    np.testing.assert_array_equal(put[..., start + 5 :], after[start + 5 :] * np.ones((2, 3, 4, 1)))
    np.testing.assert_array_equal(laws.to_numpy(columns.cut(ops.convert_to_tensor(put))), x)
    outside = laws.to_numpy(columns.sums_outside(ops.convert_to_tensor(put)))
    ends = put[..., :start], put[..., start + 5 :]
    np.testing.assert_allclose(outside, np.stack([e.sum(-1) for e in ends], -1), rtol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("start", [0, 2, 9, 18, 30])
def test_a_band_holds_every_cell_within_reach(start):
    grid = a_grid(start, 4, 22)
    part = band(grid, 3)
    assert ops.shape(part.grid.key_positions)[1] == 4 + 2 * 3
    near = np.abs(laws.to_numpy(grid.distance())) <= 3
    assert near.sum() == (np.abs(laws.to_numpy(part.grid.distance())) <= 3).sum()
    assert ops.shape(band(grid.replace(ids_are_indices=False), 3).grid.key_positions)[1] == 22


@pytest.mark.parametrize("rows, columns", [(1, 6), (4, 6), (6, 6), (7, 2)])
def test_diagonals_hold_one_distance_each(rows, columns):
    grid = a_grid(3, rows, columns)
    by_row = ops.broadcast_to(diagonals.diagonal_distances(grid), (2, 3, rows, rows + columns))
    found = laws.to_numpy(diagonals.map_of_diagonals(by_row))
    np.testing.assert_array_equal(found, laws.to_numpy(grid.distance()) * np.ones((2, 3, 1, 1)))


@pytest.mark.parametrize("rows, columns", [(1, 16), (1, 6), (17, 32), (33, 5), (40, 40)])
@pytest.mark.parametrize("backend, way", [("tensorflow", "map_of_line"), ("jax", "map_of_slices")])
def test_pieces_of_a_line_are_its_diagonals(backend, way, rows, columns):
    """Values and gradients."""
    if backend != BACKEND:
        pytest.skip(f"the way of {backend}")
    rng = np.random.default_rng(0)
    line = rng.normal(size=(2, 3, rows + columns)).astype("float32")
    weight = rng.normal(size=(2, 3, rows, columns)).astype("float32")

    def by_shape(line):
        return diagonals.map_of_diagonals(ops.repeat(line[:, :, None], rows, axis=2))

    def loss_of(lay):
        def loss(x, _):
            out = lay(x)
            return ops.sum(out * weight), out

        return loss

    ways = by_shape, lambda line: getattr(diagonals, way)(line, rows, columns)
    gradients, layer = GRADIENTS[BACKEND], keras.layers.Layer()
    found = [gradients(layer, ops.convert_to_tensor(line), loss_of(way), False) for way in ways]
    for one, other in zip(*found, strict=True):
        laws.close(laws.to_numpy(one), laws.to_numpy(other), 1e-5)
