import re

import keras
import numpy as np
import oracles
import pytest
from keras import ops
from packaging.version import Version
from selection import on_all

from keras_posenc import Encoding, GatedAttentionUnit, PositionalAttention
from keras_posenc.attention.choose import attend
from keras_posenc.attention.rules import Hooks, Rules

B, T, H, D, E = 2, 7, 3, 5, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, E)).astype("float32")
Y = RNG.normal(size=(B, 9, E)).astype("float32")
KEEP = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1]], bool)


@pytest.fixture(autouse=True)
def fresh_numbers():
    """The same random numbers in every test, whichever ran before."""
    global RNG
    RNG = np.random.default_rng(0)


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


# One small encoding for each hook; what is tested is how attention composes them.


@keras.saving.register_keras_serializable(package="keras_posenc_tests")
class Slope(Encoding):
    """A trained slope: adds -s (i - j) to the logits."""

    def build(self, heads_shape):
        self.slope = self.add_weight(name="slope", shape=(), initializer="ones")
        self.built = True

    def bias(self, q, grid):
        distance = ops.cast(grid.distance(), "float32")
        return -ops.cast(self.slope, "float32") * distance[:, None]


@keras.saving.register_keras_serializable(package="keras_posenc_tests")
class SlopeInHeads(Encoding):
    """The same bias as one more dimension of q and k (up to a constant of each row)."""

    def heads(self, q, k, grid):
        j = ops.cast(grid.key_positions, q.dtype)[:, :, None, None]
        ones = ops.ones_like(q[..., :1]) * np.sqrt(D)
        return (
            ops.concatenate([q, ones], -1),
            ops.concatenate([k, ops.broadcast_to(j, ops.shape(k[..., :1]))], -1),
        )


class SlopeInScore(Encoding):
    def score(self, logits, q, grid):
        return logits - ops.cast(grid.distance(), "float32")[:, None]


class Value(Encoding):
    """Adds the mean distance looked at, to every feature."""

    def value(self, weights, grid):
        distance = ops.cast(grid.distance(), weights.dtype)
        mean = ops.sum(weights * distance[:, None], -1)
        return ops.transpose(mean, (0, 2, 1))[..., None] * ops.ones((D,), weights.dtype)


class ContentNorm(Encoding):
    """A bias from the content query: must not see what `heads` of others did."""

    def bias(self, q, grid):
        return (
            ops.transpose(ops.sum(q * q, -1), (0, 2, 1))[..., None]
            * ops.cast(grid.key_positions, q.dtype)[:, None, None]
        )


class Double(Encoding):
    def heads(self, q, k, grid):
        return 2 * q, 3 * k


def make(encodings=(), **arguments):
    layer = PositionalAttention(H, D, encodings=encodings, **arguments)
    layer.build(X.shape, X.shape)
    rng = np.random.default_rng(1)
    projections = (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
    for dense in projections:
        dense.set_weights([rng.normal(size=w.shape) * 0.5 for w in dense.weights])
    return layer


def expected(layer, x, y, bias=0.0, allowed=None, value=0.0):
    def project(dense, z):
        kernel, bias = (ops.convert_to_numpy(w) for w in dense.weights)
        return np.einsum("btd,dhe->bthe", z, kernel) + bias

    q, k, v = (
        project(d, z)
        for d, z in ((layer.query_dense, x), (layer.key_dense, y), (layer.value_dense, y))
    )
    out = oracles.attention(q, k, v, D**-0.5, bias, allowed) + value
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.output_dense.weights)
    return np.einsum("bthd,hde->bte", out, kernel) + bias


def test_without_encodings_it_is_keras_attention_with_the_same_weights():
    # With dropout Keras takes its explicit path; its fused one fails on JAX if value_dim differs.
    sizes = {"value_dim": 4, "output_shape": 6, "dropout": 0.1}
    reference = keras.layers.MultiHeadAttention(H, D, **sizes)
    ours = PositionalAttention(H, D, **sizes)
    reference(X, Y), ours(X, Y)
    names = [w.path.split("/", 1)[1] for w in ours.trainable_weights]
    assert names == [w.path.split("/", 1)[1] for w in reference.trainable_weights]
    ours.set_weights(reference.get_weights())
    mask = RNG.random((B, T, 9)) > 0.4
    mask |= np.eye(T, 9, dtype=bool)
    for arguments in ({}, {"attention_mask": mask}):
        a, b = ours(X, Y, **arguments), reference(X, Y, **arguments)
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)
    a, weights = ours(X, Y, return_attention_scores=True)
    b, scores = reference(X, Y, return_attention_scores=True)
    np.testing.assert_allclose(numpy(weights), numpy(scores), atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("shape", [(B, T - 1), (B, T, T), (B + 1, T), (T,)])
@pytest.mark.parametrize("name", ["key_mask", "value_mask"])
def test_a_mask_of_other_keys_is_refused(name, shape):
    message = (
        rf"one bool a key, \({B}, {T}\); .*`attention_mask`. Received .* {re.escape(str(shape))}"
    )
    with pytest.raises(ValueError, match=message):
        make()(X, X, **{name: ops.ones(shape, "bool")})


def test_a_functional_model_refuses_a_mask_of_other_keys_too():
    x, mask = keras.Input((T, E)), keras.Input((T, E), dtype="bool")
    for layer in (make(), GatedAttentionUnit(E, 4)):
        inputs = (x,) if isinstance(layer, GatedAttentionUnit) else (x, x)
        name = "mask" if isinstance(layer, GatedAttentionUnit) else "key_mask"
        with pytest.raises(ValueError, match=rf"one bool a key, \(None, {T}\)"):
            layer(*inputs, **{name: mask})


@pytest.mark.parametrize("cached", [False, True])
def test_one_mask_may_serve_all_texts(cached):
    layer = make()
    found = []
    for mask in (KEEP[:1], np.repeat(KEEP[:1], B, 0)):
        more = {"cache": layer.make_cache(B, T)} if cached else {}
        found.append(layer(X, X, key_mask=ops.convert_to_tensor(mask), **more))
    one, all_of_them = (numpy(x[0] if cached else x) for x in found)
    np.testing.assert_allclose(one, all_of_them, atol=1e-6)


def test_masks_of_every_kind_match_the_oracle():
    layer = make()
    causal = np.tril(np.ones((T, T), bool))[None, None]
    keep = KEEP[:, None, None]
    mask = RNG.random((B, T, T)) > 0.3
    mask |= np.eye(T, dtype=bool)
    cases = [
        ({"use_causal_mask": True}, causal),
        ({"key_mask": KEEP}, keep),
        ({"value_mask": KEEP}, keep),
        ({"attention_mask": mask}, mask[:, None]),
        ({"attention_mask": mask[0]}, mask[0]),
        (
            {"key_mask": KEEP, "value_mask": np.roll(KEEP, 1)},
            keep & np.roll(KEEP, 1)[:, None, None],
        ),
        ({"attention_mask": np.repeat(mask[:, None], H, 1)}, mask[:, None]),
    ]
    for arguments, allowed in cases:
        arguments = {
            k: ops.convert_to_tensor(v) if k != "use_causal_mask" else v
            for k, v in arguments.items()
        }
        result = numpy(layer(X, X, **arguments))
        np.testing.assert_allclose(result, expected(layer, X, X, allowed=allowed), atol=1e-5)
    both = numpy(layer(X, X, key_mask=ops.convert_to_tensor(KEEP), use_causal_mask=True))
    wanted = expected(layer, X, X, allowed=causal & keep)
    np.testing.assert_allclose(both[0, :5], wanted[0, :5], atol=1e-5)
    np.testing.assert_allclose(both[1, 2:], wanted[1, 2:], atol=1e-5)
    # A row with no open cell attends to all alike; padding counts as zeros.
    nothing = ops.zeros((B, T, T), "bool")
    closed = numpy(layer(X, X, attention_mask=nothing, key_mask=ops.convert_to_tensor(KEEP)))
    np.testing.assert_allclose(both[1, 0], closed[1, 0], atol=1e-5)
    np.testing.assert_allclose(closed, np.broadcast_to(closed[:, :1], closed.shape), atol=1e-5)


def test_orders_open_the_cells_of_a_prompt_and_its_answer():
    layer = make()
    segments = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]])
    order = np.cumsum(segments, 1)
    allowed = order[:, None, :] <= order[:, :, None]
    result = numpy(
        layer(
            X, X, query_order=ops.convert_to_tensor(order), key_order=ops.convert_to_tensor(order)
        )
    )
    np.testing.assert_allclose(result, expected(layer, X, X, allowed=allowed[:, None]), atol=1e-5)


DISTANCE = np.arange(T)[:, None] - np.arange(T)[None]


@pytest.mark.once
@pytest.mark.parametrize("encoding", [Slope, SlopeInHeads, SlopeInScore])
@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_is_the_same_from_every_hook(encoding, causal):
    layer = make([encoding()])
    allowed = np.tril(np.ones((T, T), bool))[None, None] if causal else None
    result = numpy(layer(X, X, use_causal_mask=causal))
    wanted = expected(layer, X, X, bias=-DISTANCE[None, None], allowed=allowed)
    np.testing.assert_allclose(result, wanted, atol=2e-5)


def test_positions_given_are_the_positions_used():
    layer = make([Slope()])
    rows, columns = np.array([3, 1, 4, 1, 5, 9, 2]), np.arange(9) * 2
    result = numpy(layer(X, Y, query_positions=rows, key_positions=columns))
    bias = -(rows[:, None] - columns)[None, None]
    np.testing.assert_allclose(result, expected(layer, X, Y, bias=bias), atol=2e-5)
    x = ops.convert_to_tensor(X)
    by_layer = numpy(layer(x, x, query_positions=rows))
    bias = -(rows[:, None] - rows)[None, None]
    np.testing.assert_allclose(by_layer, expected(layer, X, X, bias=bias), atol=2e-5)


def test_self_attention_is_recognised_in_arrays_and_under_mixed_precision():
    rows = np.array([3, 1, 4, 1, 5, 9, 2])
    for policy in ("float32", "mixed_bfloat16"):
        layer = make([Slope()], dtype=policy)
        both = layer(X, X, query_positions=rows, key_positions=rows)
        np.testing.assert_array_equal(numpy(layer(X, X, query_positions=rows)), numpy(both))


def test_self_attention_is_recognised_without_the_state():
    rows, layer, x = np.array([3, 1, 4, 1, 5, 9, 2]), make([Slope()]), ops.convert_to_tensor(X)
    weights = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]
    alone, _ = layer.stateless_call(weights, others, x, x, query_positions=rows)
    both = layer(x, x, query_positions=rows, key_positions=rows)
    np.testing.assert_allclose(numpy(alone), numpy(both), atol=2e-5)


def test_a_cache_keeps_track_of_padding_and_of_its_end():
    layer = make([Slope()])
    keep = ops.convert_to_tensor(KEEP[1:])  # padded on the left
    x = X[1:]
    full = numpy(layer(x, x, value_mask=keep, use_causal_mask=True))
    cache = layer.make_cache(1, T)
    first, cache = layer(x[:, :4], x[:, :4], value_mask=keep[:, :4], cache=cache)
    second, cache = layer(x[:, 4:], x[:, 4:], cache=cache)
    both = np.concatenate([numpy(first), numpy(second)], 1)
    np.testing.assert_allclose(both[:, 2:], full[:, 2:], atol=2e-5)
    with pytest.raises(ValueError, match="Position 7 does not exist: .* The cache is full"):
        layer(x[:, :1], x[:, :1], cache=cache)


def test_positions_may_be_given_with_a_cache():
    layer = make([Slope()])
    full = numpy(layer(X, X, use_causal_mask=True))
    cache = layer.make_cache(B, T)
    for i in range(T):
        step = X[:, i : i + 1]
        out, cache = layer(step, step, cache=cache, query_positions=np.array([i]))
        np.testing.assert_allclose(numpy(out)[:, 0], full[:, i], atol=2e-5)


@pytest.mark.once
def test_heads_compose_biases_add_and_read_the_content_query():
    layer = make([Double(), Slope(), ContentNorm()])
    plain = make([ContentNorm()])
    q = np.einsum("btd,dhe->bthe", X, ops.convert_to_numpy(plain.query_dense.kernel))
    q = q + ops.convert_to_numpy(plain.query_dense.bias)
    k = np.einsum("btd,dhe->bthe", X, ops.convert_to_numpy(plain.key_dense.kernel))
    k = k + ops.convert_to_numpy(plain.key_dense.bias)
    norm = (q**2).sum(-1).transpose(0, 2, 1)[..., None] * np.arange(T)
    content = np.einsum("bqhd,bkhd->bhqk", q, k) * D**-0.5
    bias = norm - DISTANCE[None, None] + 5 * content  # 2 * 3 times the product, one of it is there
    np.testing.assert_allclose(numpy(layer(X, X)), expected(layer, X, X, bias=bias), atol=1e-4)


@pytest.mark.once
def test_value_terms_are_added_to_the_output():
    layer = make([Value(), Value()])
    _, weights = layer(X, X, return_attention_scores=True)
    mean = (numpy(weights) * DISTANCE).sum(-1).transpose(0, 2, 1)[..., None]
    np.testing.assert_allclose(numpy(layer(X, X)), expected(layer, X, X, value=2 * mean), atol=1e-5)


def test_a_given_bias_is_added_and_logits_come_back_for_the_next_layer():
    layer = make([Slope()])
    bias = RNG.normal(size=(B, H, T, T)).astype("float32")
    out, logits = layer(X, X, bias=ops.convert_to_tensor(bias), return_attention_logits=True)
    np.testing.assert_allclose(
        numpy(out), numpy(layer(X, X, bias=ops.convert_to_tensor(bias))), atol=1e-5
    )
    plain = layer(X, X, return_attention_logits=True)[1]
    np.testing.assert_allclose(numpy(logits) - numpy(plain), bias, atol=1e-5)


# The laws of encodings decode, recompute and round on every backend, too.
@pytest.mark.parametrize(
    "encoding", on_all([Slope], [None, Slope, SlopeInHeads, SlopeInScore, Value])
)
def test_decoding_from_a_cache_is_the_full_causal_pass(encoding):
    layer = make([] if encoding is None else [encoding()])
    full = numpy(layer(X, X, use_causal_mask=True))
    cache, steps = layer.make_cache(B, T + 2), []
    for part in (X[:, :3], X[:, 3:4], X[:, 4:]):
        out, cache = layer(part, part, cache=cache)
        steps.append(numpy(out))
    np.testing.assert_allclose(np.concatenate(steps, 1), full, atol=2e-5)
    assert int(cache[3]) == T


@pytest.mark.parametrize("encoding", on_all([Slope], [None, Slope, Value]))
def test_the_recomputed_map_gives_the_gradients_of_the_explicit_one(encoding):
    """Fit one step on each path; the losses and the updated weights are the same."""
    x = keras.Input((None, E))
    layer = PositionalAttention(H, D, encodings=[] if encoding is None else [encoding()])

    class Explicit(keras.layers.Layer):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def build(self, shape):
            assert self.inner.built
            self.built = True

        def call(self, x):
            return self.inner(x, x, return_attention_scores=True)[0]

        def compute_output_shape(self, shape):
            return shape

    updated = []
    for model in (keras.Model(x, layer(x, x)), keras.Model(x, Explicit(layer)(x))):
        if not updated:
            start = layer.get_weights()
        layer.set_weights(start)
        model.compile(keras.optimizers.SGD(1.0), "mean_squared_error")
        loss = model.fit(X, Y[:, :T], verbose=0).history["loss"]
        updated.append([loss, *layer.get_weights()])
    for a, b in zip(*updated, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.abs(updated[0][1] - start[0]).max() > 1e-4


def test_paths_agree_inside_attend():
    q, k, v = (
        ops.convert_to_tensor(RNG.normal(size=(B, T, H, D)).astype("float32")) for _ in "qkv"
    )
    from keras_posenc.attention.fused import attend_fused
    from keras_posenc.encodings import Grid

    if keras.backend.backend() == "torch" and Version(keras.__version__) < Version("3.14"):
        pytest.skip(f"Keras {keras.__version__} adds no bias in torch's fused kernel")

    ids = ops.arange(T)[None]
    grid = Grid(ids, ids, key_mask=ops.convert_to_tensor(KEEP), query_order=ids, key_order=ids)
    encodings = [Slope()]
    encodings[0].build(None)
    bias = ops.convert_to_tensor(RNG.normal(size=(1, H, T, T)).astype("float32"))
    rules = Rules(Hooks(encodings), 0.3, bias)
    explicit = numpy(attend(q, k, v, grid, rules, with_map=True)[0])
    fused = numpy(attend_fused(q, k, v, grid, rules))
    chosen = numpy(attend(q, k, v, grid, rules)[0])
    real = KEEP[:, :, None, None]
    narrow = attend_fused(q, k, v[..., :2], grid, rules)
    np.testing.assert_allclose(numpy(narrow) * real, explicit[..., :2] * real, atol=1e-5)
    np.testing.assert_allclose(fused * real, explicit * real, atol=1e-5)
    np.testing.assert_allclose(chosen * real, explicit * real, atol=1e-5)


def test_a_model_is_saved_with_its_encodings_and_trains_on(tmp_path):
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, E, mask_zero=True)(tokens)
    layer = PositionalAttention(H, D, encodings=[Slope()], dropout=0.2, seed=3)
    y = keras.layers.GlobalAveragePooling1D()(layer(x, x))
    model = keras.Model(tokens, keras.layers.Dense(1)(y))
    model.compile("sgd", "mean_squared_error")
    data, target = RNG.integers(1, 11, (4, T)), RNG.normal(size=(4, 1))
    model.fit(data, target, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model.predict(data, verbose=0), again.predict(data, verbose=0))
    padded = np.concatenate([data, np.zeros((4, 3), int)], 1)
    np.testing.assert_allclose(
        model.predict(padded, verbose=0), again.predict(data, verbose=0), atol=1e-5
    )
    again.fit(data, target, verbose=0)


@pytest.mark.once
def test_an_instance_is_cloned_for_each_attention():
    slope = Slope()
    one, two = make([slope]), make([slope])
    assert one.encodings[0] is not two.encodings[0] is not slope


@pytest.mark.parametrize("policy", on_all(["bfloat16"], ["mixed_bfloat16", "bfloat16"]))
def test_low_precision_is_close_to_float32(policy):
    layer = make([Slope()])
    low = PositionalAttention(H, D, encodings=[Slope()], dtype=policy)
    low.build(X.shape, X.shape)
    low.set_weights(layer.get_weights())
    result = low(X, X, use_causal_mask=True)
    assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"
    np.testing.assert_allclose(numpy(result), numpy(layer(X, X, use_causal_mask=True)), atol=0.15)


@pytest.mark.once
def test_errors_name_the_value_and_the_remedy():
    with pytest.raises(ValueError, match="`num_heads` must be a positive integer. Received: 0"):
        PositionalAttention(0, D)
    with pytest.raises(ValueError, match="`value_dim` must be a positive integer. Received: -1"):
        PositionalAttention(H, D, value_dim=-1)
    with pytest.raises(
        ValueError, match="`dropout` must be a number of at least 0 and below 1. Received: 1.0"
    ):
        PositionalAttention(H, D, dropout=1.0)
    with pytest.raises(ValueError, match="`attention_axes` must be None or 1. Received: 2"):
        PositionalAttention(H, D, attention_axes=2)
    with pytest.raises(TypeError, match="An encoding is a name, a dict with a name.*Received: 3"):
        PositionalAttention(H, D, encodings=[3])
    with pytest.raises(TypeError, match="`encodings` is a list of names.*Received: 'rotary'"):
        PositionalAttention(H, D, encodings="rotary")
    with pytest.raises(ValueError, match="Unknown encoding 'rope': it is called 'rotary' here"):
        PositionalAttention(H, D, encodings=["rope"])
    with pytest.raises(ValueError, match="Unknown encoding 'rotray'"):
        PositionalAttention(H, D, encodings=["rotray"])
    with pytest.raises(ValueError, match="Unknown encoding 'rotray'"):
        PositionalAttention(H, D, encodings=[{"name": "rotray", "base": 5}])
    with pytest.raises(ValueError, match=r"`output_shape` must be one size. Received: \(2, 3\)"):
        PositionalAttention(H, D, output_shape=(2, 3))
    assert PositionalAttention(H, D, output_shape=(5,))(X, X).shape == (B, T, 5)  # as Keras' layer
    with pytest.raises(ValueError, match="`query_positions` .*T = 7, one id a token. Received: 1"):
        PositionalAttention(H, D)(X, X, query_positions=np.arange(1))
    order = ops.ones((B, T), "int32")
    with pytest.raises(ValueError, match="replace the causal order: leave `use_causal_mask`"):
        PositionalAttention(H, D)(X, X, query_order=order, key_order=order, use_causal_mask=True)
    with pytest.raises(ValueError, match="cannot drop attention weights.*`dropout=0`"):
        PositionalAttention(H, D, dropout=0.5, flash_attention=True)(X, X, training=True)


@pytest.mark.once
def test_a_cache_needs_to_know_what_is_kept_of_a_key():
    layer = PositionalAttention(H, D, encodings=["forget_gate"])
    with pytest.raises(ValueError, match="only known once it is built: call the layer"):
        layer.make_cache(B, T)
    layer.build(X.shape, X.shape)
    assert layer.make_cache(B, T)[0].shape == (B, H, T, D + 1)
