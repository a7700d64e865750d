"""The short way through attention gives what the layer computes, and leaves other calls to it.

Only PyTorch takes it; see tests/models/test_direct.py.
"""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.attention.shortcuts import attend_whole

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="programs have no calls while they run"
)
X = np.random.default_rng(0).normal(size=(2, 6, 16)).astype("float32")
IDS = np.array([[0, 2, 3, 7, 8, 11], [1, 2, 4, 5, 9, 10]], "int32")
# Settings of the layer and arguments of the call that are served.
SERVED = {
    "plain": ({}, {}),
    "causal": ({}, {"use_causal_mask": True}),
    "no padding": ({}, {"value_mask": np.ones((2, 6), bool), "key_mask": np.ones((2, 6), bool)}),
    "rotary": ({"encodings": ["rotary"]}, {"use_causal_mask": True}),
    "ids": ({"encodings": ["rotary"]}, {"query_positions": IDS}),
    "few keys": ({"num_key_value_heads": 1, "encodings": ["rotary"]}, {}),
    "gate": ({"use_gate": True, "encodings": ["temperature"]}, {}),
}
OTHERS = {
    "padding": ({}, {"value_mask": np.arange(6)[None] < [[4], [6]]}),
    "padding of keys": ({}, {"key_mask": np.arange(6)[None] < [[4], [6]]}),
    "mask": ({}, {"attention_mask": np.tril(np.ones((6, 6), bool))}),
    "scores": ({}, {"return_attention_scores": True}),
    "bias": ({}, {"bias": np.ones((6, 6), "float32")}),
    "window": ({"sliding_window": 3}, {}),
    "by the length": ({"encodings": ["log_n"]}, {}),
    "by the distance": ({"encodings": ["alibi"]}, {"use_causal_mask": True}),
    "on the map": ({"encodings": ["dape"]}, {}),
    "other value heads": ({"value_dim": 4}, {}),
    "no kernel": ({"flash_attention": False}, {}),
}


def layer_and_arguments(settings, named):
    layer = PositionalAttention(num_heads=2, key_dim=8, seed=0, **settings)
    layer.build(X.shape, X.shape)
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    named = {
        name: ops.convert_to_tensor(x) if isinstance(x, np.ndarray) else x
        for name, x in named.items()
    }
    return layer, ops.convert_to_tensor(X), named


@pytest.mark.parametrize("name", SERVED)
def test_it_computes_what_the_layer_computes(name):
    layer, x, named = layer_and_arguments(*SERVED[name])
    expected = layer.call(x, x, x, **named)
    found = attend_whole(layer, x, {**named, "training": False})
    plain = attend_whole(*layer_and_arguments({}, {}))
    found, expected, plain = map(ops.convert_to_numpy, (found, expected, plain))
    np.testing.assert_allclose(found, expected, atol=2e-6, rtol=1e-5)
    assert name in ("plain", "no padding") or np.abs(found - plain).max() > 1e-3


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_are_left_to_the_layer(name):
    assert attend_whole(*layer_and_arguments(*OTHERS[name])) is None
