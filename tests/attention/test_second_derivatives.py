"""A loss may look at its own gradient: what attention then says, against attention written out."""

import keras
import laws
import numpy as np
import pytest
from keras import ops
from programs import one_program

from keras_posenc import PositionalAttention
from keras_posenc.training import gradient

BACKEND = keras.backend.backend()
T, H, D = 9, 2, 4


def pushed(function, x):
    """The gradient of a penalty on the gradient of a function."""

    def penalty(x):
        return ops.sum(gradient(function, x, differentiable=True) ** 2)

    return laws.to_numpy(one_program(lambda x: gradient(penalty, x))(x))


def written_out(layer, x):
    """Attention of x to itself, causal, by the layer's weights and nothing else of ours."""
    weights = [ops.convert_to_tensor(w) for w in layer.weights]  # q, k, v, output: kernel, bias
    q, k, v = (
        ops.einsum("btd,dhe->bhte", x, kernel) + bias[:, None]
        for kernel, bias in zip(weights[0:6:2], weights[1:6:2], strict=True)
    )
    closed = ops.convert_to_tensor(np.triu(np.full((T, T), -1e9, "float32"), 1))
    shares = ops.softmax(ops.matmul(q, ops.swapaxes(k, -1, -2)) / D**0.5 + closed)
    return ops.einsum("bhte,hed->btd", ops.matmul(shares, v), weights[6]) + weights[7]


@pytest.mark.parametrize("blocks", [True, False], ids=["blocks", "kernel or map"])
def test_a_penalty_on_the_gradient_has_the_gradient_of_plain_attention(blocks, cut_maps):
    if BACKEND != "torch" and not blocks:
        pytest.skip("no kernel to leave")
    if blocks:
        cut_maps(0, 4 * 2 * H * T * 2)
    layer = PositionalAttention(H, D, flash_attention=False)
    x = ops.convert_to_tensor(laws.numbers(length=T)[:2])
    layer.build(x.shape, x.shape)

    def ours(x):
        return ops.sum(layer(x, x, use_causal_mask=True, training=blocks) ** 3)

    found = pushed(ours, x)
    expected = pushed(lambda x: ops.sum(written_out(layer, x) ** 3), x)
    assert np.abs(expected).max() > 1e-3
    laws.close(found, expected, 1e-4)


@pytest.mark.once
@pytest.mark.parametrize("encodings", [["cope"], ["shaw", "t5"], ["forget_gate"], ["selective"]])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_blocks_have_the_second_derivative_of_the_map(encodings, dropout, cut_maps):
    """With the weights of encodings, and with the same cells dropped."""
    cut_maps(0, 4 * 2 * H * T * 2)
    arguments = {"encodings": encodings, "dropout": dropout, "seed": 3}
    layer = PositionalAttention(H, D, flash_attention=False, **arguments)
    x = ops.convert_to_tensor(laws.numbers(length=T)[:2])
    layer.build(x.shape, x.shape)
    state = layer.seed_generator.state.numpy() if dropout else None
    found = []
    for whole in (False, True):

        def output(x, whole=whole):
            if dropout:
                layer.seed_generator.state.assign(state)
            arguments = {"use_causal_mask": True, "training": True}
            y = layer(x, x, return_attention_scores=whole, **arguments)
            return ops.sum((y[0] if whole else y) ** 3)

        found.append(pushed(output, x))
    laws.close(*found, 1e-4)


@pytest.mark.skipif(BACKEND != "torch", reason="torch's kernels lack second derivatives")
def test_the_kernel_is_left_when_keras_asks_for_it():
    layer, x = PositionalAttention(H, D), ops.convert_to_tensor(laws.numbers(length=T))

    def output(x):
        return ops.sum(layer(x, x) ** 3)

    with pytest.raises(RuntimeError, match="derivative for .* is not implemented"):
        pushed(output, x)
    keras.config.disable_flash_attention()
    try:
        found = pushed(output, x)
    finally:
        keras.config.enable_flash_attention()
    layer.flash_attention = False
    laws.close(found, pushed(output, x), 1e-6)


def test_a_gradient_is_a_constant_unless_it_is_to_be_differentiated():
    x = ops.convert_to_tensor(np.array([1.0, -2.0], "float32"))

    def cubes(x):
        return ops.sum(x**3)

    np.testing.assert_allclose(laws.to_numpy(gradient(cubes, x)), [3.0, 12.0])
    np.testing.assert_allclose(pushed(cubes, x), [36.0, -288.0])
    constant = gradient(lambda x: ops.sum(gradient(cubes, x)) + 0.0 * ops.sum(x), x)
    np.testing.assert_allclose(laws.to_numpy(constant), [0.0, 0.0])
