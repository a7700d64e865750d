"""Local attention at the cost of its window: each block of rows reads only the columns around it.

Suppose that position ids are indices, and that a window reaches l columns to the left and r to the
right. Then the rows [i s, i s + s) see the columns from i s - l to i s + s + r. Keys, values and
all other tensors with a column axis are split into chunks of s columns. Block i reads the chunks
around its rows, preceded by the columns that every row sees (sinks, global tokens). Rows that see
every column are computed as a separate small matrix. Memory and time are linear in the number of
tokens.
"""

import dataclasses
import math

from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, ROWS, prepare, run
from keras_posenc.attention.matrix import by_head
from keras_posenc.attention.sequence import run_over_devices
from keras_posenc.maps.columns import slice_axis

FEWEST_ROWS = 64
# Below so many columns for each that a block reads, the whole map costs no more.
WORTH = 2


def local_rows(q, k, grid, rules):
    """Number of rows in a block of local attention.

    None if position ids are not indices, so that the window selects no range of columns, or if the
    map is too small.
    """
    if grid.window is None or not grid.ids_are_indices or q.shape[1] != k.shape[1]:
        return None
    seen = grid.seen_by_all()
    if grid.query_index is not None and seen:  # by each document its own first ones
        return None
    if rules.hooks.all_columns or grid.attention_mask is not None or rules.bias is not None:
        return None
    reach = math.ceil(grid.window) - 1
    if q.shape[1] is None and reach + seen > 1024:
        return None
    # Chunks as wide as the window reaches cost half as much again as the window; wide windows are
    # cut into finer ones.
    block_rows = -(-max(FEWEST_ROWS, min(reach, 256)) // 16) * 16
    sides = 1 if grid.order_is_index else 2
    width = (1 + _chunks(reach, block_rows) * sides) * block_rows
    if q.shape[1] is not None and q.shape[1] < WORTH * (width + seen):
        return None
    return block_rows


def attend_locally(q, k, v, grid, rules, block_rows, compute):
    """Computes the same output (B, T, H, Dv) as `attend_explicitly` under a window.

    Args:
        block_rows: int, from `local_rows`.
        compute: function of a block, as in `attend_in_blocks`.
    """
    seen = grid.seen_by_all()
    # Columns that fill up the last chunk are none.
    key_mask = ops.ones((1, ops.shape(k)[1])) if grid.key_mask is None else grid.key_mask
    grid = grid.replace(key_mask=ops.cast(key_mask, "bool"))
    shards = backend.sequence_shards(q)
    whole, tensors, carry = prepare(q, k, v, grid, rules, compute, explicit=shards > 1)
    inputs = whole.inputs
    inputs = dataclasses.replace(inputs, grid=inputs.grid.replace(ids_are_indices=not seen))
    block = dataclasses.replace(whole, inputs=inputs)
    reach = math.ceil(grid.window) - 1
    left = _chunks(reach, block_rows)
    right = 0 if grid.order_is_index else left
    num_rows = ops.shape(q)[1]
    count = (num_rows + block_rows - 1) // block_rows
    # Ids start again in each document, so only the index keeps counting.
    counted = ("key_index" if grid.query_index is not None else "key_positions", "key_order")
    columns, others = {}, {}
    for key, x in tensors.items():
        axis = AXES[key[0]].columns
        if axis is None:
            others[key] = x
        else:
            columns[key] = _neighbourhoods(
                key, x, axis, count, block_rows, left, right, seen, counted
            )
    # Each device has whole blocks, or XLA splits what it can.
    over_devices = shards > 1 and ops.shape(q)[1] % (shards * block_rows) == 0
    run_blocks = run_over_devices if over_devices else run
    output = run_blocks(block, others, block_rows, carry, columns)
    if grid.global_tokens:
        few = min(math.ceil(grid.global_tokens), q.shape[1] or math.ceil(grid.global_tokens))
        first = {key: _first_rows(key, x, few) for key, x in tensors.items()}
        output = [run(whole, first, few, carry), _from_row(output, few, num_rows)]
        output = ops.concatenate(output, axis=ROWS)
    return by_head(output)


def _chunks(reach, block_rows):
    """Number of chunks that a window reaches to one side of a block."""
    return -(-reach // block_rows)


def _neighbourhoods(key, x, axis, count, size, left, right, seen, counted):
    """The columns that each of N blocks reads, (N, ...): its own chunk and those around it."""
    axis %= len(x.shape)
    length = ops.shape(x)[axis]
    first = slice_axis(x, axis, 0, _at_most(seen, length)) if seen else None
    before, after = left * size, (count + right) * size - length
    if key[0] in counted:
        # What stands before the first column and after the last one is counted on.
        index = ops.arange(-before, length + after, dtype="int32")
        x = slice_axis(x, axis, 0, 1) + ops.cast(index, x.dtype)
    else:
        sides = [(0, 0)] * len(x.shape)
        sides[axis] = (before, after)
        if key[0] == "key_mask":  # those that all see come before the chunks
            later = ops.arange(length, dtype="int32") >= seen
            x = ops.pad(ops.cast(ops.logical_and(x, later), "int32"), sides) > 0
        else:
            x = ops.pad(x, sides)
    shape = ops.shape(x)
    chunks = ops.reshape(x, (*shape[:axis], left + count + right, size, *shape[axis + 1 :]))
    shifted = [slice_axis(chunks, axis, i, count) for i in range(left + 1 + right)]
    x = ops.moveaxis(ops.concatenate(shifted, axis=axis + 1), axis, 0)
    if first is None:
        return x
    shape = ops.shape(first)
    first = ops.broadcast_to(first[None], (count, *shape))
    return ops.concatenate([first, x], axis=axis + 1)


def _at_most(number, length):
    return min(number, length) if isinstance(length, int) else ops.minimum(number, length)


def _first_rows(key, x, few):
    axis = AXES[key[0]].rows
    if axis is None or (x.shape[axis] == 1 and key[0] != "q"):
        return x
    return slice_axis(x, axis, 0, _at_most(few, ops.shape(x)[axis]))


def _from_row(x, first, num_rows):
    first = _at_most(first, num_rows)
    return slice_axis(x, ROWS, first, num_rows - first)
