"""Windows with sinks, and the layers that get them."""

import math

import laws
import numpy as np
import oracles
import pytest
from keras import ops
from selection import on_all

from keras_posenc import PositionalAttention
from keras_posenc.attention.choose import attend
from keras_posenc.attention.local import local_rows
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import Grid
from keras_posenc.encodings.patterns import alternate
from keras_posenc.encodings.window import Window

B, T, H, D = 2, 8, 2, 4
Q, K, V = np.random.default_rng(0).normal(size=(3, B, T, H, D)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def open_cells(rows, columns, window, sinks, few=0):
    """The definition, cell by cell."""
    return np.array(
        [[abs(i - j) < window or j < sinks or min(i, j) < few for j in columns] for i in rows]
    )


@pytest.mark.once
@pytest.mark.parametrize(("window", "sinks", "few"), [(1, 0, 2), (3, 2, 1), (2.5, 1, 0)])
@pytest.mark.parametrize("ids", [range(T), [0, 1, 2, 7, 8, 9, 20, 21], np.linspace(0, 9, T)])
def test_what_a_query_sees(window, sinks, few, ids):
    ids = np.asarray(ids)
    dtype = "int32" if ids.dtype.kind == "i" else "float32"
    rows = ops.convert_to_tensor(ids[None].astype(dtype))
    grid = Window(window, sinks, few).restrict(Grid(rows, rows))
    ids = ids.astype(dtype)
    expected = open_cells(ids, ids, window, sinks, few)
    np.testing.assert_array_equal(ops.convert_to_numpy(grid.mask())[0, 0], expected)
    np.testing.assert_array_equal(ops.convert_to_numpy(grid.visible())[0, 0], expected.sum(-1))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_a_window(causal):
    allowed = open_cells(range(T), range(T), 3, 1)
    allowed = np.tril(allowed) if causal else allowed
    rows = ops.arange(T)[None]
    order = {"query_order": rows, "key_order": rows} if causal else {}
    grid = Grid(rows, rows, **order)
    wanted = oracles.attention(Q, K, V, 1 / math.sqrt(D), allowed=allowed)
    q, k, v = (ops.convert_to_tensor(x) for x in (Q, K, V))
    rules = Rules(Hooks((Window(3, sinks=1),)), 1 / math.sqrt(D))
    fused = attend(q, k, v, grid, rules)[0]
    explicit = attend(q, k, v, grid, rules, with_map=True)[0]
    np.testing.assert_allclose(numpy(fused), wanted, atol=1e-5)
    np.testing.assert_allclose(numpy(explicit), wanted, atol=1e-5)


def test_a_window_in_the_layer():
    layer = PositionalAttention(H, D, encodings=[{"name": "window", "window": 2, "sinks": 1}])
    x = np.random.default_rng(0).normal(size=(B, T, 6)).astype("float32")
    _, weights = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    seen = numpy(weights)[0, 0] > 0
    np.testing.assert_array_equal(seen, np.tril(open_cells(range(T), range(T), 2, 1)))


@pytest.mark.parametrize("causal", on_all([True], [False, True]))
def test_a_long_text_costs_its_window_and_says_the_same(causal):
    """Output and gradient by chunks are those of the map, with sinks, global tokens and padding."""
    long, small = 700, {"window": 20, "sinks": 4, "global_tokens": 2}
    layer = PositionalAttention(1, D, encodings=[{"name": "window", **small}])
    x = laws.numbers(length=long)
    keep = np.arange(long) < np.array([[long], [long - 9]])
    arguments = {"causal": causal, "value_mask": keep}
    layer.build(x.shape, x.shape)
    rows = ops.arange(long)[None]
    grid = Window(**small).restrict(Grid(rows, rows, ids_are_indices=True))
    q = ops.zeros((1, long, 1, D))
    assert local_rows(q, q, grid, Rules(layer.hooks)) == 64
    whole = laws.gradients(layer, x, return_attention_scores=True, **arguments)
    for one, other in zip(laws.gradients(layer, x, **arguments), whole, strict=True):
        laws.close(one, other, 1e-4)


def test_a_text_shorter_than_its_global_tokens():
    layer = PositionalAttention(1, D, encodings=[Window(2, global_tokens=5)])
    plain = PositionalAttention(1, D)
    x = np.random.default_rng(0).normal(size=(1, 4, 6)).astype("float32")
    layer.build(x.shape, x.shape)
    plain.build(x.shape, x.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(numpy(layer(x, x)), numpy(plain(x, x)), atol=1e-6)


@pytest.mark.once
def test_bad_windows_are_refused():
    for window in (0, -1, True, "3", math.inf, math.nan):
        with pytest.raises(ValueError, match="`window` must be a positive number: .*Received"):
            Window(window)
    for sinks in (-1, 1.5, True):
        with pytest.raises(ValueError, match="`sinks` must be an integer of at least 0. Received"):
            Window(4, sinks=sinks)
        with pytest.raises(
            ValueError, match="`global_tokens` must be an integer of at least 0. Rec"
        ):
            Window(4, global_tokens=sinks)
    with pytest.raises(ValueError, match="Two windows over one attention map: keep the one"):
        Window(8).restrict(Window(4).restrict(Grid(np.arange(3)[None], np.arange(3)[None])))


@pytest.mark.once
def test_every_fourth_layer_is_another():
    window = {"name": "window", "window": 4}
    layers = alternate(9, 4, full=[], local=["rotary", window])
    assert [number for number, specs in enumerate(layers, 1) if specs == []] == [4, 8]
    assert layers[8] == ["rotary", window]
    assert alternate(3, 3, full=["log_n"], local=[window]) == [[window], [window], ["log_n"]]
    assert alternate(2, 1, full=["log_n"], local=[]) == [["log_n"], ["log_n"]]
    layers[0].append("more")
    assert layers[1] == ["rotary", window]


@pytest.mark.once
def test_bad_patterns_are_refused():
    with pytest.raises(ValueError, match="`every` must be at most the 3 layers, .*Received: 4"):
        alternate(3, 4, full=[], local=[])
    for number in (0, 1.5, True):
        with pytest.raises(ValueError, match="`number_of_layers` must be a positive integer"):
            alternate(number, 1, full=[], local=[])
        with pytest.raises(ValueError, match="`every` must be a positive integer"):
            alternate(3, number, full=[], local=[])
    with pytest.raises(TypeError, match="`local` must be a list of encodings. Received: 'rotary'"):
        alternate(3, 3, full=[], local="rotary")
