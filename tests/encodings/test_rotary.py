import keras
import numpy as np
import oracles
import oracles_rotary as oracle
import pytest
from keras import ops

from keras_posenc import Encoding, PositionalAttention, RotaryEmbedding
from keras_posenc.attention.matrix import decayed
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import Grid, ReRoPE, XPos
from keras_posenc.encodings.rope_scaling import scaled_frequencies

B, T, H, D = 2, 7, 3, 8
THETA = oracle.ladder(D)
LAYOUTS = ("interleaved", "half")
N = "original_max_position_embeddings"
numpy = ops.convert_to_numpy


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


Q, K = draw(B, T, H, D), draw(B, T, H, D, seed=1)
IDS = np.stack([np.arange(T), 5 + 3 * np.arange(T)])


def grid(ids, **kwargs):
    ids = ops.convert_to_tensor(ids)
    return Grid(query_positions=ids, key_positions=ids, **kwargs)


def logits_of(layer, q=Q, k=K, ids=IDS, **kwargs):
    """The logits as attention forms them, times the square root of D."""
    cells = grid(ids, **kwargs)
    if not layer.built:
        layer.build(q.shape)
    q, k = ops.convert_to_tensor(q), ops.convert_to_tensor(k)
    turned = decayed(*layer.heads(q, k, cells), cells, Rules(Hooks((layer,))), (1, 3), (1, 3))
    logits = ops.einsum("bihd,bjhd->bhij", *turned) / np.sqrt(D)
    return numpy(layer.score(logits, q, cells.replace(encoded=turned))) * np.sqrt(D)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 4, 0.75])
def test_rotation_is_the_complex_product(layout, rotary_dim):
    layer = RotaryEmbedding(layout, rotary_dim=rotary_dim, base=500.0)
    size = {None: 8, 4: 4, 0.75: 6}[rotary_dim]
    expected = oracle.rotary(Q, IDS, oracle.ladder(size, 500.0), layout)
    np.testing.assert_allclose(numpy(layer(Q, IDS)), expected, atol=1e-5)
    q, k = layer((Q, K), IDS)
    np.testing.assert_allclose(numpy(q), expected, atol=1e-5)
    np.testing.assert_allclose(
        numpy(k), oracle.rotary(K, IDS, oracle.ladder(size, 500.0), layout), atol=1e-5
    )


def test_ids_may_be_fractional_negative_or_left_out():
    layer = RotaryEmbedding()
    ids = np.linspace(-3.3, 777.7, T).astype("float32")
    np.testing.assert_allclose(numpy(layer(Q, ids)), oracle.rotary(Q, ids[None], THETA), atol=1e-5)
    expected = oracle.rotary(Q, np.arange(4, 4 + T)[None], THETA)
    np.testing.assert_allclose(numpy(layer(Q, offset=4)), expected, atol=1e-5)
    np.testing.assert_allclose(
        numpy(layer(Q, offset=ops.convert_to_tensor(4))), expected, atol=1e-5
    )
    np.testing.assert_allclose(numpy(layer(Q, np.arange(4, 4 + T))), expected, atol=1e-5)


@pytest.mark.once
def test_the_layouts_are_one_after_a_fixed_permutation():
    order = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])
    half = RotaryEmbedding("half")(Q[..., order], IDS)
    np.testing.assert_allclose(
        numpy(half), numpy(RotaryEmbedding("interleaved")(Q, IDS))[..., order], atol=1e-6
    )
    other = numpy(RotaryEmbedding("half")(Q, IDS))
    assert np.abs(other - numpy(RotaryEmbedding("interleaved")(Q, IDS))).max() > 0.1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_depend_on_the_distance_only_even_at_a_million(layout):
    distance = IDS[:, :, None] - IDS[:, None]
    expected = oracle.at_distances(Q, K, distance, THETA, layout)
    for offset in (0, 8191, 1_000_003):
        result = logits_of(RotaryEmbedding(layout), ids=IDS + offset)
        np.testing.assert_allclose(result, expected, atol=2e-4 if offset > 1e6 else 2e-5)


def test_angles_do_not_round_where_a_float32_product_does():
    far = np.array([[257, 8191, 65_537, 524_287, 1_000_003, 99_999, 1_048_575]])
    expected = oracle.rotary(Q, far, THETA)
    np.testing.assert_allclose(numpy(RotaryEmbedding()(Q, far)), expected, atol=5e-5)
    rounded = far[..., None].astype("float32") * THETA.astype("float32")
    assert np.abs(oracle.rotary(Q, rounded, np.ones(D // 2)) - expected).max() > 3e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "mixed_bfloat16"])
def test_low_precision_keeps_the_ids_and_the_angles(dtype):
    low, full = RotaryEmbedding(dtype=dtype), RotaryEmbedding()
    ids = np.array([256, 257, 2048, 2049, 8000, 8001, 8002])
    result = low(Q, ids)
    assert keras.backend.standardize_dtype(result.dtype) == low.compute_dtype
    np.testing.assert_allclose(numpy(ops.cast(result, "float32")), numpy(full(Q, ids)), atol=2e-2)
    floats = numpy(ops.cast(low(Q, ids + 0.5), "float32"))
    np.testing.assert_allclose(floats, numpy(full(Q, ids + 0.5)), atol=2e-2)


@pytest.mark.once
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("use_bias", [True, "shared", "scalar"])
def test_biases_are_added_before_the_rotation(layout, use_bias):
    layer = RotaryEmbedding(layout, use_bias=use_bias, rotary_dim=4)
    layer.build(Q.shape)
    shapes = {True: [(H, D)] * 2, "shared": [(H, D)], "scalar": [(H, 1)]}[use_bias]
    assert [tuple(w.shape) for w in layer.trainable_weights] == shapes
    theta, distance = oracle.ladder(4), IDS[:, :, None] - IDS[:, None]
    plain = oracle.at_distances(Q, K, distance, theta, layout)
    np.testing.assert_allclose(logits_of(layer), plain, atol=1e-5)
    values = [draw(*shape, seed=5 + n) for n, shape in enumerate(shapes)]
    layer.set_weights(values)
    q, k = Q + values[0], K + values[-1]
    expected = oracle.at_distances(q, k, distance, theta, layout)
    np.testing.assert_allclose(logits_of(layer), expected, atol=1e-4)
    alone = oracle.rotary(q, IDS, theta, layout)
    np.testing.assert_allclose(numpy(layer(Q, IDS)), alone, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("use_bias", [True, "shared", "scalar"])
def test_the_sandwich_start_adds_a_sum_of_cosines(layout, use_bias):
    layer = RotaryEmbedding(layout, use_bias=use_bias, bias_initializer="sandwich")
    nothing = np.zeros_like(Q)
    distance = IDS[:, :, None] - IDS[:, None]
    expected = np.cos(distance[..., None] * THETA).sum(-1)[:, None]
    result = logits_of(layer, nothing, nothing)
    np.testing.assert_allclose(result, np.broadcast_to(expected, result.shape), atol=1e-4)


def test_random_biases_differ_between_queries_and_keys():
    layer = RotaryEmbedding(use_bias=True, bias_initializer="random_normal")
    layer.build(Q.shape)
    a, b = layer.get_weights()
    assert np.abs(a - b).max() > 0.01


@pytest.mark.once
def test_grouped_heads_rotate_as_a_pair():
    layer = RotaryEmbedding(use_bias=True)
    q, k = layer((Q, K[:, :, :1]), IDS)
    assert tuple(k.shape) == (B, T, 1, D)
    np.testing.assert_allclose(numpy(k), oracle.rotary(K[:, :, :1], IDS, THETA), atol=1e-5)
    with pytest.raises(ValueError, match="'shared' needs as many heads of keys.*3 and 1; use_bias"):
        RotaryEmbedding(use_bias="shared")((Q, K[:, :, :1]))


@pytest.mark.once
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"type": "ntk", "factor": 4.0},
        {"type": "yarn", "factor": 8.0, N: 64},
        {"type": "ntk_by_parts", "factor": 8.0, N: 64},
        {"type": "proportional", "partial_rotary_factor": 0.5},
        {"type": "su_mixed", "factor": 12.0},
        {"type": "su_fixed", "factor": 12.0},
        {"type": "llama3", "factor": 8.0, N: 32, "low_freq_factor": 1, "high_freq_factor": 4},
    ],
)
def test_scalings_turn_by_their_frequencies_and_multiply_logits_by_the_square(scaling):
    layer = RotaryEmbedding(scaling=scaling, base=1000.0)
    theta, factor = scaled_frequencies(D, 1000.0, scaling)
    assert not np.allclose(theta, oracle.ladder(D, 1000.0))
    expected = oracle.rotary(Q, IDS, theta, magnitude=factor)
    np.testing.assert_allclose(numpy(layer(Q, IDS)), expected, atol=1e-5)
    distance = IDS[:, :, None] - IDS[:, None]
    expected = factor**2 * oracle.at_distances(Q, K, distance, theta)
    np.testing.assert_allclose(logits_of(layer), expected, atol=3e-5)


@pytest.mark.once
def test_a_factor_leaves_features_that_are_not_rotated():
    scaling = {"type": "yarn", "factor": 8.0, N: 64}
    result = numpy(RotaryEmbedding(scaling=scaling, rotary_dim=4)(Q, IDS))
    np.testing.assert_array_equal(result[..., 4:], Q[..., 4:])


DYNAMIC = {"type": "dynamic", "factor": 2.0, N: 4}
LONGROPE = {
    "type": "longrope",
    "factor": 4.0,
    N: 4,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [1.0, 2.0, 3.0, 4.0],
}


@pytest.mark.parametrize("scaling", [DYNAMIC, LONGROPE])
def test_frequencies_follow_the_length_of_each_text(scaling):
    layer = RotaryEmbedding(scaling=scaling)
    for length in (7, 4):
        theta, factor = scaled_frequencies(D, scaling=scaling, length=length)
        expected = oracle.rotary(Q[:, :length], np.arange(length)[None], theta, magnitude=factor)
        np.testing.assert_allclose(numpy(layer(Q[:, :length])), expected, atol=1e-5)

    keep = np.ones((B, T), bool)
    keep[0, 4:] = False
    mask = ops.convert_to_tensor(keep)
    q, _ = layer.heads(Q, K, grid(np.tile(np.arange(T), (B, 1)), key_mask=mask))
    for row, length in enumerate((4, 7)):
        theta, factor = scaled_frequencies(D, scaling=scaling, length=length)
        expected = oracle.rotary(Q[row : row + 1], np.arange(T)[None], theta, magnitude=factor)
        np.testing.assert_allclose(numpy(q)[row : row + 1], expected, atol=1e-5)


class Scaled(Encoding):
    """Multiplies the queries, as log-n does, and widens the heads, as separable biases do."""

    def heads(self, q, k, grid):
        q = q * (1.0 + 0.1 * ops.cast(grid.query_positions, q.dtype))[:, :, None, None]
        columns = ops.cast(grid.key_positions, "float32")[:, :, None, None]
        return self.widen(q, k, ops.ones((1, 1, 1, 1)), 0.1 * columns)


ENCODINGS = {
    "dynamic": lambda: RotaryEmbedding(scaling=DYNAMIC),
    "leaky": lambda: ReRoPE(window=3, leak=4.0, layout="half", rotary_dim=4),
}


@pytest.mark.once
def test_a_cache_of_raw_keys_does_not_rot_when_the_frequencies_change():
    layer = PositionalAttention(H, D, encodings=[{"name": "rotary", "scaling": DYNAMIC}])
    x = draw(B, T, 12, seed=3)
    cache = layer.make_cache(B, T + 2)
    for n in range(T):
        step, cache = layer(x[:, n : n + 1], x[:, n : n + 1], cache=cache)
    full = layer(x, x, use_causal_mask=True)
    np.testing.assert_allclose(numpy(step)[:, 0], numpy(full)[:, -1], atol=1e-5)
    layer.encodings[0].ladder.kind = "default"  # earlier rows had the frequencies of short texts
    assert np.abs(numpy(layer(x, x, use_causal_mask=True) - full)[:, -1]).max() > 1e-3


AXES = np.stack([IDS, IDS[:, ::-1] // 2, 2 * IDS + 1], -1)


@pytest.mark.once
@pytest.mark.parametrize(
    "order, sections, axis_of_pair",
    [
        ("contiguous", [1, 2, 1], [0, 1, 1, 2]),
        ("round_robin", [2, 1, 1], [0, 1, 2, 0]),
        ("round_robin", [1, 2, 1], [0, 1, 2, 1]),
    ],
)
def test_sections_give_every_pair_its_axis(order, sections, axis_of_pair):
    layer = RotaryEmbedding("half", sections=sections, section_order=order)
    expected = oracle.rotary(Q, AXES[..., axis_of_pair], THETA, "half")
    np.testing.assert_allclose(numpy(layer(Q, AXES)), expected, atol=1e-5)
    plain = oracle.rotary(Q, IDS, THETA, "half")
    np.testing.assert_allclose(numpy(layer(Q, IDS)), plain, atol=1e-5)


@pytest.mark.once
def test_axial_sections_have_a_ladder_each():
    layer = RotaryEmbedding(sections=[2, 2], section_order="axial")
    theta = np.concatenate([oracle.ladder(4), oracle.ladder(4)])
    expected = oracle.rotary(Q, AXES[..., [0, 0, 1, 1]], theta)
    np.testing.assert_allclose(numpy(layer(Q, AXES[..., :2])), expected, atol=1e-5)


@pytest.mark.once
def test_attention_takes_ids_on_several_axes():
    layer = PositionalAttention(2, D, encodings=[{"name": "rotary", "sections": [2, 1, 1]}])
    x = draw(B, T, 12)
    shifted = layer(x, x, query_positions=AXES + np.array([100, 7, 30]))
    np.testing.assert_allclose(numpy(layer(x, x, query_positions=AXES)), numpy(shifted), atol=1e-5)
    assert np.abs(numpy(layer(x, x)) - numpy(shifted)).max() > 1e-3


@pytest.mark.once
def test_published_dicts_say_base_share_and_sections():
    parameters = {
        "type": "mrope",
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
        "rope_theta": 500000,
    }
    layer = RotaryEmbedding(scaling=parameters)
    assert (layer.base, layer.sections, layer.section_order) == (500000, (2, 1, 1), "round_robin")
    layer = RotaryEmbedding(
        scaling={"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}
    )
    result = numpy(layer(Q, IDS))
    expected = oracle.rotary(Q, IDS, oracle.ladder(4) / 2)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    again = RotaryEmbedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    np.testing.assert_array_equal(numpy(again(Q, IDS)), result)


@pytest.mark.once
@pytest.mark.parametrize("layout", LAYOUTS)
def test_xpos_fades_with_the_distance_alone(layout):
    for ids in (IDS, IDS + 8000, IDS * 400):
        distance = ids[:, :, None] - ids[:, None]
        layer = XPos(layout=layout, scale_base=64.0 if ids.max() < 100 else 512.0)
        factor = oracle.xpos_factor(distance, D // 2, layer.scale_base)
        expected = oracle.at_distances(Q, K, distance, THETA, layout, factor)
        # Causal cells; the others grow without bound.
        result = np.tril(logits_of(layer, ids=ids))
        np.testing.assert_allclose(result, np.tril(expected), atol=2e-5)


@pytest.mark.once
def test_xpos_with_its_biases_and_its_neutral_base():
    distance = IDS[:, :, None] - IDS[:, None]
    neutral = logits_of(XPos(scale_base=1e9))
    np.testing.assert_allclose(neutral, oracle.at_distances(Q, K, distance, THETA), atol=1e-4)
    layer = XPos(use_bias="shared", bias_initializer="ones")
    factor = oracle.xpos_factor(distance, D // 2)
    expected = oracle.at_distances(Q + 1, K + 1, distance, THETA, factor=factor)
    np.testing.assert_allclose(logits_of(layer), expected, atol=1e-4)


@pytest.mark.once
def test_xpos_is_causal_and_takes_pairs():
    x = draw(B, T, 12)
    with pytest.raises(ValueError, match="XPos is for causal attention"):
        PositionalAttention(2, D, encodings=["xpos"])(x, x)
    with pytest.raises(ValueError, match=r"call it on the pair \(q, k\). Received: one tensor of"):
        XPos()(Q)
    q, k = XPos(scale_base=8.0)((Q, K), IDS)
    result = oracle.product(numpy(q), numpy(k))
    np.testing.assert_allclose(result, logits_of(XPos(scale_base=8.0)), atol=1e-4)


@pytest.mark.once
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("leak", [None, 4.0])
@pytest.mark.parametrize("causal", [False, True])
def test_rerope_cuts_or_slows_the_distances_beyond_its_window(layout, leak, causal):
    layer = ReRoPE(window=4, leak=leak, layout=layout, rotary_dim=6)
    theta = oracle.ladder(6)
    distance = IDS[:, :, None] - IDS[:, None]
    expected = oracle.at_distances(Q, K, oracle.rectified(distance, 4, leak), theta, layout)
    result = logits_of(layer, order_is_index=causal)
    if causal:
        result, expected = (np.tril(x) for x in (result, expected))
    np.testing.assert_allclose(result, expected, atol=3e-5)
    assert (
        np.abs(expected - np.tril(oracle.at_distances(Q, K, distance, theta, layout))).max() > 0.1
    )


@pytest.mark.once
@pytest.mark.parametrize("rerope_first, leak", [(True, None), (False, 4.0)])
def test_rerope_keeps_the_factors_and_the_other_features_of_its_company(rerope_first, leak):
    rerope = ReRoPE(window=3, leak=leak, scaling={"type": "yarn", "factor": 8.0, N: 64})
    encodings = [rerope, Scaled()] if rerope_first else [Scaled(), rerope]
    layer = PositionalAttention(H, D, encodings=encodings)
    x = draw(B, T, H * D, seed=3)
    _, logits = layer(x, x, return_attention_logits=True)
    q, k = (numpy(dense(x)) for dense in (layer.query_dense, layer.key_dense))
    ids = np.arange(T)
    distance = oracle.rectified(ids[:, None] - ids, 3, leak)
    theta, factor = scaled_frequencies(D, scaling=rerope.scaling)
    rotated = oracle.at_distances(q, k, np.stack([distance] * B), theta)
    expected = factor**2 * rotated * (1 + 0.1 * ids)[:, None] / np.sqrt(D) + 0.1 * ids
    np.testing.assert_allclose(numpy(logits), expected, atol=2e-5)


@pytest.mark.once
def test_rerope_within_its_window_is_plain_rotary():
    np.testing.assert_array_equal(logits_of(ReRoPE(window=100)), logits_of(RotaryEmbedding()))


@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_under_mixed_precision_is_close_to_float32(name):
    x = draw(B, T, 12, seed=3)
    low = PositionalAttention(2, D, encodings=[ENCODINGS[name]()], dtype="mixed_bfloat16")
    full = PositionalAttention(2, D, encodings=[ENCODINGS[name]()])
    expected = numpy(full(x, x, use_causal_mask=True))
    low.build(x.shape, x.shape)
    low.set_weights(full.get_weights())
    result = numpy(ops.cast(low(x, x, use_causal_mask=True), "float32"))
    np.testing.assert_allclose(result, expected, atol=5e-2)


@pytest.mark.once
def test_rotary_attention_is_the_oracles():
    layer = PositionalAttention(H, D, encodings=["rotary"])
    x = draw(B, T, 12)
    result = numpy(layer(x, x, use_causal_mask=True, query_positions=IDS))
    q, k, v = (numpy(f(x)) for f in (layer.query_dense, layer.key_dense, layer.value_dense))
    q, k = (oracle.rotary(y, IDS, THETA) for y in (q, k))
    allowed = np.tril(np.ones((T, T), bool))
    merged = oracles.attention(q, k, v, 1 / np.sqrt(D), allowed=allowed)
    np.testing.assert_allclose(
        result, numpy(layer.output_dense(merged.astype("float32"))), atol=1e-5
    )


@pytest.mark.parametrize("pair", [False, True])
def test_it_works_alone_in_a_functional_model(pair, tmp_path):
    q, k = keras.Input((None, H, D)), keras.Input((None, H, D))
    layer = RotaryEmbedding("half", use_bias=True, bias_initializer="ones")
    outputs = layer((q, k)) if pair else layer(q)
    assert [x.shape for x in (outputs if pair else [outputs])] == [(None, None, H, D)] * (1 + pair)
    model = keras.Model([q, k] if pair else q, outputs)
    data = [Q, K] if pair else Q
    before = model.predict(data, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").predict(data, verbose=0)
    for one, other in zip(before, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.once
@pytest.mark.parametrize("make", [RotaryEmbedding, XPos, ReRoPE])
def test_configs_are_complete(make):
    arguments = dict(
        layout="half",
        base=777.0,
        rotary_dim=4,
        use_bias="shared",
        bias_initializer="sandwich",
        scaling=dict(LONGROPE, short_factor=[1.0, 1.5], long_factor=[2.0, 3.0]),
    )
    special = {
        RotaryEmbedding: {},
        XPos: {"scale_base": 9.0, "gamma": 0.3},
        ReRoPE: {"window": 3, "leak": 2.0},
    }
    layer = make(**arguments, **special[make])
    config = layer.get_config()
    assert {name: config[name] for name in arguments} == arguments
    assert {name: config[name] for name in special[make]} == special[make]
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == config
    np.testing.assert_array_equal(logits_of(again), logits_of(layer))


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"layout": "halve"}, r"`layout` must be one of .*'half'.*'halve'; did you mean 'half'"),
        ({"base": 1.0}, "`base` must be a number above 1. Received: 1.0"),
        ({"base": "10000"}, "`base` must be a number above 1. Received: '10000'"),
        ({"rotary_dim": 3}, "`rotary_dim` must be None, a positive even integer.*Received: 3"),
        ({"rotary_dim": 1.5}, r"or a float in \(0, 1\].*Received: 1.5"),
        ({"rotary_dim": True}, "`rotary_dim` must be None.*Received: True"),
        ({"use_bias": "both"}, "`use_bias` must be one of .*'shared', 'scalar'.*'both'"),
        ({"sections": [2, 0]}, r"`sections` must be a list of positive integers.*\[2, 0\]"),
        ({"sections": 4}, "`sections` must be a list of positive integers.*4"),
        ({"section_order": "spiral"}, "`section_order` must be one of.*'spiral'"),
        ({"section_order": "axial"}, "'axial' orders `sections`: give those too"),
        ({"scaling": {"type": "yarn", "factor": 2.0}}, f"'yarn' lacks `{N}`"),
        (
            {"base": 7.0, "scaling": {"type": "default", "rope_theta": 8.0}},
            "`base` is 7.0, but `scaling` has 8.0: leave one of them out",
        ),
    ],
)
def test_arguments_without_a_meaning_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        RotaryEmbedding(**arguments)


@pytest.mark.once
@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: XPos(sections=[2, 2]), r"XPos needs one distance.*no `sections`.*\[2, 2\]"),
        (lambda: ReRoPE(sections=[4]), "ReRoPE needs one distance"),
        (lambda: XPos(scale_base=0), "`scale_base` must be a positive number. Received: 0"),
        (lambda: XPos(gamma=-1), "`gamma` must be a positive number. Received: -1"),
        (lambda: ReRoPE(window=None), "`window` must be a positive number. Received: None"),
        (lambda: ReRoPE(leak=1.0), "`leak` must be a number above 1: .* at 1 this is plain rotary"),
        (lambda: ReRoPE(leak="f"), "`leak` must be a number above 1: .* Received: 'f'"),
        (lambda: RotaryEmbedding()(Q[..., :7]), "an even .* has 7: use rotary_dim=6 or an even he"),
        (lambda: PositionalAttention(2, 7, encodings=["rotary"]), "this head has 7: use rotary_d"),
        (lambda: RotaryEmbedding(rotary_dim=10)(Q), "8 and rotary_dim=10: use rotary_dim=8."),
        (lambda: RotaryEmbedding(rotary_dim=0.1)(Q), "8 and rotary_dim=0.1: use rotary_dim=8."),
        (lambda: RotaryEmbedding()(Q[..., :1]), "this head has 1: use more or an even head size"),
        (lambda: RotaryEmbedding(sections=[2, 1])(Q), r"add up to the 4 pairs.*\[2, 1\]"),
        (lambda: RotaryEmbedding()(Q[0]), r"takes heads \(B, T, H, D\). Received: \(7, 3, 8\)"),
        (lambda: RotaryEmbedding()(Q, IDS[:, :5]), r"`positions` must have shape.*T = 7.*\(2, 5\)"),
        (lambda: RotaryEmbedding()(Q, AXES), "by 1 ids per position; `sections` .*on 3 axes"),
        (lambda: RotaryEmbedding(sections=[2, 2])(Q, AXES), "by 2 ids per position.*on 3 axes"),
        (lambda: RotaryEmbedding()((Q, K[:, :5]), IDS), "`positions` must have shape"),
    ],
)
def test_calls_without_a_meaning_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
