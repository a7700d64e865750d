"""A block is its formula, wherever its norms stand; norms are theirs."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.layers.block import Block, block_parts
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import NORMS, RMSNormalization, normalization

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def made(norm, **options):
    sublayers = {"Double": functools.partial(keras.layers.Rescaling, 2.0)}
    parts = block_parts(sublayers, functools.partial(RMSNormalization, 1e-6), norm, **options)
    return Block("Block-0", {}, parts, norm, prefix="x-")


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("post", rms(3 * X)),
        ("pre", X + 2 * rms(X)),
        ("both", X + rms(2 * rms(X))),
    ],
)
def test_each_place_of_a_norm_is_its_formula(norm, expected):
    block = made(norm)
    np.testing.assert_allclose(numpy(block.add(X, "Double")), expected, atol=1e-5)
    names = {"-Add", "", "-Norm"} | ({"-Output-Norm"} if norm == "both" else set())
    assert set(block.layers) == {f"Block-0-Double{name}" for name in names}
    assert block.layers["Block-0-Double"].name == "x-Block-0-Double"


@pytest.mark.once
def test_a_layer_that_is_left_out_does_nothing():
    block = made("pre")
    del block.parts["Double-Norm"]
    np.testing.assert_allclose(numpy(block.add(X, "Double")), 3 * X, atol=1e-5)


@pytest.mark.once
def test_layers_that_there_are_are_taken_and_more_is_handed_on():
    block = made("post", dropout=0.5)
    block.make()
    assert list(block.layers)[1] == "Block-0-Double-Dropout"
    again = Block("Block-0", block.layers)
    out, more = again.add(X, "Double", lambda layer, x: (layer(x), "more"))
    assert more == "more"
    np.testing.assert_allclose(numpy(out), rms(3 * X), atol=1e-5)
    with pytest.raises(ValueError, match="`norm` must be one of .*Received: 'front'"):
        Block("Block-0", {}, norm="front")


ORACLES = {
    "layer_norm": lambda x, g, b: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * g + b
    ),
    "rms_norm": lambda x, g, b: rms(x) * g,
    "rms_norm_plus_one": lambda x, g, b: rms(x) * (1 + g),
    "rms_norm_without_scale": lambda x, g, b: rms(x),
}
ORACLES["layer_norm_without_bias"] = lambda x, g, b: ORACLES["layer_norm"](x, g, 0)


@pytest.mark.parametrize("kind", NORMS)
def test_norms_are_their_formulas_and_begin_alike(kind):
    layer = normalization(kind, 1e-6)
    first = numpy(layer(X))
    base = "layer_norm" if kind.startswith("layer") else "rms_norm"
    np.testing.assert_allclose(first, ORACLES[base](X, 1.0, 0.0), atol=1e-5)
    values = np.random.default_rng(1).normal(size=(2, 8)).astype("float32")
    layer.set_weights(list(values[: len(layer.weights)]))
    np.testing.assert_allclose(numpy(layer(X)), ORACLES[kind](X, *values), atol=1e-5)
    again = type(layer).from_config(layer.get_config())
    again.build(X.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(numpy(again(X)), numpy(layer(X)))


@pytest.mark.once
def test_a_norm_of_large_half_precision_numbers_is_finite():
    layer = RMSNormalization(dtype="float16")
    assert np.isfinite(numpy(layer(1e4 * X))).all()


@pytest.mark.once
def test_norms_and_biases_that_there_are_not():
    with pytest.raises(ValueError, match="`kind` must be one of .*Received: 'batch_norm'"):
        normalization("batch_norm")
    with pytest.raises(ValueError, match="`epsilon` must be a positive number. Received: 0"):
        RMSNormalization(0)
    with pytest.raises(ValueError, match="`use_bias` must be one of .True.* Received: 'inner'"):
        FeedForward(4, use_bias="inner")
    layer = FeedForward(4, use_bias="output")
    layer.build(X.shape)
    assert [weight.path.split("/")[-2:] for weight in layer.weights] == [
        ["intermediate", "kernel"],
        ["output", "kernel"],
        ["output", "bias"],
    ]
