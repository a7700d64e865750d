"""Sums over the way from a key to its query, and where they stop to matter."""

import keras
from keras import ops

from keras_posenc.device import on_accelerator
from keras_posenc.encodings.columns import Columns


def sum_from_right(x):
    """out[..., j] = x[..., j] + x[..., j + 1] + ...; a difference of two sums would round more."""
    if keras.backend.backend() == "torch" or on_accelerator(x):
        return _one_by_one(x, from_right=True)

    # Left to themselves, backends take four passes for the gradient.
    @ops.custom_gradient
    def summed(x):
        return _by_chunks(x, from_right=True), lambda upstream: _by_chunks(upstream, False)

    return summed(x)


def _one_by_one(x, from_right):
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.cumsum(x, axis=-1, reverse=from_right)
    return ops.flip(ops.cumsum(ops.flip(x, -1), -1), -1) if from_right else ops.cumsum(x, -1)


def _by_chunks(x, from_right):
    """Sums within chunks as products with a triangle of ones, and those of whole chunks beyond.

    On a CPU TensorFlow and XLA take 4 to 15 ns a number to add up one by one, and 1 to 2 so; for a
    prime width there are no chunks. On accelerators a product may round its factors.
    """
    *outer, width = ops.shape(x)
    size = _chunk(width)
    index = ops.arange(size, dtype="int32")
    earlier = index[:, None] >= index if from_right else index[:, None] <= index
    chunks = ops.reshape(x, (*outer, width // size, size))
    within = ops.matmul(chunks, ops.cast(earlier, x.dtype))
    beyond = _one_by_one(ops.sum(chunks, axis=-1), from_right)
    # Without the chunk itself.
    beyond = beyond[..., 1:] if from_right else beyond[..., :-1]
    sides = (0, 1) if from_right else (1, 0)
    beyond = ops.pad(beyond, [*[(0, 0)] * len(outer), sides])
    return ops.reshape(within + beyond[..., None], (*outer, width))


def _chunk(width):
    """The largest divisor of a width, an int or a scalar tensor, up to 64."""
    if isinstance(width, int):
        return max(size for size in range(1, 65) if width % size == 0)
    sizes = ops.arange(1, 65, dtype="int32")
    return ops.max(ops.where(width % sizes == 0, sizes, 1))


class Near(Columns):
    """The columns of a grid that end where the last open cell of all its rows is.

    Args:
        grid: `Grid`.
        width: int, or on TensorFlow an int32 scalar. How many, at most all.

    Attributes:
        grid: the grid of these columns alone.
        all: (B, H or 1, Tq or 1, 1) bool, True where a row has no open cell before them.
    """

    def __init__(self, grid, width):
        columns = ops.shape(grid.columns)[1]
        index = ops.arange(columns, dtype="int32")
        cells = grid.open()
        if cells is None:
            start = columns - width
            before = ops.reshape(index < start, (1, 1, 1, -1))
        else:
            # One axis: over several Keras 3.11 fails on torch.
            used = ops.any(ops.reshape(cells, (-1, columns)), axis=0)
            end = ops.max(ops.where(used, index + 1, 0))
            start = ops.maximum(end - width, 0)
            before = ops.logical_and(cells, index < start)
        self.all = ops.logical_not(ops.any(before, axis=-1, keepdims=True))
        super().__init__(grid, start, width)


def either(condition, usual, other):
    """usual() or other(), of one shape.

    TensorFlow 2.21 cannot run a choice of branches in a loop, as its optimizer of graphs fails. It
    can run a loop of no or one turn.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.cond(condition, usual, other)
    import tensorflow as tf

    turns = ops.cast(ops.logical_not(condition), "int32")
    _, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, _: (turn + 1, other()),
        (0, usual()),
        maximum_iterations=1,
    )
    return result
