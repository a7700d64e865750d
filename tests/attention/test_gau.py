import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import GatedAttentionUnit, PositionalAttention

B, T, E, UNITS, KEY = 2, 7, 6, 10, 4
X = np.random.default_rng(0).normal(size=(B, T, E)).astype("float32")
KEEP = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1]], bool)
CAUSAL = np.tril(np.ones((T, T), bool))


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(**arguments):
    layer = GatedAttentionUnit(UNITS, KEY, **arguments)
    layer.build(X.shape)
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.8)
    return layer


def expected(layer, cells, normalize):
    """The unit in float64, from the paper's listing, without its additive bias."""
    kernel, *bias = (np.asarray(numpy(w), "float64") for w in layer.input_dense.weights)
    projected = np.einsum("bte,ehf->btf", X, kernel) + (bias[0][0] if bias else 0)
    u, v, z = np.split(projected / (1 + np.exp(-projected)), [UNITS, 2 * UNITS], -1)
    q, k = (z * numpy(getattr(layer, f"{head}_scale")) for head in ("query", "key"))
    if bias:
        q, k = q + numpy(layer.query_offset), k + numpy(layer.key_offset)
    logits = np.einsum("bqs,bks->bqk", q, k) / np.sqrt(KEY)
    weights = normalize(np.where(cells, logits, -1e30), cells.sum(-1, keepdims=True))
    kernel, *bias = (np.asarray(numpy(w), "float64") for w in layer.output_dense.weights)
    return (u * (weights @ v)) @ kernel[0] + (bias[0] if bias else 0)


def softmax(logits, n):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_plus(logits, n):
    return softmax(logits * np.log(np.maximum(n, 16)) / np.log(512), n)


def squared_relu(logits, n):
    return np.maximum(logits, 0) ** 2 / n


@pytest.mark.once
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("normalize", [softmax, softmax_plus, squared_relu])
def test_it_is_the_papers(normalize, use_bias):
    layer = make(normalization=normalize.__name__, use_bias=use_bias)
    cells = np.broadcast_to(KEEP[:, None], (B, T, T))
    found = numpy(layer(X, mask=KEEP))
    np.testing.assert_allclose(found, expected(layer, cells, normalize), atol=1e-5)


@pytest.mark.once
def test_it_takes_the_hooks_of_attention():
    layer = make(normalization="squared_relu", encodings=["forget_gate", "cope"])
    assert [type(e).__name__ for e in layer.encodings][-1] == "SquaredReLU"
    layer.encodings[0].kernel.assign(np.zeros((E, 1)))
    layer.encodings[0].gate_bias.assign([50.0])  # forgets nothing
    layer.encodings[1].embeddings.assign(np.zeros((KEY, 64)))
    found = numpy(layer(X, use_causal_mask=True))
    plain = expected(layer, np.broadcast_to(CAUSAL, (B, T, T)), squared_relu)
    np.testing.assert_allclose(found, plain, atol=1e-5)
    layer.encodings[0].gate_bias.assign([0.0])
    assert np.abs(numpy(layer(X, use_causal_mask=True)) - plain).max() > 1e-3


@pytest.mark.once
def test_it_decodes_from_a_cache():
    layer = make(encodings=[{"name": "cope", "npos_max": 4, "gate": "separate_keys"}])
    full = numpy(layer(X, mask=KEEP, use_causal_mask=True))
    cache, parts = layer.make_cache(B, T + 1), []
    for part in (slice(0, 4), slice(4, 5), slice(5, T)):
        output, cache = layer(X[:, part], cache=cache, mask=KEEP[:, part])
        parts.append(numpy(output))
    np.testing.assert_allclose(np.concatenate(parts, 1)[KEEP], full[KEEP], atol=1e-5)


@pytest.mark.once
def test_it_trains_in_a_model_with_a_mask_and_positions(tmp_path):
    tokens, ids = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(5, E, mask_zero=True)
    x = embedding(tokens)
    layer = GatedAttentionUnit(UNITS, KEY, encodings=["forget_gate"], dropout=0.1, seed=1)
    y = layer(x, positions=ids, use_causal_mask=True)
    assert y.shape == (None, None, E)
    model = keras.Model([tokens, ids], keras.layers.Dense(1)(y))
    model.compile(optimizer=keras.optimizers.Adam(epsilon=1e-20), loss="mse")
    inputs = [np.array([[0, 1, 2, 3], [4, 4, 1, 2]]), np.tile(np.arange(4), (2, 1))]
    before = layer.get_weights()
    model.fit(inputs, np.ones((2, 4, 1)), verbose=0)
    for weight, old in zip(layer.weights, before, strict=True):
        # A constant of the row, which is all that d adds to q.k, cancels in a softmax.
        moved = np.abs(numpy(weight) - old).max() > 1e-5
        assert moved or weight.name == "key_offset", weight.path
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    first, second = (m.predict(inputs, verbose=0) for m in (model, reloaded))
    np.testing.assert_allclose(second, first, atol=1e-6)
    # The mask of the embedding closes the padding, whatever its row holds.
    embedding.set_weights([embedding.get_weights()[0] + 5 * np.eye(5, 1)])
    after = model.predict(inputs, verbose=0)
    # The padding itself, which comes first and sees no key, has zero in place of its gated sum.
    np.testing.assert_allclose(after[0], first[0], atol=1e-6)


@pytest.mark.once
def test_config_comes_back_without_doubling_the_normalization():
    layer = GatedAttentionUnit(
        UNITS, KEY, "relu", "softmax_plus", encodings=["cope"], use_bias=False, name="g"
    )
    clone = GatedAttentionUnit.from_config(layer.get_config())
    assert clone.get_config() == layer.get_config()
    assert [type(e).__name__ for e in clone.encodings] == ["ContextualPositionEmbedding", "LogN"]
    assert (clone.units, clone.key_size, clone.use_bias) == (UNITS, KEY, False)
    assert isinstance(clone, PositionalAttention)


@pytest.mark.once
def test_it_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="`normalization` must be one of .* Received: 'relu'"):
        GatedAttentionUnit(8, normalization="relu")
    with pytest.raises(ValueError, match="`units` must be a positive integer. Received: 0"):
        GatedAttentionUnit(0)
    with pytest.raises(ValueError, match="`key_size` must be a positive integer. Received: '4'"):
        GatedAttentionUnit(8, "4")
    with pytest.raises(ValueError, match="Only one encoding can turn logits into weights"):
        GatedAttentionUnit(8, normalization="squared_relu", encodings=["stick_breaking"])
