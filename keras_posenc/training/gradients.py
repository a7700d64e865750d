"""Gradients inside a loss, which Keras leaves to its backends."""

from keras import ops

from keras_posenc import backend


def gradient(function, x, differentiable=False):
    """The gradient of a function by a tensor, inside a loss, on any backend.

        g = d f(x) / d x

    For losses that look at their own gradient: adversarial training, gradient penalties, virtual
    adversarial training; and for integrated gradients. It works in `compute_loss` of a
    `keras.Model`, compiled or not, and on tensors at hand.

    Args:
        function: function of one tensor that returns a scalar tensor.
        x: tensor of floats, the argument of `function`.
        differentiable: bool. The result is a function of x and of the weights in its turn, as a
            penalty on it needs. On torch fused kernels of attention have no second derivative:
            build the layers with `flash_attention=False`, or call
            `keras.config.disable_flash_attention()` first. Memory is then quadratic in the length.
            False: the result is a constant.

    Returns:
        A tensor of the shape of x; zeros where `function` does not depend on it.

    Example:

    >>> x = np.array([1.0, 2.0], "float32")
    >>> np.asarray(gradient(lambda x: keras.ops.sum(x**3), x)).tolist()
    [3.0, 12.0]

    Reference: [Adversarial Training Methods for Semi-Supervised Text
    Classification](https://arxiv.org/abs/1605.07725).
    """
    derivative = backend.gradient(function, x, differentiable)
    return derivative if differentiable else ops.stop_gradient(derivative)
