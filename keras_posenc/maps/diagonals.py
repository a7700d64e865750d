"""Maps that depend on the distance alone, filled diagonal by diagonal.

Where position ids are consecutive, a map of Tq rows and Tk columns has Tq + Tk - 1 diagonals, each
with one distance. Here there are Tq + Tk, and the last has no cell. The number of each distance is
computed once and copied into its diagonal: by reshaping, on TensorFlow in pieces, and on a TPU by
slices.
"""

from keras import ops

from keras_posenc import backend
from keras_posenc.maps.columns import slice_axis

# Numbers that are written at a time, where maps are written in pieces: a cache line of them.
PIECE = 16
# Rows that a TPU stores together.
SUBLANES = 8


def all_distances(grid):
    """The distances M - 1 .. -M between M consecutive positions, (2M,) int32, or None.

    None if position ids are given, which may be any distance apart, and for a few query rows with a
    cache, which have few distances.
    """
    num_rows, num_columns = ops.shape(grid.query_positions)[1], ops.shape(grid.key_positions)[1]
    known = isinstance(num_rows, int) and isinstance(num_columns, int)
    if not grid.ids_are_indices or (known and 2 * num_rows < num_columns):
        return None
    # Of sizes of an export on torch, a tensor would be a constant.
    tensors = ops.is_tensor(num_rows) or ops.is_tensor(num_columns)
    longest = (ops.maximum if tensors else max)(num_rows, num_columns)
    return longest - 1 - ops.arange(2 * longest, dtype="int32")


def at_distances(table, distance):
    """Looks up distances of any shape in a table (2M, ...) over `all_distances`."""
    last = ops.shape(table)[0] - 1
    # Beyond the table are rows that fill up a block.
    return backend.take(table, backend.clip(last // 2 - distance, 0, last), 0)


def diagonal_distances(grid):
    """The distance of each diagonal from the lower left corner on, (Tq + Tk,) int32."""
    num_rows, num_columns = ops.shape(grid.query_positions)[1], ops.shape(grid.key_positions)[1]
    return grid.first_distance() + num_rows - 1 - ops.arange(num_rows + num_columns, dtype="int32")


def transposed_distances(grid):
    """`diagonal_distances` of the transposed map, a row for each key: still query minus key."""
    num_rows, num_columns = ops.shape(grid.query_positions)[1], ops.shape(grid.key_positions)[1]
    first = grid.first_distance() - num_columns + 1
    return first + ops.arange(num_rows + num_columns, dtype="int32")


def prefers_diagonals(grid):
    """Whether a term that differs by row and distance is one product for each row and diagonal.

    On a TPU, a look-up for each cell compares it with each column of the table: 2,310 selections
    for each cell of a training step of DeBERTa.
    """
    return grid.ids_are_indices and backend.platform(grid.query_positions) == "tpu"


def map_of_table(table, grid):
    """The map (B or 1, H, Tq, Tk) of a table (2M, H) over `all_distances`."""
    return map_of_distances(lambda d: ops.moveaxis(at_distances(table, d), -1, 1), grid)


def map_of_distances(function, grid):
    """The map (B, H, Tq, Tk) of a function of the distance.

    `function`: distances (B, ...) -> (B, H, ...).
    """
    if not grid.ids_are_indices:
        return function(grid.distance())
    line = function(diagonal_distances(grid)[None])
    batch, heads, count = ops.shape(line)
    num_rows = ops.shape(grid.query_positions)[1]
    if backend.TRAITS.diagonals_in_pieces:
        return map_of_line(line, num_rows, count - num_rows)
    if backend.platform(line) == "tpu":
        return map_of_slices(line, num_rows, count - num_rows)
    return map_of_diagonals(ops.broadcast_to(line[:, :, None], (batch, heads, num_rows, count)))


def map_of_diagonals(x):
    """The map (B, H, Tq, Tk) whose cell (i, j) is the number of its diagonal in row i of x.

    `x`: (B, H, Tq, Tq + Tk), one number for each diagonal.
    """
    batch, heads, num_rows, count = ops.shape(x)
    if backend.is_exporting("saved_model"):  # which cannot compare products of free sizes
        places = num_rows - 1 - ops.arange(num_rows, dtype="int32")[:, None]
        places += ops.arange(count - num_rows, dtype="int32")
        return ops.take_along_axis(x, places[None, None], axis=-1)
    x = ops.reshape(x, (batch, heads, num_rows * count))
    x = ops.slice(x, (0, 0, num_rows - 1), (batch, heads, num_rows * (count - 1)))
    # In rows that are one shorter, what is next in a row is next in a column too.
    x = ops.reshape(x, (batch, heads, num_rows, count - 1))
    return ops.slice(x, (0, 0, 0, 0), (batch, heads, num_rows, count - num_rows))


def map_of_slices(line, num_rows, num_columns):
    """`map_of_diagonals` with one line (B, H, Tq + Tk) for all rows, as slices of eight rows.

    On a TPU each row shorter by one column, as reshaping makes them, is a row stored elsewhere:
    that costs ten times as much. Here eight rows are shifted against each other once, and the map
    is those, shifted by eight columns for each eight rows.
    """
    missing = -num_rows % SUBLANES
    filled = num_rows + missing
    line = backend.pad(line, [(0, 0), (0, 0), (missing, 0)])
    width = filled + num_columns - SUBLANES
    shifts = range(SUBLANES - 1, -1, -1)
    rows = ops.stack([slice_axis(line, -1, shift, width) for shift in shifts], axis=2)
    starts = range(filled - SUBLANES, -1, -SUBLANES)
    whole = ops.concatenate([slice_axis(rows, -1, i, num_columns) for i in starts], axis=2)
    return slice_axis(whole, 2, 0, num_rows) if missing else whole


def map_of_line(line, num_rows, num_columns):
    """`map_of_diagonals` with one line (B, H, Tq + Tk) for all rows, copied in pieces.

    TensorFlow then writes the map once, and by reshaping three times. A row of the map is a slice
    of the line: adjacent pieces of the line, or of the line shifted by less than a piece.
    """
    batch, heads, count = ops.shape(line)
    wide = (num_columns + PIECE - 1) // PIECE
    span = (num_rows - 1) // PIECE + wide
    first = num_rows - 1 - ops.arange(num_rows, dtype="int32")[:, None]
    index = first % PIECE * span + first // PIECE + ops.arange(wide, dtype="int32")
    filled = isinstance(num_columns, int) and num_columns % PIECE == 0

    @ops.custom_gradient
    def laid(line):
        line = backend.pad(line, [(0, 0), (0, 0), (0, 2 * PIECE)])
        moved = [slice_axis(line, -1, start, span * PIECE) for start in range(PIECE)]
        pieces = ops.reshape(ops.stack(moved, axis=2), (batch * heads, PIECE * span, PIECE))
        cells = ops.reshape(ops.take(pieces, index, axis=1), (batch, heads, num_rows, wide * PIECE))

        def gradient(upstream):
            upstream = backend.pad(upstream, [(0, 0), (0, 0), (0, 0), (0, num_rows - 1)])
            upstream = ops.reshape(upstream, (batch, heads, num_rows * (count - 1)))
            upstream = backend.pad(upstream, [(0, 0), (0, 0), (num_rows - 1, 1)])
            return ops.sum(ops.reshape(upstream, (batch, heads, num_rows, count)), axis=2)

        return cells if filled else slice_axis(cells, -1, 0, num_columns), gradient

    return laid(line)
