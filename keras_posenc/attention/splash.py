"""Attention by the splash kernel of JAX on TPUs, whose memory is linear.

It serves a causal order, a window, padding and packed documents. Biases, attention masks, other
orders, dropout and encodings that read the attention matrix are computed in blocks of rows.
"""

import math

from keras import ops

from keras_posenc import backend

# A shorter text would be padded to a block of the kernel.
FEWEST_TOKENS = 128


def splash_serves(q, k, grid, rules):
    """Whether the kernel computes attention of these heads, on which the encodings have acted."""
    hooks, (rows, columns) = rules.hooks, (q.shape[1], k.shape[1])
    if not all(isinstance(size, int) for size in (q.shape[0], rows, columns)):
        return False
    if min(rows, columns) < FEWEST_TOKENS or backend.is_exporting() or not backend.has_splash(q):
        return False
    if rules.has_bias() or rules.dropout or hooks.read_map or hooks.sink or hooks.decay:
        return False
    if grid.attention_mask is not None or hooks.most_rows:
        return False
    square, packed = rows == columns, grid.query_index is not None
    if grid.query_order is not None and not (grid.order_is_index and square):
        return False
    if grid.window is not None:
        hidden = packed and grid.key_mask is not None  # rows that see nothing are not counted
        return square and grid.ids_are_indices and not grid.seen_by_all() and not hidden
    return True


def attend_by_splash(q, k, v, grid, rules):
    """Computes the same output (B, Tq, H, Dv) as `attend_explicitly`."""
    before = after = None
    if grid.window is not None:
        before = after = math.ceil(grid.window) - 1
    if grid.query_order is not None:
        after = 0
    has_segments = grid.key_mask is not None or grid.query_index is not None
    segments = _segments(grid) if has_segments else (None, None)
    scaled = q * ops.cast(rules.scale, q.dtype)
    output = backend.splash(scaled, k, ops.cast(v, q.dtype), *segments, before, after)
    output = ops.cast(output, q.dtype)
    if grid.every_row_sees():
        return output
    sees = ops.transpose(_visible(grid) > 0, (0, 2, 1))[..., None]
    return ops.where(sees, output, ops.zeros((), output.dtype))


def _segments(grid):
    """The documents of queries and keys, (B, Tq) and (B, Tk) int32; padding is of none."""
    queries, keys = ops.zeros_like(grid.query_positions), ops.zeros_like(grid.key_positions)
    if grid.query_index is not None:  # where the document begins
        queries = grid.query_index - grid.query_positions
        keys = grid.key_index - grid.key_positions
    queries, keys = ops.cast(queries, "int32"), ops.cast(keys, "int32")
    if grid.key_mask is not None:
        keys = ops.where(ops.cast(grid.key_mask, "bool"), keys, -1)
    return queries, keys


def _visible(grid):
    """`grid.visible()` without an attention matrix for packed documents too, (B, 1, Tq or 1)."""
    if grid.query_index is None:
        return grid.visible()
    queries, keys = _segments(grid)
    is_key = ops.cast(keys >= 0, "int32")
    starts = ops.cast(grid.key_index - grid.key_positions, "int32")
    starts = ops.broadcast_to(starts, ops.shape(keys))
    if grid.query_order is not None:  # those of the document up to the row
        sums = backend.pad(ops.cumsum(is_key, axis=1), [(0, 0), (1, 0)])
        counted = sums[:, 1:] - ops.take_along_axis(sums, starts, axis=1)
        return counted[:, None]
    batch, length = ops.shape(keys)
    first = length * ops.arange(batch, dtype="int32")[:, None]
    sums = ops.segment_sum(
        ops.reshape(is_key, (-1,)), ops.reshape(starts + first, (-1,)), num_segments=batch * length
    )
    return ops.take(sums, queries + first, axis=0)[:, None]
