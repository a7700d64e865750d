"""What depends on the distance alone, laid along the diagonals of a map.

Where rows and columns stand side by side, a map of Tq rows and Tk columns has Tq + Tk - 1
diagonals, one distance each (here Tq + Tk, the last of which no cell lies on). What a distance
says is computed once, and moved into place by a change of shape, or on TensorFlow by pieces.
"""

from keras import ops

from keras_posenc import backend
from keras_posenc.maps.columns import slice_axis

# Numbers that are written at a time, where maps are written in pieces: a cache line of them.
PIECE = 16


def all_distances(grid):
    """(2M,) int32: the distances M - 1 .. -M between M positions side by side, or None.

    None where ids are given, of which two may be any distance apart, and for a few rows of a cache,
    which meet few distances.
    """
    rows, columns = ops.shape(grid.rows)[1], ops.shape(grid.columns)[1]
    known = isinstance(rows, int) and isinstance(columns, int)
    if not grid.ids_are_indices or (known and 2 * rows < columns):
        return None
    longest = max(rows, columns) if known else ops.maximum(rows, columns)
    return longest - 1 - ops.arange(2 * longest, dtype="int32")


def at_distances(table, distance):
    """What a table by `all_distances` (2M, ...) has for some distances, of any shape."""
    last = ops.shape(table)[0] - 1
    # Beyond the table are rows that fill up a block.
    return ops.take(table, ops.clip(last // 2 - distance, 0, last), axis=0)


def diagonal_distances(grid):
    """(Tq + Tk,) int32: the distance of each diagonal, from the lower left corner on."""
    rows, columns = ops.shape(grid.rows)[1], ops.shape(grid.columns)[1]
    first = grid.rows[0, 0] - grid.columns[0, 0]
    return first + rows - 1 - ops.arange(rows + columns, dtype="int32")


def map_of_table(table, grid):
    """(B or 1, H, Tq, Tk): the numbers of a table by `all_distances` (2M, H), each in its cells."""
    return map_of_distances(lambda d: ops.moveaxis(at_distances(table, d), -1, 1), grid)


def map_of_distances(function, grid):
    """(B, H, Tq, Tk): what a function makes of the distances.

    Args:
        function: of distances (B, ...), returns (B, H, ...).
        grid: `Grid`.
    """
    if not grid.ids_are_indices:
        return function(grid.distance())
    line = function(diagonal_distances(grid)[None])
    batch, heads, count = ops.shape(line)
    rows = ops.shape(grid.rows)[1]
    if backend.TRAITS.diagonals_in_pieces:
        return map_of_line(line, rows, count - rows)
    return map_of_diagonals(ops.broadcast_to(line[:, :, None], (batch, heads, rows, count)))


def map_of_diagonals(x):
    """(B, H, Tq, Tk): cell (i, j) gets what row i of x (B, H, Tq, Tq + Tk) has for its diagonal."""
    batch, heads, rows, count = ops.shape(x)
    x = ops.reshape(x, (batch, heads, rows * count))
    x = ops.slice(x, (0, 0, rows - 1), (batch, heads, rows * (count - 1)))
    # In rows that are one shorter, what is next in a row is next in a column too.
    x = ops.reshape(x, (batch, heads, rows, count - 1))
    return ops.slice(x, (0, 0, 0, 0), (batch, heads, rows, count - rows))


def map_of_line(line, rows, columns):
    """`map_of_diagonals` of the same line (B, H, Tq + Tk) for each row, in pieces.

    TensorFlow writes the map once so, and three times by changes of shape. A row of the map is a
    part of the line: pieces side by side of the line, or of one moved by less than a piece.
    """
    batch, heads, count = ops.shape(line)
    wide = (columns + PIECE - 1) // PIECE
    span = (rows - 1) // PIECE + wide
    first = rows - 1 - ops.arange(rows, dtype="int32")[:, None]
    index = first % PIECE * span + first // PIECE + ops.arange(wide, dtype="int32")
    filled = isinstance(columns, int) and columns % PIECE == 0

    @ops.custom_gradient
    def laid(line):
        line = ops.pad(line, [(0, 0), (0, 0), (0, 2 * PIECE)])
        moved = [slice_axis(line, -1, start, span * PIECE) for start in range(PIECE)]
        pieces = ops.reshape(ops.stack(moved, axis=2), (batch * heads, PIECE * span, PIECE))
        cells = ops.reshape(ops.take(pieces, index, axis=1), (batch, heads, rows, wide * PIECE))

        def gradient(upstream):
            upstream = ops.pad(upstream, [(0, 0), (0, 0), (0, 0), (0, rows - 1)])
            upstream = ops.reshape(upstream, (batch, heads, rows * (count - 1)))
            upstream = ops.pad(upstream, [(0, 0), (0, 0), (rows - 1, 1)])
            return ops.sum(ops.reshape(upstream, (batch, heads, rows, count)), axis=2)

        return cells if filled else slice_axis(cells, -1, 0, columns), gradient

    return laid(line)
