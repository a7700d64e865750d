"""float16 and float64: logits beyond the range of float16, and any floatx with any policy."""

import keras
import laws
import numpy as np
import pytest
from cases import CASES, PAIRS
from keras import ops
from laws import B, D, E, H
from programs import one_program

from keras_posenc import GatedAttentionUnit, LearnedPositionEmbedding, PositionalAttention
from keras_posenc.encodings import Grid, SquaredReLU
from keras_posenc.layers.token_embedding import IdEmbedding

T = 24
NAMES = ("rotary", "t5", "shaw", "transformer_xl", "deberta", "xpos", "window(window=3)")
NAMES += ("rerope(window=3)", "cope(npos_max=4-gate=values)", "sandwich", "log_n")
LARGE = [case for case in CASES if str(case) in NAMES]


def large(case, dtype, factor=300.0, **arguments):
    """Attention whose products of queries and keys are up to 10^5 times as large, or more."""
    layer = laws._attention(case, D, (None, T, E), dtype=dtype, **arguments)
    for dense in (layer.query_dense, layer.key_dense):
        dense.set_weights([factor * w for w in dense.get_weights()])
    return layer


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_products_beyond_float16_are_numbers_on_every_path(case, dtype, cut_maps):
    x, causal = laws.numbers(length=T), case.orders[0]
    layer, exact = large(case, dtype), large(case, "float32")
    keep = np.arange(T) < np.array([[T], [T - 5]])
    q, k = (ops.convert_to_numpy(dense(x)) for dense in (exact.query_dense, exact.key_dense))
    assert np.abs(np.einsum("bihd,bjhd->bhij", q, k)).max() > 65504
    for arguments in ({"causal": causal}, {"causal": causal, "value_mask": keep}):
        expected = laws.run(exact, x, **arguments)
        real = keep if len(arguments) > 1 else np.ones_like(keep)
        for more in ({}, {"training": True}, {"return_attention_scores": True}):
            found = laws.call(layer, x, **arguments, **more)
            found = laws.to_numpy(found[0] if isinstance(found, tuple) else found)
            near(found[real], expected[real])
    cut_maps(0, 2**10)
    near(laws.run(layer, x, causal=causal, training=True), laws.run(exact, x, causal=causal))
    found = laws.gradients(layer, x, causal=causal, training=True)[0]
    near(found, laws.run(exact, x, causal=causal))


def near(found, expected):
    """Where the largest logit is rounded the softmax may choose another key, seldom."""
    assert np.isfinite(found).all()
    assert np.mean(np.abs(found - expected) > 0.05) < 0.15


def test_products_beyond_float16_are_numbers():
    """On every backend; decoded from a cache too."""
    x = laws.numbers(length=T)
    layer, exact = (large(laws.Case(("rotary",)), dtype) for dtype in ("float16", "float32"))
    x = ops.convert_to_tensor(x)

    def found(x):
        return [
            each(x, x, use_causal_mask=True, training=training)
            for each, training in ((exact, False), (layer, False), (layer, True))
        ]

    expected, *others = map(laws.to_numpy, one_program(found)(x))
    for each in others:
        near(each, expected)
    step = one_program(lambda x, cache: layer(x, x, cache=cache))
    _, cache = step(x[:, :-1], layer.make_cache(B, T))
    last, _ = step(x[:, -1:], cache)
    near(laws.to_numpy(last), expected[:, -1:])


@pytest.mark.once
def test_products_beyond_float16_are_numbers_in_a_gated_unit():
    x = 30 * laws.numbers(length=T)
    layer = GatedAttentionUnit(8, key_size=4, activation="linear", dtype="float16")
    layer.build(x.shape)
    layer.query_scale.assign(np.full(4, 300.0))
    assert np.isfinite(laws.to_numpy(layer(x))).all()


POLICIES = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64")


@pytest.fixture
def usual():
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)


def trains(encodings, floatx, policy):
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
    inputs, mask = keras.Input((T, E)), keras.Input((T,), dtype="bool")
    attend = PositionalAttention(H, D, encodings=encodings, dropout=0.1)
    x = attend(inputs, inputs, value_mask=mask, use_causal_mask=True)
    model = keras.Model([inputs, mask], keras.layers.Dense(1)(x[:, -1]))
    eagerly = keras.backend.backend() == "tensorflow"  # it would trace for a minute
    model.compile(keras.optimizers.SGD(1e-3), "mse", run_eagerly=eagerly)
    keep = np.arange(T) < np.array([[T], [T - 5]])
    losses = model.fit([laws.numbers(length=T), keep], np.ones((B, 1)), verbose=0).history["loss"]
    assert np.isfinite(losses).all(), (floatx, policy)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")  # JAX computes in float32
@pytest.mark.parametrize(
    ("floatx", "policy"), [("float64", "float64"), ("float16", "mixed_float16")]
)
def test_any_floatx_trains_with_any_policy(floatx, policy, usual):
    trains([{"name": "rotary", "use_bias": True}, "t5", "sandwich"], floatx, policy)


@pytest.mark.parametrize("floatx", ["float16", "bfloat16", "float64"])
def test_no_floatx_rounds_ids(floatx, usual):
    """Keras on JAX makes bfloat16 of integers, so there it is one clear error."""
    keras.config.set_floatx(floatx)
    layers = (
        lambda: IdEmbedding(300, 2),
        lambda: LearnedPositionEmbedding(300, 2, merge_mode="zero"),
        lambda: PositionalAttention(1, 2, encodings=["t5"]),
    )
    if keras.backend.backend() == "jax" and floatx == "bfloat16":
        for layer in layers:
            with pytest.raises(ValueError, match="must not be bfloat16 on JAX: .*set_dtype_policy"):
                layer()
        return
    table, positions, attend = (layer() for layer in layers)
    table.build((1, 1))
    table.embeddings.assign(np.eye(300, 2, -256))
    assert laws.to_numpy(table(np.array([[256, 257]])))[0].tolist() == [[1, 0], [0, 1]]
    x = np.zeros((1, 2, 2))
    positions(x)
    positions.set_weights([np.eye(300, 2, -256)])
    assert laws.to_numpy(positions(x, np.array([[256, 257]])))[0].tolist() == [[1, 0], [0, 1]]
    assert np.isfinite(laws.to_numpy(attend(x, x, use_causal_mask=True))).all()


@pytest.mark.once
@pytest.mark.parametrize("floatx", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("case", PAIRS[1::2], ids=str)
def test_any_floatx_trains_with_any_policy_and_encoding(case, floatx, usual):
    for policy in POLICIES:
        trains(list(case.encodings), floatx, policy)


def test_squares_beyond_float16_are_numbers():
    """The square of a logit of 300 is not; divided by 64 keys it is a weight of 1,400."""
    logits = ops.full((1, 1, 64, 64), 300.0, dtype="float16")
    assert not np.isfinite(laws.to_numpy(ops.square(logits))).any()
    ids = ops.arange(64)[None]
    weights = SquaredReLU(dtype="float16").normalize(logits, Grid(ids, ids))
    np.testing.assert_allclose(laws.to_numpy(ops.cast(weights, "float32")), 300**2 / 64, rtol=1e-3)
