"""Softmax attention by the map, for encodings that leave its weights alone."""

import functools

import keras
from keras import ops

from keras_posenc.layers.attend.dropout import kept_of
from keras_posenc.layers.attend.explicit import close, logits_of, softmax

# Weights of e^-69 are 1e-30: their products with gradients of 1e-8 are numbers as any others.
SMALL = 69.0
# Closed cells are about 1e9 below.
CLOSED = 1e8


def attend_leanly(q, k, v, grid, scale, encodings, bias, dropout, signs):
    """The output of `attend_cells`, with fewer passes over the map.

    With the weights p, those in use u (p or 0) and the output o = u v, the gradients for g are
    u^T g of the values and u (g v^T) - p sum(o g) of the logits. Left to themselves, TensorFlow and
    JAX find the sum from the map: on TensorFlow that takes six passes in place of three, on JAX a
    third of the whole time. torch has a kernel for it.
    """
    logits = close(logits_of(q, k, grid, scale, encodings, bias), grid.open())
    v = v * ops.cast(1 / (1 - dropout), v.dtype) if dropout else v

    def forward(logits, v, signs):
        weights = softmax(logits)
        used = kept_of(weights, dropout, signs) if dropout else weights
        output = ops.matmul(ops.cast(used, v.dtype), _turned(v))
        return output, (weights, used, output, v)

    mixed = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}
    return mixed[keras.backend.backend()](forward, logits, v, signs)


def _backward(held, upstream):
    """The gradients of the logits and of the values."""
    weights, used, output, v = held
    of_v = ops.matmul(_turned(upstream), ops.cast(used, v.dtype))
    of_used = ops.cast(ops.matmul(upstream, v), weights.dtype)
    shared = ops.cast(output, weights.dtype) * ops.cast(upstream, weights.dtype)
    shared = ops.sum(shared, axis=-1, keepdims=True)
    return used * of_used - weights * shared, of_v


def _turned(x):
    return ops.swapaxes(x, -1, -2)


def _on_torch(forward, logits, v, signs):
    import torch

    # On a CPU, products with numbers below 1e-38 take five times as long. Weights of 0 in place of
    # them change nothing. That a map has such weights is told by the last of its rows.
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        row = logits.detach()[..., -1, :]
        below = torch.amax(row, -1, keepdim=True) - row
        if torch.any((below > SMALL) & (below < CLOSED)):
            logits = _cut().apply(logits)
    return forward(logits, v, signs)[0]


@functools.cache
def _cut():
    import torch

    class Cut(torch.autograd.Function):
        """Logits less the largest of their row, and -1e9 where a weight is below e^-SMALL."""

        @staticmethod
        def forward(_, logits):
            logits = logits - torch.amax(logits, -1, keepdim=True)
            return torch.nn.functional.threshold_(logits, -SMALL, -1e9)

        @staticmethod
        def backward(_, upstream):
            # A softmax sees no shift, and gives cells of no weight no gradient.
            return upstream

    return Cut


def _on_tensorflow(forward, logits, v, signs):
    import tensorflow as tf

    @tf.custom_gradient
    def mixed(logits, v):
        output, held = forward(logits, v, signs)
        return output, lambda upstream: _backward(held, upstream)

    return mixed(logits, v)


def _on_jax(forward, logits, v, signs):
    import jax

    mixed = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
    mixed.defvjp(forward, lambda held, upstream: (*_backward(held, upstream), None))
    return mixed(logits, v, signs)
