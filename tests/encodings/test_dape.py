"""DAPE: what its network sees, what it is refused, and that a masked key cannot spoil training."""

import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention
from keras_posenc.encodings import DAPE

pytestmark = pytest.mark.once


def test_the_logits_of_one_head_change_those_of_another():
    """A logit of 5 in head 0 alone reaches head 1 through a unit that reads head 0."""
    layer = PositionalAttention(2, 1, encodings=[DAPE(units=1)])
    x = np.array([[[1.0, 0.0], [0.0, 0.0]]], "float32")
    layer.build(x.shape, x.shape)
    for dense, size in ((layer.query_dense, 5.0), (layer.key_dense, 1.0)):
        kernel = np.zeros((2, 2, 1))
        kernel[0, 0] = size
        dense.set_weights([kernel, np.zeros((2, 1))])
    far = np.full(2, -30.0)  # a, p after the softplus: no bias
    w = np.array([[1.0], [0.0], [0.0], [0.0]])
    named = {"a": far, "p": far, "dape_w": w, "dape_u": [0.0], "dape_v": [[0.0, 2.0]]}
    (encoding,) = layer.encodings
    encoding.set_weights([np.array(named[weight.name]) for weight in encoding.weights])
    _, logits = layer(x, x, return_attention_logits=True)
    laws.close(laws.to_numpy(logits)[0], np.array([[[5, 0], [0, 0]], [[10, 0], [0, 0]]], "float32"))


def test_a_masked_key_does_not_reach_the_gradient():
    """Infinite logits of a masked key would be NaN times zero in the gradient of W."""
    layer = PositionalAttention(2, 4, encodings=["dape"])
    x = laws.numbers(1, length=6)
    layer.build(x.shape, x.shape)
    keep = np.array([[True] * 4 + [False] * 2])
    x[0, 4:] = 1e30
    for training in (False, True):
        counted = dict(value_mask=keep, counted=keep, training=training)
        for value in laws.gradients(layer, x, **counted)[2:]:
            assert np.isfinite(value).all()


def test_the_bias_is_one_of_a_few_and_has_a_table():
    with pytest.raises(ValueError, match="`bias` must be"):
        DAPE("alibi")
    shared = "leave `shared` out of `bias_arguments`. Received: shared=True"
    with pytest.raises(ValueError, match=shared):
        DAPE("t5", {"shared": True})
    with pytest.raises(ValueError, match="`units` must be a positive integer. Received: 0"):
        DAPE(units=0)


def test_it_is_causal_where_its_bias_is():
    assert DAPE("t5", {"bidirectional": False}).causal_only
    assert not DAPE("t5").causal_only
