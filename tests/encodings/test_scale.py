import math

import keras
import numpy as np
import oracles_scale as oracles
import pytest
from keras import ops

from keras_posenc import Encoding, LogNAttention, PositionalAttention
from keras_posenc.encodings import Grid, LogN, get
from keras_posenc.encodings.scale import ScalableSoftmax, Temperature

B, T, H, D, E = 2, 7, 3, 8, 10


def inputs(length=T, scale=2.0):
    return np.random.default_rng(0).normal(0, scale, (B, length, E)).astype("float32")


def built(encodings, **kwargs):
    """A layer whose keys and queries are large, so that a factor shows."""
    layer = PositionalAttention(H, D, encodings=encodings, **kwargs)
    layer.build((B, None, E), (B, None, E))
    rng = np.random.default_rng(1)
    for weight in layer.query_dense.weights + layer.key_dense.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return layer


def expected(layer, x, allowed, factor):
    *heads, merge = oracles.projected([ops.convert_to_numpy(w) for w in layer.weights[:8]], x)
    return merge(oracles.attend(*heads, allowed, factor))


def factor_of(encoding, visible=None, rows=None, heads=1):
    """The factor as queries of ones come out of `heads`, (B, T, heads)."""
    count = len(visible) if visible is not None else len(rows)
    columns = max(visible) if visible is not None else count
    mask = None
    if visible is not None:
        mask = np.arange(columns)[None] < np.asarray(visible)[:, None]
    rows = np.arange(count) if rows is None else rows
    grid = Grid(
        query_positions=ops.convert_to_tensor(rows)[None], key_positions=ops.arange(columns)[None]
    )
    q = ops.ones((1, count, heads, 4))
    if not encoding.built:
        encoding.build(q.shape)
    grid = grid.replace(attention_mask=None if mask is None else ops.convert_to_tensor(mask))
    return ops.convert_to_numpy(encoding.heads(q, q, grid)[0])[0, :, :, 0]


KEEP = {
    "none": np.ones((B, T), bool),
    "right": np.array([[1] * T, [1] * 4 + [0] * 3], bool),
    "left": np.array([[1] * T, [0] * 3 + [1] * 4], bool),
}


@pytest.mark.once
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padding", KEEP)
@pytest.mark.parametrize("arguments", [{}, {"clipped": True}, {"variant": "yarn"}])
def test_log_n_counts_the_keys_that_a_row_may_see(arguments, padding, causal):
    layer = built([LogN(train_length=5, **arguments)])
    x, keep = inputs(), KEEP[padding]
    allowed = np.repeat(keep[:, None], T, axis=1)
    if causal:
        allowed = allowed & np.tri(T, dtype=bool)
    output = layer(x, x, value_mask=ops.convert_to_tensor(keep), use_causal_mask=causal)
    output = ops.convert_to_numpy(output)
    assert np.isfinite(output).all()
    rows = allowed.any(-1)
    allowed = np.where(rows[..., None], allowed, True)

    def factor(b, h, i, n):
        return oracles.log_n(n, 5, **arguments)

    np.testing.assert_allclose(
        output[rows], expected(layer, x, allowed, factor)[rows], rtol=1e-5, atol=1e-5
    )


@pytest.mark.once
@pytest.mark.parametrize("variant", ["log_n", "softmax_plus", "yarn"])
@pytest.mark.parametrize("clipped", [False, True])
def test_the_factor_by_the_number_of_keys(variant, clipped):
    counts = [1, 2, 15, 16, 17, 63, 64, 65, 300, 1000]
    factor = factor_of(LogN(64, clipped, variant), counts)
    result = [oracles.log_n(n, 64, variant, clipped) for n in counts]
    np.testing.assert_allclose(factor[:, 0], result, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("m", [2, 3, 7, 48, 100, 512, 1000])
@pytest.mark.parametrize("variant", ["log_n", "softmax_plus", "yarn"])
def test_the_factor_is_one_at_the_length_of_training_to_the_bit(m, variant):
    """Of bert4keras's floor of 16 only a training length of 16 or more can be exact."""
    if variant == "softmax_plus" and m < 16:
        m = 16
    assert factor_of(LogN(m, variant=variant), [m]) == 1.0


@pytest.mark.once
def test_softmax_plus_is_bert4keras():
    factor = factor_of(LogN(variant="softmax_plus"), [3, 100, 2048])
    result = [math.log(max(n, 16)) / math.log(512) for n in (3, 100, 2048)]
    np.testing.assert_allclose(factor[:, 0], result, rtol=1e-6)


def test_log_n_and_yarn_at_eight_times_4096():
    """(0.1 ln 8 + 1)^2 = 1.459 and ln 32768 / ln 4096 = 1.25; one after the other they multiply."""
    grid = Grid(
        query_positions=ops.zeros((1, 1), "int32"), key_positions=ops.zeros((1, 32768), "int32")
    )
    q = ops.ones((1, 1, 1, 1))
    log_n, yarn = LogN(4096), Temperature("yarn", 8)
    once = [float(encoding.heads(q, q, grid)[0][0, 0, 0, 0]) for encoding in (log_n, yarn)]
    assert once == pytest.approx([1.25, 1.4591], abs=1e-4)
    dynamic = LogN(4096, variant="yarn").heads(q, q, grid)[0]
    assert float(dynamic[0, 0, 0, 0]) == pytest.approx(once[1], abs=1e-6)
    both = yarn.heads(*log_n.heads(q, q, grid), grid)[0]
    assert float(both[0, 0, 0, 0]) == pytest.approx(once[0] * once[1], abs=1e-5)


def test_a_row_without_an_open_key_is_finite():
    mask = np.ones((1, T, T), bool)
    mask[:, 2] = False
    x = inputs()
    for encoding in (LogN(5), ScalableSoftmax(5), LogN(5, variant="softmax_plus")):
        output = built([encoding])(x, x, attention_mask=ops.convert_to_tensor(mask))
        assert np.isfinite(ops.convert_to_numpy(output)).all()


@pytest.mark.once
def test_packed_texts_count_the_keys_of_each():
    """Two texts in one row, each its own block of the mask, give what each gives alone."""
    layer, x = built([LogN(5)]), inputs()
    block = np.arange(T) < 3
    mask = block[:, None] == block[None]
    packed = ops.convert_to_numpy(layer(x, x, attention_mask=ops.convert_to_tensor(mask[None])))
    for part in (x[:, :3], x[:, 3:]):
        alone = ops.convert_to_numpy(layer(part, part))
        together = packed[:, :3] if part.shape[1] == 3 else packed[:, 3:]
        np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("encoding", [LogN(4), LogN(4, True), ScalableSoftmax(4, use_bias=True)])
def test_decoding_from_a_cache_is_the_full_pass(encoding):
    layer, x = built([encoding]), inputs()
    full = ops.convert_to_numpy(layer(x, x, use_causal_mask=True))
    cache = layer.make_cache(B, T + 3)
    for i in range(T):
        step, cache = layer(x[:, i : i + 1], x[:, i : i + 1], cache=cache)
        np.testing.assert_allclose(ops.convert_to_numpy(step)[:, 0], full[:, i], atol=1e-5)


@pytest.mark.once
def test_the_factor_scales_the_separable_bias_before_it_and_not_the_one_after():
    class ToTheRight(Encoding):
        def heads(self, q, k, grid):
            ones = ops.ones((1, 1, 1, 1))
            columns = ops.cast(grid.key_positions, "float32")[..., None, None]
            return self.widen(q, k, ones, columns)

    x, scale = inputs(), math.log(T) / math.log(3)
    for encodings, of_bias in (([ToTheRight(), LogN(3)], scale), ([LogN(3), ToTheRight()], 1.0)):
        layer = built(encodings)
        _, logits = layer(x, x, return_attention_logits=True)
        q, k, _, _ = oracles.projected([ops.convert_to_numpy(w) for w in layer.weights[:8]], x)
        result = scale * np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(D) + of_bias * np.arange(T)
        np.testing.assert_allclose(ops.convert_to_numpy(logits), result, rtol=1e-5, atol=1e-4)


@pytest.mark.once
def test_scalable_softmax_starts_as_the_paper_and_scales_by_head():
    encoding = ScalableSoftmax(1024, use_bias=True)
    encoding.build((1, 1, 2, 4))
    np.testing.assert_allclose(ops.convert_to_numpy(encoding.scale), [0.168, 0.168], atol=5e-4)
    encoding.scale.assign([0.1, -0.3])
    encoding.bias_by_head.assign([0.5, 2.0])
    counts = np.array([1, 2, 50, 700])
    result = np.log(counts)[:, None] * [0.1, -0.3] + [0.5, 2.0]
    np.testing.assert_allclose(factor_of(encoding, counts, heads=2), result, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("encoding", "weights"),
    [
        (ScalableSoftmax(4, use_bias=True), 2),
        pytest.param(Temperature("learned", 1.3), 1, marks=pytest.mark.once),
    ],
)
def test_learned_factors_learn_and_survive_saving(encoding, weights, tmp_path):
    x = keras.Input((T, E))
    attention = PositionalAttention(H, D, encodings=[encoding])
    model = keras.Model(x, attention(x, x, use_causal_mask=True))
    strength = attention.encodings[0]
    assert len(strength.trainable_weights) == weights
    before = [ops.convert_to_numpy(w).copy() for w in strength.weights]
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(inputs(), inputs(), verbose=0)
    pairs = zip(before, strength.weights, strict=True)
    assert all((old != ops.convert_to_numpy(new)).any() for old, new in pairs)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(
        again.predict(inputs(), verbose=0), model.predict(inputs(), verbose=0), atol=1e-6
    )


@pytest.mark.once
def test_temperatures():
    assert factor_of(Temperature(), [3]) == 1
    assert factor_of(Temperature(value=1.25), [3]) == 1.25
    assert factor_of(Temperature("yarn", 0.5), [3]) == 1
    learned = factor_of(Temperature("learned", 1.2), [3], heads=2)
    np.testing.assert_allclose(learned, [[1.2, 1.2]], rtol=1e-6)
    rows = np.array([0, 8190, 8191, 16382, 16383, 100000])
    result = [oracles.llama4(p) for p in rows]
    assert result[1] == 1 and result[2] > 1
    np.testing.assert_allclose(factor_of(Temperature("llama4"), rows=rows)[:, 0], result, rtol=1e-6)
    half = factor_of(Temperature("llama4", 4), rows=np.array([2.5, 3.5], "float32"))[:, 0]
    np.testing.assert_allclose(half, [1, oracles.llama4(3, 4)], rtol=1e-6)


@pytest.mark.once
def test_the_temperature_of_ministral_3():
    torch = pytest.importorskip("torch")
    ministral = pytest.importorskip("transformers.models.ministral3.modeling_ministral3")
    rows = np.array([0, 15, 16, 31, 32, 1000])
    reference = ministral.get_llama_4_attn_scale(torch.tensor(rows)[None], 0.3, 16)
    found = factor_of(Temperature("llama4", 16, slope=0.3, offset=0), rows=rows)[:, 0]
    np.testing.assert_allclose(found, reference.numpy().ravel(), rtol=1e-6)


@pytest.mark.once
def test_a_learned_temperature_stays_positive():
    encoding = Temperature("learned")
    encoding.build((1, 1, 1, 4))
    encoding.softplus_temperature.assign([-20.0])
    assert 0 < factor_of(encoding, [3]) < 1e-8


@pytest.mark.once
def test_the_temperature_by_position_has_no_meaning_on_two_axes():
    grid = Grid(query_positions=ops.zeros((1, 3, 2)), key_positions=ops.zeros((1, 3, 2)))
    q = ops.ones((1, 3, 1, 4))
    with pytest.raises(ValueError, match="Position ids on 2 axes"):
        Temperature("llama4").heads(q, q, grid)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_the_factor_is_computed_in_float32_and_cast_last(policy):
    """ln 257 and ln 258 round to one bfloat16, and so would the counts."""
    for encoding in (
        LogN(64, dtype=policy),
        ScalableSoftmax(64, dtype=policy),
        Temperature("llama4", 1, dtype=policy),
    ):
        encoding.build((1, 2, 1, 4))
        for weight in encoding.weights:
            assert keras.backend.standardize_dtype(weight.dtype) in ("float32", "bfloat16")
        q = ops.ones((1, 2, 1, 4), "float32")
        mask = ops.convert_to_tensor(np.arange(258)[None] < np.array([[257], [258]]))
        grid = Grid(
            query_positions=ops.arange(257, 259)[None],
            key_positions=ops.arange(258)[None],
            attention_mask=mask,
        )
        factor = ops.convert_to_numpy(encoding.heads(q, q, grid)[0])[0, :, 0, 0]
        assert 0 < factor[1] - factor[0] < 2e-3
        half = encoding.heads(ops.cast(q, "bfloat16"), q, grid)[0]
        assert keras.backend.standardize_dtype(half.dtype) == "bfloat16"


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogN(1), "`train_length` must be an integer of at least 2.*Received: 1"),
        (lambda: LogN(8.0), "`train_length` must be an integer of at least 2.*Received: 8.0"),
        (lambda: ScalableSoftmax(True), "`train_length` must .*Received: True"),
        (lambda: LogN(variant="clipped"), "`variant` must be one of .*'softmax_plus'.*'clipped'"),
        (lambda: Temperature("hot"), "`kind` must be one of .*'llama4'.*Received: 'hot'"),
        (lambda: Temperature(value=0), "`value` must be a positive number. Received: 0"),
        (lambda: Temperature(value=math.nan), "`value` must be a positive number. Received: nan"),
        (lambda: Temperature("llama4", slope=-1), "`slope` must be a number of at least 0.*-1"),
        (lambda: Temperature("llama4", offset="1"), "`offset` must be a number of at least 0.*'1'"),
        (
            lambda: Temperature("yarn", 2, offset=0),
            "`slope` and `offset` are those of kind=.*Received: kind='yarn', slope=0.1, offset=0",
        ),
        (lambda: LogNAttention(2, 4, variant="x"), "`variant` must be one of .*'ssmax'.*'x'"),
        (lambda: LogNAttention(2, 4, train_length=1), "`train_length` must be an integer"),
        (
            lambda: LogNAttention(2, 4, variant="ssmax", clipped=True),
            'at 1 or above, while "ssmax" learns it',
        ),
        (lambda: LogNAttention(2, 4, encodings=["log_n"]), "scales by ln n itself: take `LogN`"),
        (lambda: LogNAttention(2, 4, encodings=["ssmax"]), "scales by ln n itself"),
    ],
)
def test_bad_arguments_are_refused_with_words(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments",
    [
        {"train_length": 9, "clipped": True},
        {"train_length": 9, "variant": "softmax_plus"},
        {"train_length": 9, "variant": "ssmax"},
    ],
)
def test_log_n_attention_is_attention_with_log_n_last(arguments, tmp_path):
    x = keras.Input((None, E))
    layer = LogNAttention(H, D, encodings=[Temperature(value=1.1)], name="a", **arguments)
    model = keras.Model(x, layer(x, x))
    spec = dict(arguments)
    ssmax = spec.get("variant") == "ssmax"
    scaling = ScalableSoftmax(9) if ssmax else LogN(**spec)
    plain = built([Temperature(value=1.1), scaling])
    plain.set_weights(layer.get_weights())
    data = inputs(20)
    np.testing.assert_allclose(
        model.predict(data, verbose=0), ops.convert_to_numpy(plain(data, data)), atol=1e-5
    )
    config = layer.get_config()
    assert len(config["encodings"]) == 1 and config["train_length"] == 9
    again = LogNAttention.from_config(config)
    assert [type(e) for e in again.encodings] == [Temperature, type(scaling)]
    assert again.get_config() == config
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    assert len(loaded.get_layer("a").encodings) == 2
    np.testing.assert_allclose(loaded.predict(data, verbose=0), model.predict(data, verbose=0))


@pytest.mark.once
@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("log_n", LogN),
        ({"name": "log_n", "train_length": 64, "clipped": True}, LogN),
        ("ssmax", ScalableSoftmax),
        ({"name": "temperature", "kind": "llama4"}, Temperature),
    ],
)
def test_names_and_configs(spec, kind):
    encoding = get(spec)
    assert type(encoding) is kind and encoding.paper.startswith("https://arxiv.org/abs/")
    assert kind.from_config(encoding.get_config()).get_config() == encoding.get_config()


@pytest.mark.parametrize("variant", ["log_n", "ssmax"])
def test_log_n_attention_under_a_mixed_policy_and_jit(variant):
    layer = LogNAttention(H, D, train_length=5, variant=variant, dtype="mixed_bfloat16")
    x = keras.Input((None, E))
    model = keras.Model(x, layer(x, x, use_causal_mask=True))
    jit = keras.backend.backend() != "torch"
    model.compile("sgd", "mse", jit_compile=jit)
    assert math.isfinite(model.fit(inputs(), inputs(), verbose=0).history["loss"][0])
    precise = LogNAttention(H, D, train_length=5, variant=variant)
    precise.build((B, T, E), (B, T, E))
    precise.set_weights(layer.get_weights())
    result = ops.convert_to_numpy(precise(inputs(), inputs(), use_causal_mask=True))
    np.testing.assert_allclose(model.predict(inputs(), verbose=0), result, rtol=0.1, atol=0.1)
