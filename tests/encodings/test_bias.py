import json

import keras
import numpy as np
import oracles
import oracles_bias
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.attention.choose import attend
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import FIRE, KERPLE, ALiBi, Grid, RotaryBias, Sandwich, T5Bias
from keras_posenc.encodings.separable import alibi_slopes

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
    return Grid(query_positions=rows, key_positions=columns)


def added(encoding, grid, heads=H, size=D, dtype="float32"):
    """(B, H, Tq, Tk): what the encoding adds to the logits, by whichever hook."""
    lengths = grid.query_positions.shape[1], grid.key_positions.shape[1]
    q, k = (
        ops.zeros((grid.query_positions.shape[0], length, heads, size), dtype) for length in lengths
    )
    if not encoding.built:
        encoding.build(q.shape)

    def logits(q, k, rows, columns):
        inner = grid.replace(query_positions=rows, key_positions=columns)
        return attend(q, k, k, inner, Rules(Hooks((encoding,)), size**-0.5), with_map=True)[2]

    return numpy(one_program(logits)(q, k, grid.query_positions, grid.key_positions))


def one_program(function):
    """The function, compiled where each operation by itself is compiled for each new shape."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def close(one, other, atol=1e-5):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=atol)


def attention_of(spec, x, heads=H, **call):
    """(output, what NumPy makes of the layer's projections and a bias) of a random layer."""
    layer = PositionalAttention(heads, D, encodings=[spec], bias_initializer="random_normal")
    layer.build(x.shape, x.shape)
    output = one_program(lambda x: layer(x, x, **call))(ops.convert_to_tensor(x))

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


@pytest.mark.once
def test_alibi_slopes_for_any_number_of_heads():
    for heads in range(1, 41):
        close(alibi_slopes(heads), oracles_bias.slopes(heads), 1e-12)


@pytest.mark.once
def test_alibi_with_heads_that_are_no_power_of_two():
    grid = grid_of(IDS)
    close(added(ALiBi(), grid, 12)[0], oracles_bias.linear(12, IDS, IDS))
    close(added(ALiBi("symmetric"), grid, 12)[0], oracles_bias.alibi(12, IDS, IDS))


@pytest.mark.once
def test_causal_alibi_in_attention(x):
    output, oracle = attention_of("alibi", x, use_causal_mask=True)
    close(output, oracle(oracles_bias.alibi(H, IDS, IDS), CAUSAL))


@pytest.mark.once
@pytest.mark.parametrize(("left", "right"), [(1, 1), (1.0, 0.5), (0, 2.5)])
def test_alibi_with_a_factor_for_each_side(x, left, right):
    spec = {"name": "alibi", "direction": [left, right]}
    output, oracle = attention_of(spec, x)
    close(output, oracle(oracles_bias.alibi(H, IDS, IDS, left, right)))


@pytest.mark.once
def test_one_sided_alibi_gives_half_of_the_heads_to_each_side(x):
    bias = np.tile(oracles_bias.alibi(2, IDS, IDS), (2, 1, 1))
    sees = np.stack([CAUSAL, CAUSAL, CAUSAL.T, CAUSAL.T])
    mask = np.random.default_rng(1).random((B, T, T)) > 0.3
    mask |= np.eye(T, dtype=bool)
    spec = {"name": "alibi", "direction": "one_sided"}
    output, oracle = attention_of(spec, x, heads=4, attention_mask=mask)
    close(output, oracle(bias, sees & mask[:, None]))


@pytest.mark.parametrize("direction", ["symmetric", "one_sided"])
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
    near = [2047, 2048, 2049]
    bias = added(ALiBi(), grid_of([2049], near), heads=8, size=4, dtype=dtype)[0, :, 0]
    close(bias, oracles_bias.linear(8, [2049], near)[:, 0], 1e-6)
    # With a size whose root is not exact the slope is rounded, and the distances are still right.
    steps = np.diff(added(ALiBi(), grid_of([2049], near), heads=8, size=8, dtype=dtype)[0, :, 0])
    np.testing.assert_allclose(steps[:, 0], steps[:, 1], rtol=0.05)
    np.testing.assert_allclose(steps.mean(-1), oracles_bias.slopes(8), rtol=0.05)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_alibi_of_fractional_ids(dtype):
    """Float ids stay float: rounded to bfloat16, 300.25 would be 300."""
    ids = np.array([0.0, 0.75, 10.5, 299.5, 300.25, 301.0])
    bias = added(ALiBi(), grid_of(ids[-1:], ids), heads=2, size=4, dtype=dtype)[0, :, 0]
    want = oracles_bias.linear(2, ids[-1:], ids)[:, 0]
    np.testing.assert_allclose(bias, want, rtol=1e-5 if dtype == "float32" else 4e-3, atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("direction", ["causal", "symmetric"])
def test_fractional_queries_meet_whole_keys(direction):
    rows, columns = np.array([3.25, 700.5]), np.array([0, 3, 256])
    formula = oracles_bias.linear if direction == "causal" else oracles_bias.alibi
    close(added(ALiBi(direction), grid_of(rows, columns))[0], formula(H, rows, columns), 1e-4)


def test_alibi_far_from_zero_is_alibi_near_zero():
    for ids in (IDS, IDS + 0.5):
        near, far = (added(ALiBi(), grid_of(ids + shift)) for shift in (0, 1_000_000))
        np.testing.assert_array_equal(near, far)


@pytest.mark.once
def test_causal_alibi_refuses_attention_that_is_not_causal(x):
    with pytest.raises(ValueError, match="ALiBi is for causal attention"):
        PositionalAttention(H, D, encodings=["alibi"])(x, x)
    PositionalAttention(H, D, encodings=[ALiBi("symmetric")])(x, x)


@pytest.mark.once
@pytest.mark.parametrize("direction", ["left", (1,), (1, -1), (1, float("inf")), 2, None])
def test_alibi_refuses_other_directions(direction):
    with pytest.raises(ValueError, match=r"`direction` must be .* of at least 0. Received: "):
        ALiBi(direction)


@pytest.mark.once
def test_one_sided_alibi_refuses_an_odd_number_of_heads(x):
    with pytest.raises(ValueError, match='must be even. Received: 3; use "symmetric"'):
        PositionalAttention(3, D, encodings=[ALiBi("one_sided")])(x, x)


@pytest.mark.once
def test_several_axes_are_refused():
    ids = ops.zeros((1, T, 2), "int32")
    grid = Grid(query_positions=ids, key_positions=ids)
    for encoding in (ALiBi(), ALiBi("symmetric")):
        encoding.build((1, T, H, D))
        with pytest.raises(ValueError, match="2 axes have no single distance"):
            encoding.heads(ops.zeros((1, T, H, D)), ops.zeros((1, T, H, D)), grid)
            encoding.bias(None, grid)


@pytest.mark.once
@pytest.mark.parametrize(("size", "base"), [(128, 10000.0), (6, 50.0)])
def test_sandwich(size, base):
    """A library of the peers lost the cosine: its bias rises without bound before the query."""
    rows, columns = IDS + 0.5, np.array([0, 3, 10, 40])
    bias = added(Sandwich(size, base), grid_of(rows, columns))[0]
    close(bias, oracles_bias.sandwich(H, rows, columns, size, base), 2e-5)
    found = added(Sandwich(size, base), grid_of(IDS))[0]
    assert abs(np.diagonal(found, axis1=1, axis2=2)).max() < 1e-4 and found.max() < 1e-4


@pytest.mark.once
def test_rotary_bias(x):
    encoding = RotaryBias(size=6, base=100.0, initializer=keras.initializers.RandomNormal(0, 1))
    rows, columns = IDS, np.array([0.0, 2.5, 30.0])
    bias = added(encoding, grid_of(rows, columns))[0]
    a, b = numpy(encoding.a), numpy(encoding.b)
    assert a.shape == b.shape == (H, 6) and abs(a - b).max() > 0.1
    close(bias, oracles_bias.rotary_bias(a, b, rows, columns, 100.0))
    close(
        added(RotaryBias(8, initializer="sandwich"), grid_of(IDS))
        - 4 * 3 / np.array([8, 16, 24])[:, None, None],
        added(Sandwich(8), grid_of(IDS)),
    )


def test_rotary_bias_in_attention(x):
    layer = PositionalAttention(H, 4, encodings=["rotary_bias"])
    spec = {"name": "rotary_bias", "size": 4, "initializer": "sandwich"}
    output, oracle = attention_of(spec, x)
    close(output, oracle(oracles_bias.sandwich(H, IDS, IDS, 4)))
    layer(x, x)
    assert [w.shape for w in layer.encodings[0].weights] == [(H, 4)] * 2


@pytest.mark.once
@pytest.mark.parametrize(
    "encodings", [["sandwich"], ["rotary_bias"], ["rotary", "rotary_bias", "sandwich"]]
)
def test_a_number_a_distance_is_the_inner_product(encodings, x, monkeypatch):
    """Where the map is formed the numbers are added; of ids that are given the heads are wider."""
    layer = PositionalAttention(H, 4, encodings=encodings)
    layer.build(x.shape, x.shape)
    for weight in (w for encoding in layer.encodings for w in encoding.weights):
        weight.assign(20 * weight)
    ids = np.arange(x.shape[1])
    wider = layer(x, x, query_positions=ids, return_attention_logits=True)[1]
    for encoding in (Sandwich, RotaryBias):
        monkeypatch.setattr(encoding, "heads", None)
    np.testing.assert_allclose(
        numpy(layer(x, x, return_attention_logits=True)[1]), numpy(wider), atol=2e-5
    )


def test_separable_biases_far_from_zero():
    for encoding in (Sandwich(16), RotaryBias(8)):
        near, far = (added(encoding, grid_of(IDS + shift)) for shift in (0, 1_000_000))
        np.testing.assert_array_equal(near, far)


@pytest.mark.once
def test_kerple():
    rows, columns = IDS, np.array([0, 4, 10, 100])
    for encoding in (KERPLE(), KERPLE("power"), KERPLE("power", power=1.5), KERPLE("power", 2)):
        bias = added(encoding, grid_of(rows, columns), heads=8)[0]
        a = np.log1p(np.exp(numpy(encoding.a).astype("float64")))
        assert (0 < a).all() and (a < 1).all() and len(set(a)) == 8
        if encoding.power:
            p = np.full(8, encoding.power)
        elif encoding.kind == "power":
            p = 2 / (1 + np.exp(-numpy(encoding.p).astype("float64")))
        else:
            p = np.log1p(np.exp(numpy(encoding.p).astype("float64")))
        assert (0 < p).all() and (p <= 2).all() and p.max() > 1
        assert len(encoding.weights) == (1 if encoding.power else 2)
        formula = oracles_bias.kerple_log if encoding.kind == "log" else oracles_bias.kerple_power
        close(bias, formula(p, a, rows, columns))
        # Peers clamp the parameters in the forward pass; here they cannot leave the range.
        for weight in encoding.weights:
            weight.assign(-15.0 * np.ones(8))
        bias = added(encoding, grid_of([9], [0]), heads=8)
        assert (bias < 0).all() and (bias > -1e-3).all()


@pytest.mark.once
@pytest.mark.parametrize(
    ("bidirectional", "buckets", "longest"), [(True, 32, 128), (False, 32, 128), (True, 12, 11)]
)
def test_t5(bidirectional, buckets, longest):
    """Also for 128 and above, and at exact powers, where a logarithm may round down."""
    encoding = T5Bias(buckets, longest, bidirectional=bidirectional)
    rows, columns = np.arange(300, step=23), np.arange(300)
    bias = added(encoding, grid_of(rows, columns))[0]
    table = numpy(encoding.table)
    close(bias, oracles_bias.t5(table, rows, columns, bidirectional, longest))
    # Fractions are cut off on either side.
    cut = added(encoding, grid_of(np.array([20.0]), np.array([4.5, 19.3, 20.6, 36.9])))[0, :, 0]
    whole = added(encoding, grid_of([20], [5, 20, 20, 36]))[0, :, 0]
    close(cut, whole)


@pytest.mark.once
def test_t5_buckets_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    for bidirectional in (True, False):
        for buckets, longest in ((32, 128), (64, 256), (8, 20), (40, 800), (320, 512)):
            encoding = T5Bias(buckets, longest, bidirectional)
            encoding.build((1, 4, 1, 2))
            distances = np.arange(-longest - 9 if bidirectional else 0, longest + 9)
            ours = encoding.buckets[np.clip(distances, -longest, longest) + longest]
            reference = t5.T5Attention._relative_position_bucket(
                torch.from_numpy(-distances), bidirectional, buckets, longest
            )
            np.testing.assert_array_equal(ours, reference.numpy())


@pytest.mark.once
def test_fire():
    """The share is of each row's own reach; with L short, rows beyond it differ from distances."""
    encoding = FIRE(units=6, scale=0.3, length=4)
    rows, columns = np.array([0, 3, 4, 5, 40]), np.array([0, 1, 5, 30])
    bias = added(encoding, grid_of(rows, columns))[0]
    weights = [numpy(w) for w in (encoding.w[None], encoding.u, encoding.v, encoding.d)]
    close(bias, oracles_bias.fire(weights, 0.3, 4, rows, columns))
    assert abs(bias[:, 2, 0] - added(encoding, grid_of([44], [40]))[0, :, 0, 0]).max() > 1e-3
    encoding.c.assign(-200.0)
    encoding.threshold.assign(-200.0)
    assert np.isfinite(added(encoding, grid_of(IDS))).all()


@pytest.mark.once
def test_defaults_are_those_of_the_papers():
    encoding = FIRE()
    encoding.build((1, T, H, D))
    assert encoding.v.shape == (32, H)
    c, threshold = (np.log1p(np.exp(numpy(w))) for w in (encoding.c, encoding.threshold))
    close([c, threshold * encoding.length], [0.1, 512])
    t5 = T5Bias()
    assert (t5.num_buckets, t5.max_distance, Sandwich().size) == (32, 128, 128)


def test_every_weight_learns(x):
    """No gradient is missing, infinite or NaN, as that of 0^p and of ln 0 would be."""
    learned = [
        ALiBi("symmetric", learned=True),
        ALiBi(learned=True),
        KERPLE(),
        KERPLE("power"),
        RotaryBias(4),
        T5Bias(8, 20),
        FIRE(8),
    ]
    layer = PositionalAttention(H, D, encodings=learned)
    inputs = keras.Input((T, 8))
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
    model.compile(keras.optimizers.SGD(10.0), "mse")
    weights = [w for encoding in layer.encodings for w in encoding.trainable_weights]
    before = [numpy(w) for w in weights]
    model.fit(x, np.random.default_rng(1).normal(size=x.shape), verbose=0, batch_size=B)
    assert len(weights) == 2 + 2 + 2 + 2 + 1 + 6
    for old, weight in zip(before, weights, strict=True):
        new = numpy(weight)
        assert np.isfinite(new).all(), weight.path
        # The output's bias of FIRE is one number a head: softmax does not see it.
        assert (old != new).any() or weight.path.endswith("/d"), weight.path


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sandwich(7), "positive even integer: .* Received: 7"),
        (lambda: Sandwich(base=1.0), "`base` must be a number above 1. Received: 1.0"),
        (lambda: RotaryBias(0), "positive even integer: .* Received: 0"),
        (lambda: RotaryBias().build((1, T, H, 5)), "its default is the head size. Received: 5"),
        (lambda: RotaryBias(base=0), "`base` must be a number above 1. Received: 0"),
        (lambda: KERPLE("exp"), 'must be "log" or "power". Received: \'exp\''),
        (lambda: KERPLE("power", 2.5), "at most 2; .* power=2.5"),
        (lambda: KERPLE(power=1), "leave it None to learn it. .* power=1, kind='log'"),
        (lambda: T5Bias(33), "an even integer of at least 4: .* Received: 33"),
        (lambda: T5Bias(1, bidirectional=False), "at least 2.* Received: 1"),
        (
            lambda: T5Bias(32, 8),
            "an integer of at least 9: 8 distances .* Received: 8; make it longer",
        ),
        (lambda: FIRE(0), "`units` must be a positive integer. Received: 0"),
        (lambda: FIRE(1.5), "`units` must be a positive integer. Received: 1.5"),
        (lambda: FIRE(scale=0.0), "`scale` must be a positive number. Received: 0.0"),
        (lambda: FIRE(length=-1), "`length` must be a positive number. Received: -1"),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.once
def test_causal_t5_refuses_attention_that_is_not_causal(x):
    with pytest.raises(ValueError, match="T5Bias is for causal attention"):
        PositionalAttention(H, D, encodings=[T5Bias(bidirectional=False)])(x, x)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads what XLA asks for")
def test_separable_biases_form_no_map():
    """At 16384 tokens a map is 1 GB; the widened heads are a few MB."""
    import jax

    length, shape = 16384, (1, 16384, 1, 8)
    heads = jax.ShapeDtypeStruct(shape, "float32")
    ids = jax.ShapeDtypeStruct((1, length), "int32")

    def bytes_of(encoding):
        encoding.build(shape)

        def hooks(q, k, ids):
            grid = Grid(query_positions=ids, key_positions=ids)
            return encoding.heads(q, k, grid), encoding.bias(q, grid)

        needed = jax.jit(hooks).lower(heads, heads, ids).compile().memory_analysis()
        return needed.temp_size_in_bytes + needed.output_size_in_bytes

    assert bytes_of(ALiBi("symmetric")) >= 4 * length**2
    for encoding in (ALiBi(), ALiBi(learned=True), Sandwich(), RotaryBias(8)):
        assert bytes_of(encoding) < length**2 / 4
        assert not any(encoding.overrides(hook) for hook in ("bias", "score", "normalize", "value"))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads what XLA asks for")
@pytest.mark.parametrize("spec", ["alibi", "t5", "cope"])
def test_attention_forms_no_map(spec):
    """The layer, forward and backward, at 16384 tokens: a map of one head is 1 GB."""
    import jax

    length = 16384
    layer = PositionalAttention(1, 8, encodings=[spec])
    layer.build((1, length, 8), (1, length, 8))

    def loss(weights, x, order):
        # An order that is not known to be the index makes one loop, which is quick to compile.
        arguments = {"query_order": order, "key_order": order, "training": True}
        return jax.numpy.sum(layer.stateless_call(weights, [], x, x, **arguments)[0])

    weights = [jax.ShapeDtypeStruct(w.shape, "float32") for w in layer.trainable_variables]
    x = jax.ShapeDtypeStruct((1, length, 8), "float32")
    order = jax.ShapeDtypeStruct((1, length), "int32")
    needed = jax.jit(jax.grad(loss)).lower(weights, x, order).compile().memory_analysis()
    found = needed.temp_size_in_bytes + needed.output_size_in_bytes
    assert found < 4 * length**2 / (3 if spec == "cope" else 8)


@keras.saving.register_keras_serializable("keras_posenc_tests")
def ones(shape, dtype=None):
    return ops.ones(shape, dtype)


@keras.saving.register_keras_serializable("keras_posenc_tests")
class Ones:
    """An initializer that is not one of Keras' class."""

    def __call__(self, shape, dtype=None):
        return ops.ones(shape, dtype)

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@pytest.mark.once
@pytest.mark.parametrize("initializer", [ones, Ones()])
def test_a_config_of_any_initializer_is_plain(initializer):
    for layer in (T5Bias(embeddings_initializer=initializer),
                  PositionalAttention(2, 4, kernel_initializer=initializer)):  # fmt: skip
        config = layer.get_config()
        assert json.loads(json.dumps(config))
        assert type(layer).from_config(config).get_config() == config
