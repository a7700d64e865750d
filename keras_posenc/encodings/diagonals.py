"""What meets a distance alone, laid along the diagonals of a map.

Where rows and columns stand side by side, a map of Tq rows and Tk columns has Tq + Tk - 1
diagonals, one distance each (here Tq + Tk, the last of which no cell lies on). A row meets each
distance once, and the products move into place by a change of shape.
"""

from keras import ops


def distances(grid):
    """(Tq + Tk,) int32: the distance of each diagonal, from the lower left corner on."""
    rows, columns = ops.shape(grid.rows)[1], ops.shape(grid.columns)[1]
    first = grid.rows[0, 0] - grid.columns[0, 0]
    return first + rows - 1 - ops.arange(rows + columns, dtype="int32")


def onto_map(x):
    """(B, H, Tq, Tk): cell (i, j) gets what row i of x (B, H, Tq, Tq + Tk) has for its diagonal."""
    batch, heads, rows, count = ops.shape(x)
    x = ops.reshape(x, (batch, heads, rows * count))
    x = ops.slice(x, (0, 0, rows - 1), (batch, heads, rows * (count - 1)))
    # In rows that are one shorter, what is next in a row is next in a column too.
    x = ops.reshape(x, (batch, heads, rows, count - 1))
    return ops.slice(x, (0, 0, 0, 0), (batch, heads, rows, count - rows))
