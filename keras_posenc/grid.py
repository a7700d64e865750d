"""The attention map seen as a grid: where its rows and columns stand, and which cells are open.

Shapes: B batch (or 1), H heads (or 1), Tq rows (queries), Tk columns (keys).
"""

import copy

from keras import ops

# The axes of rows and of columns in what a grid holds.
AXES = {
    "rows": (1, None),
    "row_order": (1, None),
    "row_keep": (1, None),
    "queries": (1, None),
    "columns": (None, 1),
    "column_order": (None, 1),
    "keep": (None, 1),
    "keys": (None, 1),
    "values": (None, 1),
    "features": (None, 1),
    "tables": (None, None),
    "lines": (None, None),
    "mask": (-2, -1),
}
BY_ENCODING = ("features", "tables", "lines")


class Grid:
    """Positions of queries and keys, who may attend to whom, and what rows and columns hold.

    Nothing of size `Tq x Tk` exists until `distance()`, `open()`, `own()` or `visible()` is called.

    A cell (i, j) is open when all of these hold:

    - `keep[j]`: the key is not padding;
    - `column_order[j] <= row_order[i]`: order is the index for a causal map, the running sum of the
      segment ids for UniLM (the prompt sees itself, the answer sees the prompt and its own past);
    - `mask[i, j]`: whatever else the caller asks for;
    - `|distance[i, j]| < window`, or `columns[j] < sinks`.

    Args:
        rows: (B, Tq) position ids of the queries, int32 or float32; (B, Tq, A) on several axes.
        columns: (B, Tk) position ids of the keys, likewise.
        keep: (B, Tk) bool, False where the key is padding, or None.
        row_order: (B, Tq) int32 or None.
        column_order: (B, Tk) int32 or None; given if and only if `row_order` is.
        order_is_index: bool. The orders are the indices of rows and columns in the map.
        mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk) bool, or None.
        window: number or None. Distances from which on a cell is closed.
        sinks: number. Keys at positions below it are seen from any distance.

    Attributes:
        row_keep: (B, Tq) bool, False where the query is padding, or None; for what asks for it.
        queries, keys, values: what rows and columns hold, (B, T, H, D), from before any `heads`.
        features: dict, encoding -> what its `features` said of the keys, (B, Tk, H, F).
        tables: dict, encoding -> a tensor that all rows and columns read: the table that layers
            share (`shared=True`), or what its `restrict` made.
        lines: dict, encoding -> its numbers by distance (2M, H), which stand for its `heads`.
        carried: dict, encoding -> what its `score` passes on from block to block of rows.
        encoded: (q, k) as the `heads` of all encodings left them.
        ids_are_indices: bool. Rows and columns stand where they are in the map, each one behind the
            one before, so that positions say which cells a window closes; the rows of a cache come
            behind those before. False of a block whose columns are not all side by side.
        training: bool. A backward pass will come, and many more steps: a program compiled for the
            shape pays.

    Example:

    >>> grid = Grid(rows=ops.arange(3)[None], columns=ops.arange(3)[None])
    >>> grid.distance()[0, 2, 0]  # row 2 stands two positions after column 0
    2
    """

    def __init__(
        self,
        rows,
        columns,
        keep=None,
        row_order=None,
        column_order=None,
        order_is_index=False,
        mask=None,
        window=None,
        sinks=0,
    ):
        if (row_order is None) != (column_order is None):
            raise ValueError("A grid needs both `row_order` and `column_order`, or neither.")
        self.rows = rows
        self.columns = columns
        self.keep = keep
        self.row_order = row_order
        self.column_order = column_order
        self.order_is_index = order_is_index
        self.mask = mask
        self.window = window
        self.sinks = sinks
        self.training = False
        self.row_keep = self.queries = self.keys = self.values = self.encoded = None
        self.features = {}
        self.tables = {}
        self.lines = {}
        self.carried = {}
        self.ids_are_indices = False

    def replace(self, **changes):
        """The same grid with some attributes changed; both share what is carried between blocks."""
        other = copy.copy(self)
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def held(self):
        """{(name, encoding or None): tensor}: all tensors of the grid but `encoded`."""
        one = {(name, None): getattr(self, name) for name in AXES if name not in BY_ENCODING}
        more = {(name, e): x for name in BY_ENCODING for e, x in getattr(self, name).items()}
        return {key: tensor for key, tensor in (one | more).items() if tensor is not None}

    def holding(self, held):
        """A like grid that holds these tensors, by the keys of `held`, and no others."""
        one = {name: held.get((name, None)) for name in AXES if name not in BY_ENCODING}
        more = {
            name: {e: tensor for (other, e), tensor in held.items() if other == name}
            for name in BY_ENCODING
        }
        return self.replace(**one, **more)

    def within(self, mask):
        """The grid with only those of its cells open that the mask (B, H, Tq, Tk) has True."""
        if self.mask is not None:
            mask = ops.logical_and(_by_batch_and_head(ops.cast(self.mask, "bool")), mask)
        return self.replace(mask=mask)

    def distance(self):
        """(B, Tq, Tk): position of the row minus position of the column."""
        self.check_one_axis()
        return ops.subtract(ops.expand_dims(self.rows, 2), ops.expand_dims(self.columns, 1))

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
        if self.window is not None:
            # A window may be fractional, for float ids.
            near = ops.abs(ops.cast(self.distance(), "float32")) < self.window
            parts.append(ops.logical_or(near, (self.columns < self.sinks)[:, None, :])[:, None])
        if not parts:
            return None
        cells = parts[0]
        for part in parts[1:]:
            cells = ops.logical_and(cells, part)
        return cells

    def own(self):
        """(B, Tq, Tk) bool: where a query meets its own key, by index if the order says it."""
        if self.order_is_index:
            return self.row_order[:, :, None] == self.column_order[:, None, :]
        return self.distance() == 0

    def visible(self):
        """(B, H or 1, Tq or 1) float32: how many keys a row may attend to.

        Counted without the map for padding, and for the causal order of a plain pass or a cache.
        """
        columns = ops.shape(self.columns)[1]
        if self.mask is None and self.window is None:
            if self.keep is not None:
                kept = ops.cast(self.keep, "int32")
            elif self.row_order is None:
                return ops.cast(columns, "float32") * ops.ones((1, 1, 1))
            else:
                kept = ops.ones_like(self.column_order, "int32")
            if self.row_order is None:
                return ops.cast(ops.sum(kept, axis=1), "float32")[:, None, None]
            if self.order_is_index:
                own = ops.minimum(self.row_order[0], columns - 1)
                seen = ops.take(ops.cumsum(kept, axis=1), own, axis=1)
                return ops.cast(seen, "float32")[:, None]
        return ops.sum(ops.cast(self.open(), "float32"), axis=-1)

    def check_one_axis(self):
        """Refuses ids on several axes; for encodings that read `rows` and `columns` themselves."""
        if len(self.rows.shape) > 2:
            raise ValueError(
                f"Position ids on {self.rows.shape[-1]} axes have no single distance: give ids of "
                "shape (B, T), or encodings that act on several axes, such as rotary with "
                "`sections`."
            )


def _by_batch_and_head(mask):
    """A mask of two, three or four dimensions with all four."""
    if len(mask.shape) == 2:
        return mask[None, None]
    return mask[:, None] if len(mask.shape) == 3 else mask
