"""Keys and values that serve several query heads: kept once, and the numbers of repeated ones."""

import keras
import numpy as np
import pytest
from backend_gradients import GRADIENTS
from keras import ops
from programs import one_program

from keras_posenc import PositionalAttention
from keras_posenc.attention import choose

HEADS, FEW, D, B, T = 4, 2, 6, 2, 9
X = np.random.default_rng(0).normal(size=(B, T, 12)).astype("float32")
KEEP = np.arange(T) < np.array([[T], [T - 3]])
ENCODINGS = {
    "none": [],
    "rotary": ["rotary"],
    "rotated biases": [{"name": "rotary", "use_bias": True}],
    "one bias for all": [{"name": "rotary", "use_bias": "shared"}],
    "by length": [
        {
            "name": "rotary",
            "scaling": {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4},
        }
    ],
    "factors": ["xpos", {"name": "temperature", "kind": "llama4", "value": 3}, "log_n"],
    "log-n first": ["log_n", "rotary"],
    "window and sink": ["rotary", {"name": "window", "window": 4}, "sink_logits"],
    "widened": ["alibi"],
    "terms": ["sandwich", "t5", "content_bias"],
    "queries meet a table": ["shaw", "rotary"],
    "keys meet a table": ["deberta"],
    "both meet sinusoids": ["transformer_xl"],
    "remapped": [{"name": "rerope", "window": 3}],
    "phases of keys": ["pope"],
    "features": ["forget_gate", "rotary"],
    "gates": ["cope"],
    "no softmax": ["stick_breaking"],
    "products of keys": ["path"],
}


def both(encodings, **named):
    """A layer with few key heads, and one with the same numbers in heads of their own."""
    few, many = (
        PositionalAttention(HEADS, D, num_key_value_heads=n, encodings=[*encodings], **named)
        for n in (FEW, HEADS)
    )
    rng = np.random.default_rng(1)
    for layer in (few, many):
        layer.build(X.shape, X.shape)
    for one, other in zip(few.weights, many.weights, strict=True):
        numbers = rng.normal(size=one.shape) * 0.3
        one.assign(numbers)
        heads = "key/" in one.path or "value/" in one.path
        axis = len(one.shape) - 2
        other.assign(np.repeat(numbers, HEADS // FEW, axis=axis) if heads else numbers)
    return few, many


def numpy(x):
    return ops.convert_to_numpy(x)


# Those whose way through attention depends on the backend.
EVERYWHERE = ("none", "rotary", "window and sink", "terms", "keys meet a table", "products of keys")
CASES = [
    name if name in EVERYWHERE else pytest.param(name, marks=pytest.mark.once) for name in ENCODINGS
]


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_repeated_heads(name):
    few, many = both(ENCODINGS[name])
    named = {"use_causal_mask": True, "key_mask": ops.convert_to_tensor(KEEP)}
    expected = numpy(one_program(lambda x: many(x, x, **named))(X))
    found = one_program(lambda x: few(x, x, **named))(X)
    np.testing.assert_allclose(numpy(found), expected, atol=2e-5)
    step = one_program(lambda x, keep, cache: few(x, x, key_mask=keep, cache=cache))
    # Texts of another length are other programs on JAX and TensorFlow.
    for cut in (slice(0, 4), slice(0, T - 1))[: 2 if keras.backend.backend() == "torch" else 1]:
        cache = few.make_cache(B, T)
        found = []
        for piece in (cut, slice(cut.stop, T - 1), slice(T - 1, T)):
            x = X[:, piece]
            if x.shape[1]:
                out, cache = step(x, KEEP[:, piece], cache)
                found.append(numpy(out))
        np.testing.assert_allclose(np.concatenate(found, 1)[:, -1], expected[:, -1], atol=2e-5)
    assert cache[0].shape[:3] == cache[1].shape[:3] == (B, FEW, T)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_in_blocks_are_those_of_repeated_heads(dropout, monkeypatch):
    monkeypatch.setattr(choose, "rows_of_block", lambda *_: 4)
    x, found = ops.convert_to_tensor(X), []

    def loss(x, forward):
        out = forward(x, x, training=True, use_causal_mask=True)
        return ops.sum(ops.sin(out)), out

    for layer in both(ENCODINGS["window and sink"], dropout=dropout, seed=3):
        numbers = GRADIENTS[keras.backend.backend()](layer, x, loss, False)
        found.append([numpy(x) for x in numbers[:2]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-5)
