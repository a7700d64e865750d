"""Layers in `keras.RematScope`, which computes them once more in the backward pass."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.layers.dropout import Dropout

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
LAYERS = {
    "attention": lambda rate: PositionalAttention(2, 4, encodings=["t5"], dropout=rate, seed=0),
    "dropout": lambda rate: Dropout(rate),
}


def call(layer, training):
    inputs = (X, X) if isinstance(layer, PositionalAttention) else (X,)
    return layer(*inputs, training=training)


@pytest.mark.parametrize("name", LAYERS)
def test_what_would_be_dropped_anew_is_refused(name):
    with keras.RematScope("full"):
        layer = LAYERS[name](0.3)
    with pytest.raises(ValueError, match="would drop other values. Make it with a dropout of 0"):
        call(layer, training=True)
    assert call(LAYERS[name](0.3), training=True) is not None


@pytest.mark.parametrize("name", LAYERS)
def test_scopes_that_compute_it_once_are_not(name):
    for scope in (keras.RematScope("activations"), keras.RematScope("list_of_layers")):
        with scope:
            layer = LAYERS[name](0.3)
            assert call(layer, training=True) is not None


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="elsewhere `training` is traced")
def test_without_dropout_the_gradients_are_the_same():
    import torch

    found = []
    for scope in (keras.RematScope("full"), keras.RematScope(None)):
        with scope:
            layer = LAYERS["attention"](0.0)
            layer.build(X.shape, X.shape)
        draw = np.random.default_rng(1)
        for weight in layer.weights:
            weight.assign(draw.normal(size=weight.shape))
        mask = np.arange(5) < [[5], [3]]
        outputs = layer(X, X, value_mask=mask, query_positions=np.arange(5) * 2, training=True)
        torch.sum(outputs**2).backward()
        found.append([ops.convert_to_numpy(v.value.grad) for v in layer.trainable_variables])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
