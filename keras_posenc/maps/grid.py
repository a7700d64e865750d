"""The attention map as a grid: the positions of its rows and columns, and which cells are open.

Shapes: B batch (or 1), H heads (or 1), Tq rows (queries), Tk columns (keys).
"""

import dataclasses
import difflib
import functools
import math

from keras import ops

from keras_posenc import backend
from keras_posenc.maps.axes import axes_of, derived, tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """The tensors of the rows and columns of an attention matrix."""

    queries: object = tensor(rows=1, for_hooks=True)  # (B, T, H, D); from before any `heads`
    keys: object = tensor(columns=1, for_hooks=True)
    values: object = tensor(columns=1, for_hooks=True)
    # Maps each encoding to the result of its `features`, (B, Tk, H, F).
    features: dict = tensor(columns=1, by_encoding=True, for_hooks=True)
    # Maps each encoding to the result of its `query_features`, (B, Tq, H, F).
    query_features: dict = tensor(rows=1, by_encoding=True, for_hooks=True)
    # Maps an encoding to a tensor for all rows and columns: the table that layers share
    # (`shared=True`), or one that its `restrict` added.
    tables: dict = tensor(by_encoding=True, for_hooks=True)
    # Maps an encoding to its logits by distance (2M, H), which replace its `heads`.
    distance_biases: dict = tensor(by_encoding=True)
    encoded: tuple | None = derived()  # (q, k); from after the `heads` of all encodings


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """Positions of queries and keys, and which query may attend to which key.

    Query i may attend to key j when all of these hold:

    - `key_mask[j]`: The key is not padding.
    - `key_order[j] <= query_order[i]`: The key does not come later. For a causal mask the order is
      the index. For UniLM it is the running sum of the segment ids: the prompt sees itself, and the
      answer sees the prompt and its own past.
    - `query_index[i] - query_positions[i] == key_index[j] - key_positions[j]`: Both belong to one
      document, which begins at this index.
    - `attention_mask[i, j]`: The caller's mask allows it.
    - `|distance[i, j]| < window`: The key is near enough. Keys below `sinks` and pairs with a
      position below `global_tokens` are exempt.

    Nothing of size `Tq x Tk` exists until `distance()`, `mask()`, `same_token()` or `visible()` is
    called.

    Args:
        query_positions: (B, Tq) int32 or float32. Position ids of the queries; (B, Tq, A) on
            several axes.
        key_positions: (B, Tk) or (B, Tk, A). Position ids of the keys.
        key_mask: (B, Tk) bool, or None. False where the key is padding.
        query_order: (B, Tq) int32 or None. The order of each query.
        key_order: (B, Tk) int32 or None. Given if and only if `query_order` is.
        order_is_index: bool. The orders are the indices of the rows and columns in the matrix.
        rows_are_last: bool. No column is later than any row, so that the order masks nothing.
        attention_mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk) bool, or None.
        window: number or None. Keys at this distance or further are masked.
        sinks: number. Keys at positions below it are visible at any distance.
        global_tokens: number. Tokens at positions below it see all keys, and all queries see them.
        query_mask: (B, Tq) bool, or None. False where the query is padding; for encodings that need
            it.
        query_index, key_index: (1, Tq) and (1, Tk) int32, or None. Indices in a sequence that
            holds several documents, in each of which the position ids start again.
        ids_are_indices: bool. The position ids are consecutive, in each document where there are
            several, those of the rows continuing after a cache. False for a block whose columns are
            not adjacent.
        training: bool. A backward pass follows, and more steps of this shape, so that compiling a
            program for it pays.
        content: `Content` of the rows and columns.

    Example:

    >>> grid = Grid(query_positions=ops.arange(3)[None], key_positions=ops.arange(3)[None])
    >>> int(grid.distance()[0, 2, 0])  # row 2 is two positions after column 0
    2
    """

    query_positions: object = tensor(rows=1, default=dataclasses.MISSING)
    key_positions: object = tensor(columns=1, default=dataclasses.MISSING)
    key_mask: object = tensor(columns=1)
    query_order: object = tensor(rows=1)
    key_order: object = tensor(columns=1)
    order_is_index: bool = False
    rows_are_last: bool = False
    attention_mask: object = tensor(rows=-2, columns=-1)
    window: object = None
    sinks: object = 0
    global_tokens: object = 0
    query_mask: object = tensor(rows=1)
    query_index: object = tensor(rows=1)
    key_index: object = tensor(columns=1)
    ids_are_indices: bool = False
    training: bool = False
    content: Content = dataclasses.field(default_factory=lambda: Content())  # for torch.compile

    def __post_init__(self):
        if (self.query_order is None) != (self.key_order is None):
            raise ValueError("A grid needs both `query_order` and `key_order`, or neither.")

    def replace(self, **changes):
        """Returns a copy with other attributes; those of its content may be named directly.

        Args:
            **changes: attribute -> new value.

        Returns:
            `Grid`.
        """
        for name in changes:
            if name not in FIELDS:
                near = difflib.get_close_matches(name, FIELDS, 1, cutoff=0)[0]
                raise TypeError(f"A grid has no {name!r}: did you mean {near!r}?")
        content = {name: changes.pop(name) for name in IN_CONTENT & changes.keys()}
        if content:
            changes["content"] = dataclasses.replace(self.content, **content)
        return dataclasses.replace(self, **changes)

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
        if self.attention_mask is not None:
            mask = ops.logical_and(_by_batch_and_head(ops.cast(self.attention_mask, "bool")), mask)
        return self.replace(attention_mask=mask)

    def distance(self):
        """Position of the row minus position of the column, (B, Tq, Tk)."""
        self.check_one_axis()
        return ops.subtract(*_crossed(self.query_positions, self.key_positions))

    def first_distance(self):
        """How far the first row is from the first column, a scalar, where ids are indices."""
        if self.query_index is not None:
            return self.query_index[0, 0] - self.key_index[0, 0]
        return self.query_positions[0, 0] - self.key_positions[0, 0]

    def mask(self):
        """Where rows may attend, (B or 1, H or 1, Tq or 1, Tk) bool, or None for everywhere."""
        conditions = []
        if self.key_mask is not None:
            conditions.append(ops.expand_dims(ops.cast(self.key_mask, "bool"), (1, 2)))
        if self.query_order is not None and not self.rows_are_last:
            ordered = ops.greater_equal(*_crossed(self.query_order, self.key_order))
            conditions.append(ordered[:, None])
        if self.query_index is not None:
            of_keys = self.key_index - self.key_positions  # where their documents begin
            of_queries = self.query_index - self.query_positions
            conditions.append(ops.equal(*_crossed(of_queries, of_keys))[:, None])
        if self.attention_mask is not None:
            mask = _by_batch_and_head(ops.cast(self.attention_mask, "bool"))
            if mask.shape[-1] == 1:  # the same for all keys, which are counted
                columns = ops.shape(self.key_positions)[1]
                mask = ops.broadcast_to(mask, (*ops.shape(mask)[:3], columns))
            conditions.append(mask)
        if self.window is not None:
            # A window may be fractional, for float ids.
            near = ops.abs(ops.cast(self.distance(), "float32")) < self.window
            seen = max(self.sinks, self.global_tokens)  # a position, which may be fractional
            near = ops.logical_or(near, ops.expand_dims(self.key_positions < seen, 1))
            if self.global_tokens:
                marked = self.query_positions < self.global_tokens
                near = ops.logical_or(near, ops.expand_dims(marked, 2))
            conditions.append(near[:, None])
        return functools.reduce(ops.logical_and, conditions) if conditions else None

    def is_causal(self):
        """Whether the causal order alone closes cells, from the first row and column on."""
        others = (self.key_mask, self.attention_mask, self.window, self.query_index)
        return self.order_is_index and self._is_square() and all(other is None for other in others)

    def _is_square(self):
        num_rows, num_columns = self.query_positions.shape[1], self.key_positions.shape[1]
        # Kernels take no symbol, which torch.compile makes of a comparison alone.
        return True if num_rows is not None and num_rows == num_columns else False

    def every_row_sees(self):
        """Whether each row has an unmasked position, if that is known without the numbers."""
        # In a causal order a row sees the first column, in a window or a document its own.
        narrowed = self.window is not None or self.query_index is not None
        in_order = self.query_order is None or self.order_is_index
        sees_itself = self._is_square() and self.ids_are_indices and in_order
        among = self.order_is_index and not narrowed or sees_itself
        return self.key_mask is None and self.attention_mask is None and among

    def is_by_cell(self):
        """Whether more than padding and the plain causal order closes cells."""
        order = None if self.rows_are_last else self.query_order
        conditions = (order, self.query_index, self.attention_mask, self.window)
        return any(other is not None for other in conditions) and not self.is_causal()

    def seen_by_all(self):
        """Number of columns, from the first on, that a window leaves visible at any distance."""
        return math.ceil(max(self.sinks, self.global_tokens))

    def same_token(self):
        """Where a key is the query's own, (B, Tq, Tk) bool; by index if `order_is_index`."""
        if self.order_is_index:
            return ops.equal(*_crossed(self.query_order, self.key_order))
        return self.distance() == 0

    def visible(self):
        """Number of keys that each row may attend to, (B, H or 1, Tq or 1) float32.

        The count needs no attention matrix in these cases: padding, the causal order of a plain
        pass or a cache, and a window on top of these.
        """
        num_columns = ops.shape(self.key_positions)[1]
        if self.key_mask is not None:
            is_key = ops.cast(self.key_mask, "int32")
        else:
            is_key = ops.ones((1, num_columns), "int32")
        by_index = self.query_order is None or self.order_is_index
        if self.attention_mask is not None or self.query_index is not None or not by_index:
            return self._visible_by_map()
        if self.window is not None:
            return (
                self._visible_in_window(is_key) if self.ids_are_indices else self._visible_by_map()
            )
        if self.query_order is None:
            return ops.cast(ops.sum(is_key, axis=1), "float32")[:, None, None]
        last = backend.clip(self._column_of_rows(), 0, num_columns - 1)
        return ops.cast(backend.take(ops.cumsum(is_key, axis=1), last, 1), "float32")[:, None]

    def _visible_by_map(self):
        return ops.sum(ops.cast(self.mask(), "float32"), axis=-1)

    def _visible_in_window(self, is_key):
        """Counts the keys (B, Tk) in the window, and outside it those that every row sees."""
        num_columns = ops.shape(self.key_positions)[1]
        first = self.key_positions[0, 0]
        diagonal, reach = self.query_positions[0] - first, math.ceil(self.window)
        seen = self.seen_by_all() - first
        if self.order_is_index:
            end = self._column_of_rows() + 1
        else:
            end = num_columns + ops.zeros_like(diagonal)
        start, stop = diagonal - reach + 1, ops.minimum(diagonal + reach, end)
        everything = self.query_positions[0] < self.global_tokens
        start = ops.where(everything, 0, start)
        stop = ops.where(everything, end, stop)
        before = ops.minimum(seen, start)
        after = ops.maximum(ops.minimum(seen, end), stop)
        sums = backend.pad(ops.cumsum(is_key, axis=1), [(0, 0), (1, 0)])

        def up_to(index):
            return backend.take(sums, backend.clip(index, 0, num_columns), 1)

        count = up_to(before) + up_to(stop) - up_to(start) + up_to(after) - up_to(stop)
        return ops.cast(count, "float32")[:, None]

    def _column_of_rows(self):
        """The column of the key with each row's index, (Tq,): columns of a block begin later."""
        return self.query_order[0] - self.key_order[0, 0]

    def check_one_axis(self):
        """Raises ValueError for ids on several axes, which have no single distance."""
        if len(self.query_positions.shape) > 2:
            raise ValueError(
                f"Position ids on {self.query_positions.shape[-1]} axes have no single distance: "
                "give ids of shape (B, T), or encodings that act on several axes, such as rotary "
                "with `sections`."
            )


# The names that `Grid.replace` takes, and those of them that are the content's.
IN_CONTENT = {f.name for f in dataclasses.fields(Content)}
FIELDS = IN_CONTENT | {f.name for f in dataclasses.fields(Grid)}
AXES = axes_of(Grid)


def _crossed(rows, columns):
    """Numbers as (B, Tq, 1) and (B, 1, Tk). LiteRT has no slices with several new axes."""
    return ops.expand_dims(rows, 2), ops.expand_dims(columns, 1)


def _by_batch_and_head(mask):
    """Expands a mask of two, three or four dimensions to four."""
    if len(mask.shape) == 2:
        return mask[None, None]
    return mask[:, None] if len(mask.shape) == 3 else mask
