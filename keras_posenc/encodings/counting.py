"""Sums over the way from a key to its query, and where they stop to matter."""

import keras
from keras import ops

from keras_posenc.grid import AXES


def sum_from_right(x):
    """out[..., j] = x[..., j] + x[..., j + 1] + ...; a difference of two sums would round more."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.cumsum(x, axis=-1, reverse=True)
    return ops.flip(ops.cumsum(ops.flip(x, axis=-1), axis=-1), axis=-1)


def interpolated(scores, position):
    """The scores (..., P) of the integers, at positions (..., Tk) of at least 0, the last P - 1."""
    # The last position is one step past the last but one, so that its gate has a gradient.
    lower = ops.floor(ops.minimum(ops.stop_gradient(position), scores.shape[-1] - 2))
    score, step = _at(lower, scores, scores[..., 1:] - scores[..., :-1])
    part = ops.hard_tanh(position - lower)  # at most 1: one kernel forward, one backward
    return score + part * step


def _at(index, *tables):
    """Each table (..., P) at the float index (..., Tk), within it or not a number: then row 0.

    `keras.ops.take_along_axis` asks of every index again whether it is within.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        index = index.long().clamp_(min=0)
        return [torch.gather(table, -1, index) for table in tables]
    index = ops.maximum(ops.cast(index, "int32"), 0)
    if backend == "jax":
        import jax.numpy as jnp

        mode = "promise_in_bounds"
        return [jnp.take_along_axis(table, index, axis=-1, mode=mode) for table in tables]
    import tensorflow as tf

    return [tf.gather(table, index, batch_dims=len(table.shape) - 1) for table in tables]


class Near:
    """The columns of a grid that end where the last open cell of all its rows is.

    Args:
        grid: `Grid`.
        width: int, at most the number of columns.

    Attributes:
        grid: the grid of these columns alone.
        all: (B, H or 1, Tq or 1, 1) bool, True where a row has no open cell before them.
    """

    def __init__(self, grid, width):
        self.width = width
        self.columns = ops.shape(grid.columns)[1]
        index = ops.arange(self.columns, dtype="int32")
        cells = grid.open()
        if cells is None:
            self.start = self.columns - width
            before = ops.reshape(index < self.start, (1, 1, 1, -1))
        else:
            # One axis: over several Keras 3.11 fails on torch.
            used = ops.any(ops.reshape(cells, (-1, self.columns)), axis=0)
            end = ops.max(ops.where(used, index + 1, 0))
            self.start = ops.maximum(end - width, 0)
            if keras.backend.backend() == "torch":
                # Where the start is a tensor, torch writes cell by cell.
                self.start = int(self.start)
            before = ops.logical_and(cells, index < self.start)
        self.all = ops.logical_not(ops.any(before, axis=-1, keepdims=True))
        held = {}
        for key, x in grid.held().items():
            axis = AXES[key[0]][1]
            one = axis is None or x.shape[axis] == 1  # a mask may be the same for all columns
            held[key] = x if one else self.cut(x, axis)
        self.grid = grid.holding(held)

    def cut(self, x, axis=-1):
        """The part of a tensor that belongs to these columns."""
        axis %= len(x.shape)
        shape = ops.shape(x)
        start = [0] * len(shape)
        start[axis] = self.start
        return ops.slice(x, start, (*shape[:axis], self.width, *shape[axis + 1 :]))

    def put(self, x, other):
        """(B, H, Tq, Tk): x (B, H, Tq, width) in its columns, `other` (B, H, Tq, 1) elsewhere."""
        whole = ops.broadcast_to(other, (*ops.shape(x)[:3], self.columns))
        return ops.slice_update(whole, (0, 0, 0, self.start), x)
