"""Heads that are grouped, and heads that are normalised."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention

B, T, D, E = 2, 7, 5, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, E)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def test_grouped_keys_are_those_of_keras_grouped_query_attention():
    ours = PositionalAttention(6, D, num_key_value_heads=2)
    reference = keras.layers.GroupQueryAttention(D, 6, 2)
    for layer in (ours, reference):
        layer.build(X.shape, X.shape)
    ours.set_weights([RNG.normal(0, 0.3, w.shape) for w in ours.weights])
    reference.set_weights(ours.get_weights())
    expected = numpy(reference(X, X, use_causal_mask=True))
    np.testing.assert_allclose(numpy(ours(X, X, use_causal_mask=True)), expected, atol=1e-5)
    cache, steps = ours.make_cache(B, T), []
    for i in range(T):
        step, cache = ours(X[:, i : i + 1], X[:, i : i + 1], cache=cache)
        steps.append(numpy(step))
    np.testing.assert_allclose(np.concatenate(steps, 1), expected, atol=1e-5)
    with pytest.raises(ValueError, match="must divide the 6 heads. Received: 4"):
        PositionalAttention(6, D, num_key_value_heads=4)
    with pytest.raises(ValueError, match="`num_key_value_heads` must be a positive .* Received: 0"):
        PositionalAttention(6, D, num_key_value_heads=0)


def test_each_head_is_normalised_before_the_encodings_act():
    norm = keras.layers.LayerNormalization(epsilon=1e-6)
    layer = PositionalAttention(2, 4, head_norm=norm, encodings=["rotary"], use_bias=False)
    before = numpy(layer(X, X))
    # The norm takes the scale of queries and keys away, and has one of its own.
    layer.query_dense.kernel.assign(100 * layer.query_dense.kernel)
    np.testing.assert_allclose(numpy(layer(X, X)), before, atol=1e-4)
    assert [w.path.split("/", 1)[1] for w in layer.query_norm.weights + layer.key_norm.weights] == [
        f"{head}_norm/{name}" for head in ("query", "key") for name in ("gamma", "beta")
    ]
    layer.query_norm.gamma.assign([0.0] * 4)
    flat = numpy(layer(X, X))
    np.testing.assert_allclose(flat, flat[:, :1] + 0 * flat, atol=1e-5)
    again = PositionalAttention.from_config(layer.get_config())
    again.build(X.shape, X.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(numpy(again(X, X)), flat)


def test_a_norm_of_heads_under_a_mask():
    """Keras warns where a layer without masking, such as its norm, is called with a mask."""
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(5, 8, mask_zero=True)(tokens)
    layer = PositionalAttention(2, 4, head_norm=keras.layers.RMSNormalization())
    model = keras.Model(tokens, layer(x, x))
    found = model.predict(np.array([[1, 2, 0, 0], [1, 2, 3, 4]]), verbose=0)
    alone = model.predict(np.array([[1, 2]]), verbose=0)
    np.testing.assert_allclose(found[:1, :2], alone, atol=1e-5)
