"""A part of the columns of a map, where all others are alike."""

from keras import ops

from keras_posenc import backend
from keras_posenc.maps.grid import AXES


class Columns:
    """Adjacent columns of a grid.

    Args:
        grid: `Grid`.
        start: int, or an int32 scalar. The first of them.
        width: int, or on TensorFlow an int32 scalar. How many, at most all.

    Attributes:
        grid: the grid of these columns alone.
    """

    def __init__(self, grid, start, width):
        # Where the start is a tensor, torch writes cell by cell.
        self.start = int(start) if backend.TRAITS.values_at_hand else start
        self.width = width
        self.columns = ops.shape(grid.columns)[1]
        tensors = {}
        for key, x in grid.tensors().items():
            axis = AXES[key[0]][1]
            one = axis is None or x.shape[axis] == 1  # a mask may be the same for all columns
            tensors[key] = x if one else self.cut(x, axis)
        self.grid = grid.with_tensors(tensors)

    def cut(self, x, axis=-1):
        """The part of a tensor that belongs to these columns."""
        return slice_axis(x, axis, self.start, self.width)

    def put(self, x, before, after=None):
        """(B, H, Tq, Tk): x (B, H, Tq, width) in its columns, `before` and `after` beside it.

        Both are broadcastable to (B, H, Tq, Tk); `after` is as `before` if not given.
        """
        if isinstance(self.width, int) and self.width == self.columns:
            return x
        fill = before if after is None else ops.where(self._index() < self.start, before, after)
        fill = ops.broadcast_to(fill, (*ops.shape(x)[:3], self.columns))
        return backend.update_slice(fill, (0, 0, 0, self.start), x)

    def sums_beside(self, weights):
        """(B, H, Tq, 2): the weights (B, H, Tq, Tk) before and after these columns, summed."""
        index = self._index()
        beside = ops.stack([index < self.start, index >= self.start + self.width], axis=1)
        return ops.matmul(weights, ops.cast(beside, weights.dtype))

    def _index(self):
        return ops.arange(self.columns, dtype="int32")


class LastColumns(Columns):
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


def slice_axis(x, axis, start, size):
    """A slice along one axis. The gradient of one by brackets is slow on TensorFlow."""
    axis %= len(x.shape)
    shape = ops.shape(x)
    first = [0] * len(shape)
    first[axis] = start
    return ops.slice(x, first, (*shape[:axis], size, *shape[axis + 1 :]))


def band(grid, reach):
    """The columns of a grid that may be within a distance of one of its rows, as `Columns`.

    All columns, where rows and columns may skip positions.

    Args:
        grid: `Grid`.
        reach: int. The distance, to either side.
    """
    rows, columns = ops.shape(grid.rows)[1], ops.shape(grid.columns)[1]
    if not grid.ids_are_indices:
        return Columns(grid, 0, columns)
    width = rows + 2 * reach
    if isinstance(width, int) and isinstance(columns, int):
        if width >= columns:
            return Columns(grid, 0, columns)
    else:
        width = ops.minimum(width, columns)
    start = grid.rows[0, 0] - grid.columns[0, 0] - reach
    return Columns(grid, ops.clip(start, 0, columns - width), width)
