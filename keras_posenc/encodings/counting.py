"""Sums over the way from a key to its query, and where they stop to matter."""

from keras import ops

from keras_posenc.grid import AXES


def sum_from_right(x):
    """out[..., j] = x[..., j] + x[..., j + 1] + ...; a difference of two sums would round more."""
    return ops.flip(ops.cumsum(ops.flip(x, axis=-1), axis=-1), axis=-1)


def interpolated(scores, position):
    """The scores (..., P) of the integers, at positions (..., Tk) between 0 and P - 1."""
    steps = scores[..., 1:] - scores[..., :-1]
    # The last position is one step past the last but one, so that its gate has a gradient.
    lower = ops.floor(ops.minimum(position, scores.shape[-1] - 2))
    index = ops.cast(lower, "int32")
    step = ops.take_along_axis(steps, index, axis=-1)
    return ops.take_along_axis(scores, index, axis=-1) + (position - lower) * step


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

    def put(self, x):
        """(B, H, Tq, Tk): x (B, H, Tq, width) in its columns, 0 in the others."""
        zeros = ops.zeros((*ops.shape(x)[:3], self.columns), x.dtype)
        return ops.slice_update(zeros, (0, 0, 0, self.start), x)
