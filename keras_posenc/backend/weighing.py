"""Attention weights: masked logits, dropout by hash, and gradients in few passes over the map."""

import math

from keras import ops

from keras_posenc.backend.head_groups import heads_of_groups, rows_of_groups

# The logit of what cannot be chosen: its probability is 0, and its loss a finite number.
CLOSED = -1e9


def softmax(logits):
    """The weights of each row. Of a single key it is 1, and Keras warns about such a softmax."""
    return ops.ones_like(logits) if logits.shape[-1] == 1 else ops.softmax(logits, axis=-1)


def close(logits, mask):
    """Closes cells by a finite -1e9: a row with none open is uniform on every backend, not NaN,
    until attention makes it zero.

    Chosen, not added: any value in a masked position is gone.
    """
    return ops.where(mask, logits, CLOSED)


def ceiling_of(mask):
    """The most that logits may be, or None where all cells are open.

    Their minimum with it is `close`, in the pass of XLA that computes their product. It needs no
    pass for its gradient: a softmax gives the weights of 0 in masked positions none.
    """
    if mask is None:
        return None
    # float32 as the logits are, whatever `keras.config.floatx()` is.
    return ops.where(mask, ops.cast(math.inf, "float32"), ops.cast(CLOSED, "float32"))


def bits_of(hashes):
    """(B, H, Tq, Tk) int32: the product of the hashes (B, H, Tq) of rows and (1, Tk) of columns."""
    of_rows, of_columns = hashes
    return of_rows[..., None] * of_columns[:, None, None]


def kept(rate, bits):
    """The cells of a map, or of a part of one, that the products of its hashes do not drop."""
    return bits >= int(rate * 2**32) - 2**31


def keep_by_hash(weights, rate, hashes):
    """Zeroes the weights of the cells that are not `kept`."""
    return ops.where(kept(rate, bits_of(hashes)), weights, 0.0)


def weighed(weights, v):
    """The output (B, H, Tq, Dv) of weights (B, H, Tq, Tk) and values (B, H / G, Dv, Tk)."""
    output = ops.matmul(rows_of_groups(weights, v.shape[1]), ops.swapaxes(v, -1, -2))
    return heads_of_groups(output, weights.shape[1])


def gradients(weights, output, v, upstream, dropout, hashes, one_pass):
    """Gradients of the logits and of the values (B, H / G, Dv, Tk), in few passes over the matrix.

    Let p be the weights, u the weights after dropout (p or 0), o = u v the output and g its
    gradient. The gradient of the values is u^T g, and that of the logits is u (g v^T) - p sum(o g).
    By default TensorFlow and JAX compute the sum from the whole matrix. On TensorFlow that takes
    six passes instead of one, and on JAX a third of the time. PyTorch has a kernel for it.
    """
    heads, key_heads = weights.shape[1], v.shape[1]
    by_group = rows_of_groups(upstream, key_heads)
    of_used = heads_of_groups(ops.matmul(by_group, v), heads)
    shared = ops.cast(output, weights.dtype) * ops.cast(upstream, weights.dtype)
    shared = ops.sum(shared, axis=-1, keepdims=True)
    if dropout:
        used, of_logits = one_pass(over_map, weights, of_used, shared, dropout, *hashes)
    else:
        used = ops.cast(weights, v.dtype)
        of_logits = one_pass(over_whole_map, weights, of_used, shared)
    return of_logits, ops.einsum("bhqd,bhqk->bhdk", by_group, rows_of_groups(used, key_heads))


def over_map(weights, of_used, shared, dropout, *hashes):
    """The weights in use, and the gradient of the logits."""
    used = keep_by_hash(weights, dropout, hashes)
    of_logits = used * ops.cast(of_used, weights.dtype) - weights * shared
    return ops.cast(used, of_used.dtype), of_logits


def over_whole_map(weights, of_used, shared):
    """The gradient of the logits, where all weights are in use."""
    return weights * (ops.cast(of_used, weights.dtype) - shared)
