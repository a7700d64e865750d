"""Orders that are not the index: windows beside prompts, and rows that see nothing."""

import keras
import numpy as np
from programs import one_program

from keras_posenc import PositionalAttention

RNG = np.random.default_rng(0)


def queries(length, width=16):
    return RNG.normal(size=(1, length, width)).astype("float32")


def test_a_window_beside_a_prompt_is_that_of_the_whole_matrix():
    """From some 384 tokens on it is computed by neighbouring blocks."""
    q = queries(400)
    order = np.cumsum(np.arange(400) >= 200)[None].astype("int32")
    layer = PositionalAttention(2, 8, sliding_window=16)
    orders = {"query_order": order, "key_order": order}
    layer.build(q.shape, q.shape)
    run = one_program(
        lambda x: (layer(x, x, **orders), layer(x, x, **orders, return_attention_scores=True)[0])
    )
    found, whole = map(keras.ops.convert_to_numpy, run(q))
    np.testing.assert_allclose(found, whole, atol=1e-4)


def test_a_query_without_a_key_in_its_order_is_zero():
    """As one that a mask leaves none, so nothing of later tokens reaches it."""
    q, order = queries(6), np.array([[3, 0, 5, 1, 4, 2]], "int32")
    layer = PositionalAttention(2, 8)
    found, weights = layer(
        q, q, query_order=order - 1, key_order=order, return_attention_scores=True
    )
    mask = (order[:, None, :] <= order[:, :, None] - 1)[:, None]
    expected = layer(q, q, attention_mask=mask)
    weights, found, expected = map(keras.ops.convert_to_numpy, (weights, found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (weights[:, :, 1] == 0).all()


def test_orders_of_several_dtypes():
    q, k = queries(70), queries(77)
    layer = PositionalAttention(2, 8)
    ids = {"query_positions": np.arange(7, 77), "key_positions": np.arange(77)}
    same = layer(q, k, use_causal_mask=True, **{n: x[None].astype("int32") for n, x in ids.items()})
    ids["query_positions"] = ids["query_positions"].astype("float32")
    found = layer(q, k, use_causal_mask=True, **{n: x[None] for n, x in ids.items()})
    same, found = map(keras.ops.convert_to_numpy, (same, found))
    np.testing.assert_allclose(found, same, atol=1e-5)


def test_a_window_over_more_keys_than_queries_of_free_lengths():
    inputs = [keras.Input((None, 16)) for _ in range(2)]
    layer = PositionalAttention(2, 8, sliding_window=8)
    model = keras.Model(inputs, layer(*inputs))
    for rows, columns in ((50, 20), (20, 40), (50, 200)):
        q, k = queries(rows), queries(columns)
        run = one_program(lambda q, k: layer(q, k, return_attention_scores=True)[0])
        expected = keras.ops.convert_to_numpy(run(q, k))
        np.testing.assert_allclose(model.predict([q, k], verbose=0), expected, atol=1e-4)
