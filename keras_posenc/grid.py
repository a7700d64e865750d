"""The attention map seen as a grid: where its rows and columns stand, and which cells are open.

Shapes: B batch (or 1), H heads (or 1), Tq rows (queries), Tk columns (keys).
"""

from keras import ops


class Grid:
    """Positions of queries and keys, and who may attend to whom.

    Nothing of size `Tq x Tk` exists until `distance()` or `open()` is called.

    A cell (i, j) is open when all of these hold:

    - `keep[j]`: the key is not padding;
    - `column_order[j] <= row_order[i]`: order is the index for a causal map, the running sum of the
      segment ids for UniLM (the prompt sees itself, the answer sees the prompt and its own past);
    - `mask[i, j]`: whatever else the caller asks for.

    Args:
        rows: (B, Tq) position ids of the queries, int32 or float32.
        columns: (B, Tk) position ids of the keys, int32 or float32.
        keep: (B, Tk) bool, False where the key is padding, or None.
        row_order: (B, Tq) int32 or None.
        column_order: (B, Tk) int32 or None; given if and only if `row_order` is.
        mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk) bool, or None.

    Example:

    >>> grid = Grid(rows=ops.arange(3)[None], columns=ops.arange(3)[None])
    >>> grid.distance()[0, 2, 0]  # row 2 stands two positions after column 0
    2
    """

    def __init__(self, rows, columns, keep=None, row_order=None, column_order=None, mask=None):
        if (row_order is None) != (column_order is None):
            raise ValueError("A grid needs both `row_order` and `column_order`, or neither.")
        self.rows = rows
        self.columns = columns
        self.keep = keep
        self.row_order = row_order
        self.column_order = column_order
        self.mask = mask

    def distance(self):
        """(B, Tq, Tk): position of the row minus position of the column."""
        return ops.expand_dims(self.rows, 2) - ops.expand_dims(self.columns, 1)

    def open(self):
        """(B, H or 1, Tq or 1, Tk) bool, True where the row may attend; None: everywhere."""
        parts = []
        if self.keep is not None:
            parts.append(ops.cast(self.keep, "bool")[:, None, None, :])
        if self.row_order is not None:
            parts.append((self.column_order[:, None, :] <= self.row_order[:, :, None])[:, None])
        if self.mask is not None:
            mask = ops.cast(self.mask, "bool")
            parts.append(_by_batch_and_head(mask))
        if not parts:
            return None
        cells = parts[0]
        for part in parts[1:]:
            cells = ops.logical_and(cells, part)
        return cells


def _by_batch_and_head(mask):
    """A mask of two, three or four dimensions with all four."""
    if len(mask.shape) == 2:
        return mask[None, None]
    return mask[:, None] if len(mask.shape) == 3 else mask
