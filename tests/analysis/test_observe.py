import keras
import numpy as np
import oracles_seq2seq
import pytest

from keras_posenc import PositionalAttention, build_encoder_decoder
from keras_posenc.analysis import measure, observe
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.encodings.rotary import RotaryEmbedding


def turned(x, base=10000.0):
    """x (T, D) in float64, pairs side by side, row t turned by t."""
    length, size = x.shape
    angles = np.arange(length)[:, None] * base ** (-np.arange(0, size, 2) / size)
    pairs = x.reshape(length, size // 2, 2)
    z = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], -1).reshape(length, size)


def by_distance(left, right):
    """Mean of left_i . right_j / sqrt(D) over all i - j = r."""
    length, size = left.shape
    product = left @ right.T / np.sqrt(size)
    pairs = [[product[j + r, j] for j in range(length - r)] for r in range(length)]
    return np.array([np.mean(values) for values in pairs])


@pytest.fixture
def heads():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 2, 6, 3, 8))
    a, b = rng.normal(size=(2, 3, 8))
    return q, k, a, b


@pytest.mark.once
def test_the_four_terms_of_rotary_attention(heads):
    q, k, a, b = heads
    found = observe.rotary_terms(q, k, a, b)
    ones = np.ones((6, 1))
    for head in range(3):
        sides = {"a": turned(ones * a[head]), "b": turned(ones * b[head])}
        for name in ("qk", "ak", "qb", "ab"):
            mean = 0
            for text in range(2):
                sides.update(q=turned(q[text, :, head]), k=turned(k[text, :, head]))
                mean = mean + by_distance(sides[name[0]], sides[name[1]]) / 2
            np.testing.assert_allclose(found[name][head], mean, atol=1e-5)
    both = observe.rotary_terms(q + a, k + b, 0 * a, 0 * b)
    np.testing.assert_allclose(found["sum"], both["qk"], atol=1e-5)


@pytest.mark.once
def test_the_terms_follow_the_rotation_that_is_given(heads):
    found = observe.rotary_terms(*heads, rotary=RotaryEmbedding(base=100.0, use_bias=True))
    _, _, a, b = heads
    ones = np.ones((6, 1))
    expected = by_distance(turned(ones * a[1], 100.0), turned(ones * b[1], 100.0))
    np.testing.assert_allclose(found["ab"][1], expected, atol=1e-5)


def test_the_terms_of_a_layer_add_up_to_its_logits():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 5, 12)).astype("float32")
    rotary = RotaryEmbedding(use_bias=True, bias_initializer="ones", layout="half")
    layer = PositionalAttention(2, 8, encodings=["log_n", rotary], bias_initializer="ones")
    layer(states, states)
    found = observe.rotary_terms_of(layer, states)
    plain = PositionalAttention(2, 8, encodings=[rotary], bias_initializer="ones")
    plain.build(states.shape, states.shape)
    plain.set_weights(layer.get_weights())
    logits = keras.ops.convert_to_numpy(plain(states, states, return_attention_logits=True)[1])
    expected = [logits.diagonal(-r, 2, 3).mean((0, 2)) for r in range(5)]
    np.testing.assert_allclose(found["sum"], np.stack(expected, -1), atol=1e-4)
    assert np.abs(found["ab"]).min() > 0.1
    with pytest.raises(ValueError, match="no RotaryEmbedding among its encodings: \\['LogN'\\]"):
        observe.rotary_terms_of(PositionalAttention(2, 8, encodings=["log_n"]), states)


@pytest.mark.once
@pytest.mark.parametrize(
    "layer",
    [
        GatedAttentionUnit(12, 8, encodings=[RotaryEmbedding(use_bias=True)]),
        PositionalAttention(4, 8, num_key_value_heads=2, encodings=["rotary"]),
        PositionalAttention(2, 8, encodings=["rotary"], head_norm=keras.layers.RMSNormalization()),
    ],
    ids=["gated unit", "shared keys", "normalised heads"],
)
def test_the_terms_of_other_attention_add_up_to_its_logits_too(layer):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 5, 12)).astype("float32")
    inputs = [states] if isinstance(layer, GatedAttentionUnit) else [states, states]
    layer(*inputs)
    layer.set_weights([rng.normal(0, 0.5, weight.shape) for weight in layer.get_weights()])
    found = observe.rotary_terms_of(layer, states)
    logits = keras.ops.convert_to_numpy(layer(*inputs, return_attention_logits=True)[1])
    expected = [logits.diagonal(-r, 2, 3).mean((0, 2)) for r in range(5)]
    np.testing.assert_allclose(found["sum"], np.stack(expected, -1), atol=1e-4)
    assert (np.abs(found["ab"]).max() == 0) == (layer.head_norm is not None)


@pytest.mark.once
def test_contextual_positions_count_gates_from_the_key_to_the_query():
    states = np.random.default_rng(0).normal(size=(2, 5, 12)).astype("float32")
    layer = PositionalAttention(3, 4, encodings=["cope"], use_bias=False)
    before = keras.ops.convert_to_numpy(layer(states, states, use_causal_mask=True))
    found = observe.contextual_positions(layer, states)
    kernels = [keras.ops.convert_to_numpy(d.kernel) for d in (layer.query_dense, layer.key_dense)]
    q, k = (np.einsum("bte,ehd->bthd", states, kernel) for kernel in kernels)
    gates = 1 / (1 + np.exp(-np.einsum("bqhd,bkhd->bhqk", q, k) / 2))
    gates = np.tril(gates)
    np.testing.assert_allclose(found["gates"], gates, atol=1e-5)
    positions = np.stack([gates[..., j:].sum(-1) for j in range(5)], -1)
    np.testing.assert_allclose(found["positions"], positions, atol=1e-5)
    again = keras.ops.convert_to_numpy(layer(states, states, use_causal_mask=True))
    np.testing.assert_array_equal(before, again)
    with pytest.raises(ValueError, match="no ContextualPositionEmbedding among its encodings"):
        observe.contextual_positions(PositionalAttention(2, 8), states)


def small_model():
    x = inputs = keras.Input((None, 8))
    for name in ("first", "second"):
        x = PositionalAttention(2, 4, name=name)(x, x)
    return keras.Model(inputs, keras.layers.Dense(3)(x))


def test_the_inputs_of_every_attention_layer():
    model, x = small_model(), np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    found = observe.attention_inputs(model, x)
    first, second = model.get_layer("first"), model.get_layer("second")
    assert list(found) == [first, second]
    np.testing.assert_array_equal(found[first], x)
    np.testing.assert_allclose(
        found[second], keras.ops.convert_to_numpy(first(x, x)), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="no PositionalAttention of its own"):
        observe.attention_inputs(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), x)


@pytest.mark.once
def test_the_inputs_of_calls_as_the_model_makes_them():
    """A layer called twice, by keywords after a mask, and before that in another model."""
    layer, x, seen = PositionalAttention(2, 4), keras.Input((5, 8)), keras.Input((5, 5))
    keras.Model(x, layer(x, x))
    once = layer(attention_mask=seen, query=x, value=x)
    model = keras.Model([x, seen], layer(query=once, value=x))
    inputs = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32"), np.eye(5)[None]
    first = layer(inputs[0], inputs[0], attention_mask=inputs[1])
    (found,) = observe.attention_inputs(model, inputs).values()
    for each, expected in zip(found, (inputs[0], first), strict=True):
        np.testing.assert_allclose(each, keras.ops.convert_to_numpy(expected), atol=1e-6)


@pytest.mark.once
def test_entropy_by_layer():
    model, x = small_model(), np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    found = observe.entropy_by_layer(model, x)
    layer = model.get_layer("first")
    weights = keras.ops.convert_to_numpy(layer(x, x, return_attention_scores=True)[1])
    np.testing.assert_allclose(
        found[0], -(weights * np.log(weights)).sum(-1).mean((0, 2)), atol=1e-5
    )
    assert found.shape == (2, 2)
    causal = observe.entropy_by_layer(model, x, causal=True)
    assert (causal < found).all()


@pytest.mark.once
def test_entropy_is_of_the_calls_as_the_model_makes_them():
    """A layer called twice, once with a mask, and once with the other features as keys."""
    layer, x = PositionalAttention(2, 4), keras.Input((5, 8))
    seen = keras.Input((5, 5), dtype="bool")
    once = layer(x, x, attention_mask=seen)
    model = keras.Model([x, seen], layer(once, x))
    inputs = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32"), np.eye(5) > 0
    inputs = inputs[0], np.broadcast_to(inputs[1], (1, 5, 5)) | (np.arange(5) == 0)
    first, weights = layer(inputs[0], inputs[0], attention_mask=inputs[1],
                           return_attention_scores=True)  # fmt: skip
    maps = weights, layer(first, inputs[0], return_attention_scores=True)[1]
    expected = [measure.entropy(keras.ops.convert_to_numpy(each)).mean((0, 2)) for each in maps]
    np.testing.assert_allclose(observe.entropy_by_layer(model, inputs), expected, atol=1e-6)


@pytest.mark.once
def test_cross_attention_is_that_of_the_published_model():
    model = build_encoder_decoder(12, 8, 2, num_attention_heads=2, intermediate_size=16)
    source, target, maps = np.array([[7, 8, 9, 3, 2]]), np.array([[1, 9, 8]]), {}
    weights = {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}
    oracles_seq2seq.logits(weights, source, target, heads=2, maps=maps)
    for block, number in ((0, 0), (1, 1), (-1, 1)):
        found = observe.cross_attention(model, source, target, block)
        expected = maps[f"Decoder-{number}-MultiHeadCrossAttention"][0]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(ValueError, match="block=2: the decoder has 2 blocks, give 0 to 1"):
        observe.cross_attention(model, source, target, 2)
    with pytest.raises(ValueError, match="has no decoder"):
        observe.cross_attention(small_model(), source, target)
