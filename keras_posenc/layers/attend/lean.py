"""Softmax attention by the map, for encodings that leave its scores and weights alone."""

import keras
from keras import ops

from keras_posenc.layers.attend.dropout import kept_of
from keras_posenc.layers.attend.explicit import close, holding, logits_of, softmax


def attend_leanly(q, k, v, grid, scale, encodings, bias, dropout, signs):
    """The output of `attend_cells`, with fewer passes over the map."""
    grid = holding(grid, q, k, v)
    logits = close(logits_of(q, k, grid, scale, encodings, bias), grid.open())
    v = v * ops.cast(1 / (1 - dropout), v.dtype) if dropout else v
    if keras.backend.backend() == "tensorflow":
        return _mix_on_tensorflow(logits, v, dropout, signs)
    weights = softmax(logits)
    used = kept_of(weights, dropout, signs) if dropout else weights
    return ops.einsum("bhqk,bkhd->bqhd", ops.cast(used, v.dtype), v)


def _mix_on_tensorflow(logits, v, dropout, signs):
    """The mean of the values, with a backward pass that reads the map three times and not six.

    With the weights p, those in use u (p or 0) and the output o = u v, the gradients for g are
    u^T g of the values and u (g v^T) - p sum(o g) of the logits.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def mixed(logits, v):
        weights = softmax(logits)
        used = kept_of(weights, dropout, signs) if dropout else weights
        output = tf.matmul(tf.cast(used, v.dtype), v)

        def gradients(upstream):
            of_v = tf.matmul(tf.cast(used, v.dtype), upstream, transpose_a=True)
            of_used = tf.cast(tf.matmul(upstream, v, transpose_b=True), weights.dtype)
            shared = tf.cast(output, weights.dtype) * tf.cast(upstream, weights.dtype)
            shared = tf.reduce_sum(shared, axis=-1, keepdims=True)
            return used * of_used - weights * shared, of_v

        return output, gradients

    return tf.transpose(mixed(logits, tf.transpose(v, (0, 2, 1, 3))), (0, 2, 1, 3))
