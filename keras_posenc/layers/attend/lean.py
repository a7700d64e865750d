"""Softmax attention by the map, for encodings that leave its weights alone."""

import functools

import keras
from keras import ops

from keras_posenc.layers.attend.dropout import kept_of
from keras_posenc.layers.attend.explicit import close, logits_of, softmax
from keras_posenc.layers.attend.loops import KEPT
from keras_posenc.one_pass import in_one_pass

# Weights of e^-69 are 1e-30: their products with gradients of 1e-8 are numbers as any others.
SMALL = 69.0
# Closed cells are about 1e9 below.
CLOSED = 1e8


def attend_leanly(q, k, v, grid, scale, encodings, bias, dropout, signs, found=None):
    """The output of `attend_cells`, with fewer passes over the map.

    With the weights p, those in use u (p or 0) and the output o = u v, the gradients for g are
    u^T g of the values and u (g v^T) - p sum(o g) of the logits. Left to themselves, TensorFlow and
    JAX find the sum from the map: on TensorFlow that takes six passes in place of one, on JAX a
    third of the whole time. torch has a kernel for it.

    Args:
        found: the output, where TensorFlow wants its gradient only. JAX keeps it by its name.
    """
    logits = close(logits_of(q, k, grid, scale, encodings, bias), grid.open())
    v = v * ops.cast(1 / (1 - dropout), v.dtype) if dropout else v
    mixed = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}
    return mixed[keras.backend.backend()](logits, v, dropout, signs, found)


def _output(weights, v, dropout, signs):
    used = kept_of(weights, dropout, signs) if dropout else weights
    return ops.matmul(ops.cast(used, v.dtype), _turned(v))


def _gradients(weights, output, v, upstream, dropout, signs):
    """Those of the logits and of the values."""
    of_used = ops.matmul(upstream, v)
    shared = ops.cast(output, weights.dtype) * ops.cast(upstream, weights.dtype)
    shared = ops.sum(shared, axis=-1, keepdims=True)
    if dropout:
        used, of_logits = in_one_pass(_over_map, weights, of_used, shared, dropout, *signs)
    else:
        used = ops.cast(weights, v.dtype)
        of_logits = in_one_pass(_over_whole_map, weights, of_used, shared)
    return of_logits, ops.einsum("bhqd,bhqk->bhdk", upstream, used)


def _over_map(weights, of_used, shared, dropout, *signs):
    """The weights in use, and the gradient of the logits."""
    used = kept_of(weights, dropout, signs)
    of_logits = used * ops.cast(of_used, weights.dtype) - weights * shared
    return ops.cast(used, of_used.dtype), of_logits


def _over_whole_map(weights, of_used, shared):
    return weights * (ops.cast(of_used, weights.dtype) - shared)


def _turned(x):
    return ops.swapaxes(x, -1, -2)


def _on_torch(logits, v, dropout, signs, _):
    import torch

    # On a CPU, products with numbers below 1e-38 take five times as long. Weights of 0 in place of
    # them change nothing. That a map has such weights is told by the last of its rows.
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        row = logits.detach()[..., -1, :]
        below = torch.amax(row, -1, keepdim=True) - row
        if torch.any((below > SMALL) & (below < CLOSED)):
            logits = _cut().apply(logits)
    return _output(softmax(logits), v, dropout, signs)


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


def _on_tensorflow(logits, v, dropout, signs, found):
    import tensorflow as tf

    @tf.custom_gradient
    def mixed(logits, v):
        weights = softmax(logits)
        output = _output(weights, v, dropout, signs) if found is None else found
        return output, lambda upstream: _gradients(weights, output, v, upstream, dropout, signs)

    return mixed(logits, v)


def _on_jax(logits, v, dropout, signs, _):
    import jax
    from jax.ad_checkpoint import checkpoint_name

    def forward(logits, v, signs):
        below = logits - ops.max(logits, axis=-1, keepdims=True)
        above = ops.exp(below)
        total = ops.sum(above, axis=-1, keepdims=True)
        output = checkpoint_name(_output(above / total, v, dropout, signs), KEPT)
        # Where the total is known this is one pass with the product before it.
        weights = ops.exp(below - checkpoint_name(ops.log(total), KEPT))
        return output, (weights, output, v, signs)

    def backward(held, upstream):
        weights, output, v, signs = held
        return *_gradients(weights, output, v, upstream, dropout, signs), None

    mixed = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
    mixed.defvjp(forward, backward)
    return mixed(logits, v, signs)
