"""PaTH over more tokens than one block multiplies, and what it does not take."""

import keras
import numpy as np
import oracles_contextual as oracles
import pytest
from keras import ops
from programs import one_program

from keras_posenc import PositionalAttention
from keras_posenc.encodings import PaTH
from keras_posenc.encodings.path import BLOCK

B, T, H, D, E = 2, 2 * BLOCK + 11, 2, 5, 6
X = np.random.default_rng(0).normal(size=(B, T, E)).astype("float32")
KEEP = np.ones((B, T), bool)
KEEP[0, :9] = KEEP[1, 40:43] = KEEP[1, -5:] = False


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.fixture(scope="module")
def layer():
    layer = PositionalAttention(H, D, encodings=["path"])
    layer.build(X.shape, X.shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=w.shape) * 0.7 for w in layer.weights])
    return layer


def expected_logits(layer, x=X, keep=KEEP):
    heads = [
        np.einsum("btd,dhe->bthe", x, kernel) + bias
        for kernel, bias in (
            [np.asarray(numpy(w), "float64") for w in dense.weights]
            for dense in (layer.query_dense, layer.key_dense)
        )
    ]
    weights = {w.name: np.asarray(numpy(w), "float64") for w in layer.encodings[0].weights}
    w, b = oracles.reflections(x.astype("float64"), keep, weights)
    return oracles.reflected(*heads, w, b) / np.sqrt(D)


def test_blocks_are_the_products_of_single_tokens(layer):
    named = dict(use_causal_mask=True, key_mask=KEEP, return_attention_logits=True)
    _, found = one_program(lambda x: layer(x, x, **named))(X)
    seen = np.broadcast_to(np.tril(np.ones((T, T), bool)) & KEEP[:, None, None], found.shape)
    np.testing.assert_allclose(numpy(found)[seen], expected_logits(layer)[seen], atol=2e-4)


def test_blocks_of_rows_are_the_whole_matrix(layer, cut_maps):
    arguments = dict(use_causal_mask=True, key_mask=KEEP)

    def called(**more):
        return one_program(lambda x: layer(x, x, **arguments, **more))(X)

    whole, _ = called(return_attention_scores=True)
    cut_maps(0, 70_000)  # 31 rows
    for training in (False, True):
        found = called(training=training)
        np.testing.assert_allclose(numpy(found), numpy(whole), atol=2e-5)


@pytest.mark.once
def test_a_window_reads_what_lies_before_it(layer):
    """Tokens that it masks still transform the keys before them, so no block leaves them out."""
    x = np.concatenate([X, X[:, ::-1]], axis=1)
    window = PositionalAttention(
        H, D, encodings=["path", {"name": "window", "window": 20, "sinks": 1}]
    )
    window.build(x.shape, x.shape)
    window.set_weights(layer.get_weights())
    whole, _ = window(x, x, use_causal_mask=True, return_attention_scores=True)
    found = window(x, x, use_causal_mask=True)
    np.testing.assert_allclose(numpy(found), numpy(whole), atol=2e-5)


@pytest.mark.once
def test_packed_documents_are_apart(layer):
    x = X[:1, :70]
    packed = np.concatenate([np.arange(41), np.arange(29)])[None].astype("int32")
    both = layer(x, x, use_causal_mask=True, query_positions=packed, packed=True)
    for part in (slice(0, 41), slice(41, 70)):
        alone = layer(x[:, part], x[:, part], use_causal_mask=True)
        np.testing.assert_allclose(numpy(both)[:, part], numpy(alone), atol=2e-5)


@pytest.mark.once
def test_it_decodes_from_a_cache_over_blocks(layer):
    full = numpy(layer(X, X, use_causal_mask=True, key_mask=KEEP))
    cache, parts = layer.make_cache(B, T + 2), []
    for start, stop in ((0, BLOCK + 3), *((i, i + 1) for i in range(BLOCK + 3, BLOCK + 6))):
        x = X[:, start:stop]
        output, cache = layer(x, x, cache=cache, key_mask=KEEP[:, start:stop])
        parts.append(numpy(output))
    found, keep = np.concatenate(parts, 1), KEEP[:, : BLOCK + 6]
    np.testing.assert_allclose(found[keep], full[:, : BLOCK + 6][keep], atol=5e-5)


@pytest.mark.once
def test_tokens_of_no_strength_change_nothing(layer):
    weak = PositionalAttention(H, D, encodings=["path"])
    weak.build(X.shape, X.shape)
    weak.set_weights(layer.get_weights())
    encoding = weak.encodings[0]
    encoding.strength.assign(0 * encoding.strength)
    encoding.strength_bias.assign([-1e4, -1e4])
    plain = PositionalAttention(H, D)
    plain.build(X.shape, X.shape)
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(plain, name).set_weights(getattr(weak, name).get_weights())
    outputs = [numpy(each(X, X, use_causal_mask=True)) for each in (weak, plain)]
    np.testing.assert_allclose(*outputs, 1e-5, 1e-5)
    assert np.abs(numpy(layer(X, X, use_causal_mask=True)) - outputs[1]).max() > 1e-2


@pytest.mark.once
def test_it_says_what_it_needs(layer):
    with pytest.raises(ValueError, match="PaTH multiplies .* 4 queries, 139 keys and no causal"):
        layer(X[:, :4], X, attention_mask=np.ones((4, T), bool))
    orders = np.arange(T)[None].astype("int32")
    with pytest.raises(ValueError, match="leave `query_order` out. .* and a `query_order`"):
        layer(X, X, query_order=orders, key_order=orders)
    with pytest.raises(ValueError, match="`rank` must be a positive integer. Received: 0"):
        PaTH(rank=0)
    with pytest.raises(ValueError, match="`kernel_size` must be .* Received: 2.5"):
        PaTH(kernel_size=2.5)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="what JAX calls")
def test_no_call_waits_for_the_threads_that_run_it(layer):
    """LAPACK's of JAX do: two at once on a CPU of two cores never end."""
    import jax

    def loss(x):
        return ops.sum(layer(x, x, use_causal_mask=True))

    assert "lapack" not in jax.jit(jax.grad(loss)).lower(X).as_text()
