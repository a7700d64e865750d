"""Attention dropout whose bits are cheap and known by cell, so that any block drops the same."""

import keras
import numpy as np
from keras import ops

from keras_posenc.one_pass import in_one_pass


def drop_weights(weights, rate, drawn):
    """Drops a share of the weights (B, H, Tq, Tk), the same ones whenever `drawn` is the same.

    Cell (i, j) is kept if the 32-bit product r_i c_j is large enough, r_i and c_j being odd hashes
    of the seed and of the row or column. Two cells of one row, or of one column, are independent,
    and so, as far as tests can see, are any four; it costs two cheap passes over the map where
    counter-based random bits cost as much as the attention itself.

    Args:
        weights: (B, H, Tq, Tk).
        rate: float in (0, 1).
        drawn: two integers, as `SeedGenerator.next()` gives them.

    Returns:
        The weights over 1 - rate, or 0.
    """
    return kept_of(weights * (1 / (1 - rate)), rate, hashes(drawn, *ops.shape(weights)))


def hashes(drawn, batch, heads, rows, columns):
    """(B, H, Tq) hashes of the rows and (1, Tk) of the columns of a whole map, odd int32."""
    drawn = ops.cast(drawn, "int32")
    of_rows = _odd_hash(batch * heads * rows, drawn[0], drawn[1])
    of_rows = ops.reshape(of_rows, (batch, heads, rows))
    return of_rows, _odd_hash(columns, drawn[1], drawn[0] + 1)[None]


def kept_of(weights, rate, hashes):
    """The weights of a map, or of a part of one, with zeros where its hashes say so."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _on_tensorflow(weights, rate, hashes)
    single = keras.backend.standardize_dtype(weights.dtype) == "float32"
    if backend == "torch" and single and rate <= 0.49:
        return _on_torch(weights, rate, hashes)
    return _chosen(weights, rate, *hashes)


def _chosen(weights, rate, of_rows, of_columns):
    bits = _product(of_rows, of_columns)
    return ops.where(bits >= int(rate * 2**32) - 2**31, weights, 0.0)


def _product(of_rows, of_columns):
    return of_rows[..., None] * of_columns[:, None, None]


def _on_tensorflow(weights, rate, hashes):
    """Its gradient chooses by the same bits, formed again: no map of them is kept."""
    import tensorflow as tf

    @tf.custom_gradient
    def kept(weights):
        def chosen(x):
            return in_one_pass(_chosen, x, rate, *hashes)

        return chosen(weights), chosen

    return kept(weights)


def _on_torch(weights, rate, hashes):
    """The gradient of a threshold: what comes in unless an input is at most -x.

    Comparing and choosing are two passes over the map, and slow ones. This kernel does both in one,
    on the product's bits read as a float32. Half of all bits are not negative, and 2^23 of the
    negative ones are no number and count as above.
    """
    import torch

    bound = np.array((0.5 - rate) * 2**32 - 2**23).astype("int32").view("float32")
    bits = _product(*hashes).view(torch.float32)
    return torch.ops.aten.threshold_backward(weights, bits, -float(bound))


def _odd_hash(length, seed, more):
    """(length,) odd int32, hashed from the index and two seeds by multiplying and shifting."""
    x = ops.arange(0, length, dtype="int32") + seed
    for word in (more, 0x2C1B3C6D):
        x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
        x = ops.bitwise_xor(x, ops.right_shift(x, 15)) * 0x46CA68AB
        x = ops.bitwise_xor(x, word)
    x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
    return ops.bitwise_or(ops.bitwise_xor(x, ops.right_shift(x, 15)), 1)
