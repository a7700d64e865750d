"""Numbers of a row by their index, or by a place between two indices."""

import math

import keras
from keras import ops

from keras_posenc.encodings.columns import part
from keras_posenc.one_pass import in_one_pass


def looked_up(table, index):
    """The numbers of a table (..., C) at the index (..., Tk), integers from 0 to C - 1.

    `keras.ops.take_along_axis` asks of every index again whether it is within.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax.numpy as jnp

        return jnp.take_along_axis(table, index, axis=-1, mode="promise_in_bounds")
    if backend == "torch":
        index = index.long()  # before it is spread, which takes no memory
    outer = ops.shape(table)[:-1]
    index = ops.broadcast_to(index, (*outer, ops.shape(index)[-1]))
    if backend == "torch":
        import torch

        return torch.gather(table, -1, index)
    return _on_tensorflow(table, index)


def _on_tensorflow(table, index):
    import tensorflow as tf

    index = index + _firsts(table)

    @tf.custom_gradient
    def gathered(table):
        found = _numbers(tf.reshape(table, [-1]), index)

        def gradient(upstream):
            sums = tf.math.unsorted_segment_sum(upstream, index, tf.size(table))
            return tf.reshape(sums, tf.shape(table))

        return found, gradient

    return gathered(table)


def _numbers(flat, index):
    """By index in the flattened table: `tf.gather` takes four times as long on a CPU."""
    import tensorflow as tf

    return tf.gather_nd(flat, index[..., None])


def _firsts(table):
    """(..., 1) int32: where each row of a table begins in the flattened one."""
    *outer, columns = ops.shape(table)
    return columns * ops.reshape(ops.arange(math.prod(outer), dtype="int32"), (*outer, 1))


def interpolated(table, position, compiled=False):
    """A table (..., P), at positions (..., Tk) of at least 0 between its columns; the last P - 1.

    The last position is one step past the last but one, so that what led there has a gradient.
    `compiled` allows TensorFlow to compile a program for these sizes.
    """
    if compiled and keras.backend.backend() == "tensorflow":
        return _interpolated_on_tensorflow(table, position)
    index, share = _place(position, table.shape[-1])
    steps = part(table, -1, 1, table.shape[-1] - 1) - part(table, -1, 0, table.shape[-1] - 1)
    return looked_up(table, index) + share * looked_up(steps, index)


def _place(position, columns):
    """The index before a position, and the share of the one after it."""
    lower = ops.floor(ops.minimum(ops.stop_gradient(position), columns - 2))
    index = ops.maximum(ops.cast(lower, "int32"), 0)  # also where it is not a number
    return index, ops.hard_tanh(position - lower)  # at most 1: one kernel forward, one backward


def _interpolated_on_tensorflow(table, position):
    """Each way in one pass, but for the sums by index, which XLA would add up one by one."""
    import tensorflow as tf

    columns, first = table.shape[-1], _firsts(table)

    @tf.custom_gradient
    def found(table, position):
        given = tf.reshape(table, [-1]), first, position, columns

        def gradient(upstream):
            index, of_lower, of_upper, of_position = in_one_pass(_gradients, upstream, *given)
            sums = tf.math.unsorted_segment_sum(of_lower, index, tf.size(table))
            sums += tf.math.unsorted_segment_sum(of_upper, index + 1, tf.size(table))
            return tf.reshape(sums, tf.shape(table)), of_position

        return in_one_pass(_between, *given), gradient

    return found(table, position)


def _between(flat, first, position, columns):
    _, lower, step, share = _met(flat, first, position, columns)
    return lower + share * step


def _gradients(upstream, flat, first, position, columns):
    """The index, and the gradients of the two numbers there and of the position."""
    index, _, step, share = _met(flat, first, position, columns)
    of_upper = upstream * share
    of_position = ops.where(position <= columns - 1, upstream * step, 0.0)
    return index, upstream - of_upper, of_upper, of_position


def _met(flat, first, position, columns):
    """The index in the flattened table, the number there, the step to the next, and its share."""
    index, share = _place(position, columns)
    index = first + index
    lower = _numbers(flat, index)
    return index, lower, _numbers(flat, index + 1) - lower, share
