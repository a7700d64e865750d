"""A range of key columns, for maps whose other columns all hold the same number."""

from keras import ops

from keras_posenc import backend
from keras_posenc.maps.axes import tensors_of, with_tensors
from keras_posenc.maps.grid import AXES


class Columns:
    """A range of adjacent columns of a grid.

    `start`: int, or an int32 scalar. The first column. `width`: int, or on TensorFlow an int32
    scalar. Number of columns, at most all; None for all. `grid`: the grid restricted to these
    columns.
    """

    def __init__(self, grid, start=0, width=None):
        # Where the start is a tensor, torch writes cell by cell.
        self.start = int(start) if backend.TRAITS.values_at_hand else start
        self.width, self.grid = width, grid
        self.num_columns = ops.shape(grid.key_positions)[1]
        if width is None:
            return
        tensors = {}
        for key, x in tensors_of(grid).items():
            axis = AXES[key[0]].columns
            one = axis is None or x.shape[axis] == 1  # a mask may be the same for all columns
            tensors[key] = x if one else self.cut(x, axis)
        self.grid = with_tensors(grid, tensors)

    def cut(self, x, axis=-1):
        """Slices a tensor to these columns along an axis."""
        return x if self.width is None else slice_axis(x, axis, self.start, self.width)

    def put(self, x, before, after=None):
        """Writes x (B, H, Tq, width) into a map (B, H, Tq, Tk) filled with `before` and `after`.

        Both are broadcastable to (B, H, Tq, Tk); `after` defaults to `before`.
        """
        if self.width is None:
            return x
        fill = before if after is None else ops.where(self._index() < self.start, before, after)
        fill = ops.broadcast_to(fill, (*ops.shape(x)[:3], self.num_columns))
        return backend.update_slice(fill, (0, 0, 0, self.start), x)

    def sums_outside(self, weights):
        """Sums the weights (B, H, Tq, Tk) before and after these columns: (B, H, Tq, 2)."""
        index = self._index()
        width = self.num_columns if self.width is None else self.width
        outside = ops.stack([index < self.start, index >= self.start + width], axis=1)
        return ops.matmul(weights, ops.cast(outside, weights.dtype))

    def _index(self):
        return ops.arange(self.num_columns, dtype="int32")


class LastColumns(Columns):
    """The columns of a grid up to the last one that any of its rows can see.

    `width`: int, or on TensorFlow an int32 scalar. Number of columns, at most all. `grid`: the grid
    restricted to these columns. `all`: (B, H or 1, Tq or 1, 1) bool, True where a row sees no
    earlier column.
    """

    def __init__(self, grid, width):
        num_columns = ops.shape(grid.key_positions)[1]
        index = ops.arange(num_columns, dtype="int32")
        mask = grid.mask()
        if mask is None:
            start = num_columns - width
            before = ops.reshape(index < start, (1, 1, 1, -1))
        else:
            # One axis: over several Keras 3.11 fails on torch.
            used = ops.any(ops.reshape(mask, (-1, num_columns)), axis=0)
            end = ops.max(ops.where(used, index + 1, 0))
            start = ops.maximum(end - width, 0)
            before = ops.logical_and(mask, index < start)
        self.all = ops.logical_not(ops.any(before, axis=-1, keepdims=True))
        super().__init__(grid, start, width)


def slice_axis(x, axis, start, size):
    """Slices along one axis, with a gradient that is faster on TensorFlow than that of x[a:b]."""
    axis %= len(x.shape)
    if backend.TRAITS.eager and ops.is_tensor(start):  # PyTorch would read it on the host
        return backend.take(x, start + ops.arange(size, dtype="int32"), axis)
    shape = ops.shape(x)
    first = [0] * len(shape)
    first[axis] = start
    return ops.slice(x, first, (*shape[:axis], size, *shape[axis + 1 :]))


def band(grid, reach):
    """The columns of a grid within a distance of any of its rows, as `Columns`.

    These are all columns if position ids are not indices, and may skip positions. An export has all
    rows at once, which reach all columns. `reach`: int. The distance, to either side.
    """
    num_rows, num_columns = ops.shape(grid.query_positions)[1], ops.shape(grid.key_positions)[1]
    if not grid.ids_are_indices or backend.is_exporting():
        return Columns(grid)
    width = num_rows + 2 * reach
    if isinstance(width, int) and isinstance(num_columns, int):
        if width >= num_columns:
            return Columns(grid)
    else:
        width = ops.minimum(width, num_columns)
    start = grid.first_distance() - reach
    return Columns(grid, ops.clip(start, 0, num_columns - width), width)
