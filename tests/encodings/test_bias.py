import numpy as np
import oracles
import oracles_bias
import pytest
from keras import ops

from keras_posenc import ALiBi, Grid, PositionalAttention
from keras_posenc.layers.attend import attend_explicitly

B, T, H, D = 2, 11, 3, 5
IDS = np.arange(T)
CAUSAL = np.tril(np.ones((T, T), bool))


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def grid_of(rows, columns=None):
    """A grid at the ids (T,) or (B, T)."""
    columns = rows if columns is None else columns
    rows, columns = (np.asarray(ids) for ids in (rows, columns))
    types = ["int32" if ids.dtype.kind == "i" else "float32" for ids in (rows, columns)]
    rows, columns = (
        ops.convert_to_tensor(np.atleast_2d(ids), dtype)
        for ids, dtype in zip((rows, columns), types, strict=True)
    )
    return Grid(rows=rows, columns=columns)


def added(encoding, grid, heads=H, size=D, dtype="float32"):
    """(B, H, Tq, Tk): what the encoding adds to the logits, by whichever hook."""
    lengths = grid.rows.shape[1], grid.columns.shape[1]
    q, k = (ops.zeros((grid.rows.shape[0], length, heads, size), dtype) for length in lengths)
    if not encoding.built:
        encoding.build(q.shape)
    grid = encoding.restrict(grid.replace(queries=q, keys=k))
    v = k
    q, k = encoding.heads(q, k, grid)
    return numpy(attend_explicitly(q, k, v, grid, size**-0.5, [encoding])[2])


def close(one, other, atol=1e-5):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=atol)


def attention_of(spec, x, heads=H, **call):
    """(output, what NumPy makes of the layer's projections and a bias) of a random layer."""
    layer = PositionalAttention(heads, D, encodings=[spec], bias_initializer="random_normal")
    output = layer(x, x, **call)

    def oracle(bias, allowed=None):
        dense = (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
        (wq, bq), (wk, bk), (wv, bv), (wo, bo) = ([numpy(w) for w in d.weights] for d in dense)
        q, k, v = (np.einsum("bte,ehd->bthd", x, w) + b for w, b in ((wq, bq), (wk, bk), (wv, bv)))
        return (
            np.einsum("bthd,hde->bte", oracles.attention(q, k, v, D**-0.5, bias, allowed), wo) + bo
        )

    return numpy(output), oracle


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(B, T, 8)).astype("float32")


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 20])
def test_alibi_slopes_for_any_number_of_heads(heads):
    grid = grid_of(IDS)
    close(added(ALiBi(), grid, heads)[0], oracles_bias.linear(heads, IDS, IDS))
    symmetric = added(ALiBi("symmetric"), grid, heads)[0]
    close(symmetric, oracles_bias.alibi(heads, IDS, IDS))


def test_causal_alibi_in_attention(x):
    output, oracle = attention_of("alibi", x, use_causal_mask=True)
    close(output, oracle(oracles_bias.alibi(H, IDS, IDS), CAUSAL))


@pytest.mark.parametrize(("left", "right"), [(1, 1), (1.0, 0.5), (0, 2.5)])
def test_alibi_with_a_factor_for_each_side(x, left, right):
    spec = {"name": "alibi", "direction": [left, right]}
    output, oracle = attention_of(spec, x)
    close(output, oracle(oracles_bias.alibi(H, IDS, IDS, left, right)))


def test_one_sided_alibi_gives_half_of_the_heads_to_each_side(x):
    bias = np.tile(oracles_bias.alibi(2, IDS, IDS), (2, 1, 1))
    sees = np.stack([CAUSAL, CAUSAL, CAUSAL.T, CAUSAL.T])
    mask = np.random.default_rng(1).random((B, T, T)) > 0.3
    mask |= np.eye(T, dtype=bool)
    output, oracle = attention_of({"name": "alibi", "direction": "one_sided"}, x, heads=4)
    close(output, oracle(bias, sees))
    spec = {"name": "alibi", "direction": "one_sided"}
    output, oracle = attention_of(spec, x, heads=4, attention_mask=mask)
    close(output, oracle(bias, sees & mask[:, None]))


@pytest.mark.parametrize("direction", ["causal", "symmetric", "one_sided", (1.0, 0.25)])
def test_learned_slopes_begin_at_the_fixed_ones_and_get_gradients(direction):
    fixed, learned = ALiBi(direction), ALiBi(direction, learned=True)
    grid = grid_of(IDS)
    close(added(learned, grid, heads=8), added(fixed, grid, heads=8))
    assert len(learned.trainable_weights) == 1 and not fixed.weights
    # Far below 0 a clamped slope would be stuck at 0, or negative.
    learned.slopes.assign(-20.0 * np.ones(8))
    assert (added(learned, grid_of([7], [0]), heads=8) != 0).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_alibi_tells_neighbours_apart_far_away_in_any_dtype(dtype):
    """Peers cast the positions to bfloat16, where 2048 and 2049 are one number."""
    columns = np.array([0, 255, 256, 257, 2047, 2048, 2049, 8191, 8192, 16383])
    rows = columns[-1:]
    bias = added(ALiBi(), grid_of(rows, columns), heads=8, size=4, dtype=dtype)[0, :, 0]
    steps = np.diff(bias, axis=-1)
    # The logits themselves are rounded to the dtype; where a step is small beside them it is lost.
    if dtype == "float32":
        close(bias, oracles_bias.linear(8, rows, columns)[:, 0])
        assert (steps > 0).all()
    near = added(ALiBi(), grid_of([2049], [2047, 2048, 2049]), heads=8, size=4, dtype=dtype)
    close(near[0, :, 0], oracles_bias.linear(8, [2049], [2047, 2048, 2049])[:, 0], 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_alibi_of_fractional_ids(dtype):
    """Float ids stay float: rounded to bfloat16, 300.25 would be 300."""
    ids = np.array([0.0, 0.75, 10.5, 299.5, 300.25, 301.0])
    bias = added(ALiBi(), grid_of(ids[-1:], ids), heads=2, size=4, dtype=dtype)[0, :, 0]
    want = oracles_bias.linear(2, ids[-1:], ids)[:, 0]
    np.testing.assert_allclose(bias, want, rtol=1e-5 if dtype == "float32" else 4e-3, atol=1e-6)


def test_alibi_far_from_zero_is_alibi_near_zero():
    for ids in (IDS, IDS + 0.5):
        near, far = (added(ALiBi(), grid_of(ids + shift)) for shift in (0, 1_000_000))
        np.testing.assert_array_equal(near, far)


def test_causal_alibi_refuses_attention_that_is_not_causal(x):
    with pytest.raises(ValueError, match="ALiBi is for causal attention"):
        PositionalAttention(H, D, encodings=["alibi"])(x, x)
    PositionalAttention(H, D, encodings=[ALiBi("symmetric")])(x, x)


@pytest.mark.parametrize("direction", ["left", (1,), (1, -1), (1, float("inf")), 2, None])
def test_alibi_refuses_other_directions(direction):
    with pytest.raises(ValueError, match=r"`direction` must be .* of at least 0. Received: "):
        ALiBi(direction)


def test_one_sided_alibi_refuses_an_odd_number_of_heads(x):
    with pytest.raises(ValueError, match='must be even. Received: 3; use "symmetric"'):
        PositionalAttention(3, D, encodings=[ALiBi("one_sided")])(x, x)


def test_several_axes_are_refused():
    ids = ops.zeros((1, T, 2), "int32")
    grid = Grid(rows=ids, columns=ids)
    for encoding in (ALiBi(), ALiBi("symmetric")):
        encoding.build((1, T, H, D))
        with pytest.raises(ValueError, match="2 axes have no single distance"):
            encoding.heads(ops.zeros((1, T, H, D)), ops.zeros((1, T, H, D)), grid)
            encoding.bias(None, grid)
