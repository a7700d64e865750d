"""What a cache of keys and values holds, and what a call does with the one that it is given."""

import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.attention.key_values import Overwritten

pytestmark = pytest.mark.once
B, T = 2, 7
X = np.random.default_rng(0).normal(size=(B, T, 8)).astype("float32")


def make():
    return PositionalAttention(3, 5, encodings=["t5"])


def numpy(x):
    return ops.convert_to_numpy(x)


def test_a_cache_may_be_continued_in_two_ways():
    """No call writes into a cache that it is given."""
    layer = make()
    layer(X, X)
    first, others = X[:, :4], (X[:, 4:6], X[:, 5:7])
    _, cache = layer(first, first, cache=layer.make_cache(B, T))
    caches = [layer(x, x, cache=cache)[1] for x in others]
    for x, after in zip(others, caches, strict=True):
        last = X[:, :1]
        whole = np.concatenate([first, x, last], 1)
        found, _ = layer(last, last, cache=after)
        expected = layer(whole, whole, use_causal_mask=True)
        np.testing.assert_allclose(numpy(found), numpy(expected)[:, -1:], atol=2e-5)


def test_a_cache_that_nothing_else_reads_decodes_the_same():
    layer = make()
    expected = numpy(layer(X, X, use_causal_mask=True))
    cache, found = Overwritten(*layer.make_cache(B, T)), []
    for i in range(T):
        out, cache = layer(X[:, i : i + 1], X[:, i : i + 1], cache=cache)
        assert isinstance(cache, Overwritten)
        found.append(numpy(out))
    np.testing.assert_allclose(np.concatenate(found, 1), expected, atol=2e-5)


def test_padding_in_a_cache_may_be_anything():
    """Also not a number, in what is written first and in what is written later."""
    layer, found = make(), []
    keep = np.array([[1, 1, 0, 0, 1, 0, 1], [0, 0, 1, 1, 0, 1, 1]], bool)
    layer(X, X)
    for x in (X, np.where(keep[..., None], X, np.nan)):
        cache = layer.make_cache(B, T + 1)
        for piece in (slice(0, 4), slice(4, 6), slice(6, 7)):
            part = x[:, piece]
            out, cache = layer(part, part, value_mask=keep[:, piece], cache=cache)
        found.append(numpy(out))
    np.testing.assert_array_equal(*found)


@pytest.mark.once
@pytest.mark.parametrize("encodings", [[], ["forget_gate"], ["rotary"]], ids=str)
def test_a_query_without_a_key_in_the_cache_is_refused(encodings):
    """Its index is that of a key that a later call may write."""
    layer = PositionalAttention(2, 4, encodings=encodings)
    layer(X, X, use_causal_mask=True)
    _, cache = layer(X[:, :3], X[:, :3], cache=layer.make_cache(B, T))
    with pytest.raises(ValueError, match="index of one: give a key.* 3 queries and 2 keys"):
        layer(X[:, 3:6], X[:, 3:5], cache=cache)
