"""The attention map as a grid: the positions of its rows and columns, and which cells are open.

Shapes: B batch (or 1), H heads (or 1), Tq rows (queries), Tk columns (keys).
"""

import dataclasses
import difflib
import functools
import math

from keras import ops

# The axes of rows and of columns in the tensors of a grid and of its content.
AXES = {
    "rows": (1, None),
    "row_order": (1, None),
    "row_keep": (1, None),
    "row_index": (1, None),
    "queries": (1, None),
    "columns": (None, 1),
    "column_order": (None, 1),
    "keep": (None, 1),
    "column_index": (None, 1),
    "keys": (None, 1),
    "values": (None, 1),
    "features": (None, 1),
    "tables": (None, None),
    "distance_biases": (None, None),
    "mask": (-2, -1),
}
IN_CONTENT = ("queries", "keys", "values", "features", "tables", "distance_biases")
BY_ENCODING = ("features", "tables", "distance_biases")


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """The tensors of the rows and columns of a map.

    Attributes:
        queries, keys, values: (B, T, H, D), from before any `heads`.
        features: dict, encoding -> the result of its `features`, (B, Tk, H, F).
        tables: dict, encoding -> a tensor for all rows and columns: the table that layers share
            (`shared=True`), or one that its `restrict` added.
        distance_biases: dict, encoding -> its logits by distance (2M, H), instead of its `heads`.
        encoded: (q, k) after the `heads` of all encodings.
    """

    queries: object = None
    keys: object = None
    values: object = None
    features: dict = dataclasses.field(default_factory=dict)
    tables: dict = dataclasses.field(default_factory=dict)
    distance_biases: dict = dataclasses.field(default_factory=dict)
    encoded: tuple | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """Positions of queries and keys, and who may attend to whom.

    A cell (i, j) is open when all of these hold:

    - `keep[j]`: the key is not padding;
    - `column_order[j] <= row_order[i]`: order is the index for a causal map, the running sum of the
      segment ids for UniLM (the prompt sees itself, the answer sees the prompt and its own past);
    - `row_index[i] - rows[i] == column_index[j] - columns[j]`: both are of one document, which
      begins at this index;
    - `mask[i, j]`: whatever else the caller asks for;
    - `|distance[i, j]| < window`, or `columns[j] < sinks`, or one of `rows[i]` and `columns[j]` is
      below `global_tokens`.

    Nothing of size `Tq x Tk` exists until `distance()`, `open()`, `own()` or `visible()` is called.

    Args:
        rows: (B, Tq) position ids of the queries, int32 or float32; (B, Tq, A) on several axes.
        columns: (B, Tk) position ids of the keys, or (B, Tk, A).
        keep: (B, Tk) bool, False where the key is padding, or None.
        row_order: (B, Tq) int32 or None.
        column_order: (B, Tk) int32 or None; given if and only if `row_order` is.
        order_is_index: bool. The orders are the indices of the rows and columns in the map.
        mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk) bool, or None.
        window: number or None. Cells at this distance or further are closed.
        sinks: number. Keys at positions below it are visible at any distance.
        global_tokens: number. Tokens at positions below it see all keys, and all queries see them.
        row_keep: (B, Tq) bool, False where the query is padding, or None; for encodings that need
            it.
        row_index, column_index: (1, Tq) and (1, Tk) int32, or None: indices in a sequence that
            holds several documents, in each of which the position ids start again.
        ids_are_indices: bool. The position ids are consecutive, in each document where there are
            several, those of the rows continuing after a cache. False for a block whose columns are
            not adjacent.
        training: bool. A backward pass follows, and more steps of this shape, so that compiling a
            program for it pays.
        content: `Content` of the rows and columns.

    Raises:
        ValueError: if only one of the orders is given.

    Example:

    >>> grid = Grid(rows=ops.arange(3)[None], columns=ops.arange(3)[None])
    >>> int(grid.distance()[0, 2, 0])  # row 2 is two positions after column 0
    2
    """

    rows: object
    columns: object
    keep: object = None
    row_order: object = None
    column_order: object = None
    order_is_index: bool = False
    mask: object = None
    window: object = None
    sinks: object = 0
    global_tokens: object = 0
    row_keep: object = None
    row_index: object = None
    column_index: object = None
    ids_are_indices: bool = False
    training: bool = False
    content: Content = dataclasses.field(default_factory=Content)

    def __post_init__(self):
        if (self.row_order is None) != (self.column_order is None):
            raise ValueError("A grid needs both `row_order` and `column_order`, or neither.")

    def replace(self, **changes):
        """Returns a copy with other attributes; those of its content may be named directly.

        Args:
            **changes: attribute -> new value.

        Returns:
            `Grid`.

        Raises:
            TypeError: for a name that neither the grid nor its content has.
        """
        inner = {f.name for f in dataclasses.fields(Content)}
        outer = {f.name for f in dataclasses.fields(self)}
        for name in changes:
            if name not in inner | outer:
                near = difflib.get_close_matches(name, inner | outer, 1, cutoff=0)
                raise TypeError(f"A grid has no {name!r}: did you mean {near[0]!r}?")
        content = {name: changes.pop(name) for name in inner & changes.keys()}
        if content:
            changes["content"] = dataclasses.replace(self.content, **content)
        return dataclasses.replace(self, **changes)

    def tensors(self):
        """All tensors of the grid and its content: a dict, (name, encoding or None) -> tensor."""
        tensors = {}
        for name in AXES:
            x = getattr(self.content if name in IN_CONTENT else self, name)
            tensors |= {(name, e): y for e, y in x.items()} if name in BY_ENCODING else {}
            tensors |= {} if name in BY_ENCODING or x is None else {(name, None): x}
        return tensors

    def with_tensors(self, tensors):
        """Returns a copy with these tensors, under the keys of `tensors()`, and no others."""
        changes = {name: tensors.get((name, None)) for name in AXES if name not in BY_ENCODING}
        for name in BY_ENCODING:
            changes[name] = {e: x for (other, e), x in tensors.items() if other == name}
        return self.replace(**changes, encoded=None)

    def with_heads(self, q, k, v):
        """Returns a copy that holds heads: as `encoded`, and as content where it has none.

        Args:
            q, k, v: (B, T, H, D).

        Returns:
            `Grid`.
        """
        content = self.content
        return self.replace(
            queries=q if content.queries is None else content.queries,
            keys=k if content.keys is None else content.keys,
            values=v if content.values is None else content.values,
            encoded=(q, k),
        )

    def within(self, mask):
        """Returns a copy in which cells are also closed where the mask (B, H, Tq, Tk) is False."""
        if self.mask is not None:
            mask = ops.logical_and(_by_batch_and_head(ops.cast(self.mask, "bool")), mask)
        return self.replace(mask=mask)

    def distance(self):
        """Position of the row minus position of the column, (B, Tq, Tk)."""
        self.check_one_axis()
        return ops.subtract(ops.expand_dims(self.rows, 2), ops.expand_dims(self.columns, 1))

    def first_distance(self):
        """How far the first row is from the first column, a scalar, where ids are indices."""
        if self.row_index is not None:
            return self.row_index[0, 0] - self.column_index[0, 0]
        return self.rows[0, 0] - self.columns[0, 0]

    def open(self):
        """Where rows may attend, (B, H or 1, Tq or 1, Tk) bool, or None for everywhere."""
        conditions = []
        if self.keep is not None:
            conditions.append(ops.expand_dims(ops.cast(self.keep, "bool"), (1, 2)))
        if self.row_order is not None:
            ordered = self.column_order[:, None, :] <= self.row_order[:, :, None]
            conditions.append(ordered[:, None])
        if self.row_index is not None:
            begins, own = self.column_index - self.columns, self.row_index - self.rows
            conditions.append((begins[:, None, :] == own[:, :, None])[:, None])
        if self.mask is not None:
            mask = ops.cast(self.mask, "bool")
            conditions.append(_by_batch_and_head(mask))
        if self.window is not None:
            # A window may be fractional, for float ids.
            near = ops.abs(ops.cast(self.distance(), "float32")) < self.window
            seen = max(self.sinks, self.global_tokens)  # a position, which may be fractional
            near = ops.logical_or(near, (self.columns < seen)[:, None, :])
            if self.global_tokens:
                near = ops.logical_or(near, (self.rows < self.global_tokens)[:, :, None])
            conditions.append(near[:, None])
        return functools.reduce(ops.logical_and, conditions) if conditions else None

    def is_causal(self):
        """Whether the causal order alone closes cells, from the first row and column on."""
        others = (self.keep, self.mask, self.window, self.row_index)
        square = self.rows.shape[1] is not None and self.rows.shape[1] == self.columns.shape[1]
        return self.order_is_index and square and all(other is None for other in others)

    def every_row_sees(self):
        """Whether each row has an unmasked position, as far as that is known without the
        numbers."""
        own = self.rows.shape[1] is not None and self.rows.shape[1] == self.columns.shape[1]
        # In a causal order a row sees the first column, in a window or a document its own.
        narrowed = self.window is not None or self.row_index is not None
        among = self.order_is_index and not narrowed or own and self.ids_are_indices
        return self.keep is None and self.mask is None and among

    def is_by_cell(self):
        """Whether more than padding and the plain causal order closes cells."""
        conditions = (self.row_order, self.row_index, self.mask, self.window)
        return any(other is not None for other in conditions) and not self.is_causal()

    def seen_by_all(self):
        """Number of columns, from the first on, that a window leaves visible at any distance."""
        return math.ceil(max(self.sinks, self.global_tokens))

    def own(self):
        """Where a key is the query's own, (B, Tq, Tk) bool; by index if `order_is_index`."""
        if self.order_is_index:
            return self.row_order[:, :, None] == self.column_order[:, None, :]
        return self.distance() == 0

    def visible(self):
        """Number of keys that each row may attend to, (B, H or 1, Tq or 1) float32.

        It is counted without the map for padding, for the causal order of a plain pass or a cache,
        and for a window on top of these.
        """
        num_columns = ops.shape(self.columns)[1]
        if self.keep is not None:
            kept = ops.cast(self.keep, "int32")
        else:
            kept = ops.ones((1, num_columns), "int32")
        by_index = self.row_order is None or self.order_is_index
        if self.mask is not None or self.row_index is not None or not by_index:
            return self._visible_by_map()
        if self.window is not None:
            return self._visible_in_window(kept) if self.ids_are_indices else self._visible_by_map()
        if self.row_order is None:
            return ops.cast(ops.sum(kept, axis=1), "float32")[:, None, None]
        own = ops.minimum(self.row_order[0], num_columns - 1)
        return ops.cast(ops.take(ops.cumsum(kept, axis=1), own, axis=1), "float32")[:, None]

    def _visible_by_map(self):
        return ops.sum(ops.cast(self.open(), "float32"), axis=-1)

    def _visible_in_window(self, kept):
        """Counts kept (B, Tk) keys in the window, and outside it those that every row sees."""
        num_columns = ops.shape(self.columns)[1]
        first = self.columns[0, 0]
        own, reach = self.rows[0] - first, math.ceil(self.window)
        seen = self.seen_by_all() - first
        end = self.row_order[0] + 1 if self.order_is_index else num_columns + ops.zeros_like(own)
        start, stop = own - reach + 1, ops.minimum(own + reach, end)
        everything = self.rows[0] < self.global_tokens
        start = ops.where(everything, 0, start)
        stop = ops.where(everything, end, stop)
        before = ops.minimum(seen, start)
        after = ops.maximum(ops.minimum(seen, end), stop)
        sums = ops.pad(ops.cumsum(kept, axis=1), [(0, 0), (1, 0)])

        def up_to(index):
            return ops.take(sums, ops.clip(index, 0, num_columns), axis=1)

        count = up_to(before) + up_to(stop) - up_to(start) + up_to(after) - up_to(stop)
        return ops.cast(count, "float32")[:, None]

    def check_one_axis(self):
        """Raises ValueError for ids on several axes, which have no single distance."""
        if len(self.rows.shape) > 2:
            raise ValueError(
                f"Position ids on {self.rows.shape[-1]} axes have no single distance: give ids of "
                "shape (B, T), or encodings that act on several axes, such as rotary with "
                "`sections`."
            )


def _by_batch_and_head(mask):
    """Expands a mask of two, three or four dimensions to four."""
    if len(mask.shape) == 2:
        return mask[None, None]
    return mask[:, None] if len(mask.shape) == 3 else mask
