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

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, ROWS, axis_along, prepare, run
from keras_posenc.attention.matrix import by_head
from keras_posenc.attention.sequence import run_with_neighbours
from keras_posenc.maps.columns import slice_axis

FEWEST_ROWS = 64
# Below so many columns for each that a block reads, the whole map costs no more.
WORTH = 2
# Bytes of the float32 maps of the blocks that are computed at once where each call costs time.
AT_ONCE = 128 * 2**20


def local_rows(q, k, grid, rules):
    """Number of rows in a block of local attention.

    None if position ids are not indices, so that the window selects no range of columns, or if the
    map is too small.
    """
    if not grid.ids_are_indices or q.shape[1] != k.shape[1]:
        return None
    seen = grid.seen_by_all()
    if grid.query_index is not None and seen:  # by each document its own first ones
        return None
    if rules.hooks.all_columns or rules.hooks.earlier_columns:
        return None
    if grid.attention_mask is not None or rules.bias is not None:
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


def attend_locally(q, k, v, grid, rules, block_rows, compute, over_devices=False):
    """Computes the same output (B, T, H, Dv) as `attend_explicitly` under a window.

    `block_rows`: int, from `local_rows`. `compute`: function of a block, as in `attend_in_blocks`.
    `over_devices`: bool. The rows are split over several devices, each with whole blocks.
    """
    seen = grid.seen_by_all()
    # Columns that fill up the last chunk are none.
    key_mask = ops.ones((1, ops.shape(k)[1])) if grid.key_mask is None else grid.key_mask
    grid = grid.replace(key_mask=ops.cast(key_mask, "bool"))
    whole, tensors, carry = prepare(q, k, v, grid, rules, compute, explicit=over_devices)
    inputs = whole.inputs
    inputs = dataclasses.replace(inputs, grid=inputs.grid.replace(ids_are_indices=not seen))
    block = dataclasses.replace(whole, inputs=inputs)
    left = _chunks(math.ceil(grid.window) - 1, block_rows)
    right = 0 if grid.order_is_index else left
    # Ids start again in each document, so only the index keeps counting.
    # What fills the columns up is masked, and other orders need no numbers there.
    counted = ["key_index" if grid.query_index is not None else "key_positions"]
    counted += ["key_order"] if grid.order_is_index else []
    rows, columns, first = {}, {}, {}
    for key, x in tensors.items():
        axis = AXES[key[0]].columns
        if axis is None:
            rows[key] = x
            continue
        length = ops.shape(x)[axis]
        if seen:
            first[key] = slice_axis(x, axis, 0, _at_most(seen, length))
        if seen and key[0] == "key_mask":  # those that all see come before the chunks
            x = ops.logical_and(x, ops.arange(length, dtype="int32") >= seen)
        columns[key] = x

    width = (left + 1 + right) * block_rows + seen
    at_once = 1 if carry else _blocks_at_once(q, rules.hooks, rows, block_rows, width)

    def blocks_of(rows, columns, first, extended):
        count = (ops.shape(rows["q", None])[ROWS] + block_rows - 1) // block_rows
        count = -(-count // at_once) * at_once
        around = {}
        for key, x in columns.items():
            extend = _counted_on if key[0] in counted else extended
            around[key] = _neighbourhoods(key, x, count, block_rows, left, right, extend)
            if seen:
                shape = ops.shape(first[key])
                of_all = ops.broadcast_to(first[key][None], (count, *shape))
                axis = AXES[key[0]].columns % len(x.shape) + 1
                around[key] = ops.concatenate([of_all, around[key]], axis=axis)
        return run(block, rows, block_rows, carry, around, at_once)

    if over_devices:
        output = run_with_neighbours(blocks_of, rows, columns, first)
    else:
        output = blocks_of(rows, columns, first, _padded)
    num_rows = ops.shape(q)[1]
    if grid.global_tokens:
        few = min(math.ceil(grid.global_tokens), q.shape[1] or math.ceil(grid.global_tokens))
        first = {key: _first_rows(key, x, few) for key, x in tensors.items()}
        output = [run(whole.apart(1), first, few, carry), _from_row(output, few, num_rows)]
        output = ops.concatenate(output, axis=ROWS)
    return by_head(output)


def _blocks_at_once(q, hooks, rows, block_rows, width):
    """Number of blocks that are one batch.

    On a GPU, PyTorch takes longer to call the operations of a block than the GPU to compute them.
    Encodings that act on the map may read the place of its rows off the first text of the batch.
    """
    if not (backend.TRAITS.eager and backend.on_accelerator(q)):
        return 1
    if hooks.bias or hooks.read_map or hooks.decay:
        return 1
    if any(key[0] != "weights" and axis_along(key, x, "rows") is None for key, x in rows.items()):
        return 1
    batch, num_rows, heads = q.shape[:3]
    count = -(-num_rows // block_rows)
    most = max(1, AT_ONCE // (4 * batch * heads * block_rows * width))
    return -(-count // -(-count // most))


def _chunks(reach, block_rows):
    """Number of chunks that a window reaches to one side of a block."""
    return -(-reach // block_rows)


def _neighbourhoods(key, x, count, size, left, right, extend):
    """The columns that each of N blocks reads, (N, ...): its own chunk and those around it."""
    axis = AXES[key[0]].columns % len(x.shape)
    length, wanted = ops.shape(x)[axis], (count + right) * size
    if not isinstance(length, int):  # other columns than rows: later ones are in no window
        length = ops.minimum(length, wanted)
        x = slice_axis(x, axis, 0, length)
    x = extend(x, axis, left * size, wanted - length)
    shape = ops.shape(x)
    chunks = ops.reshape(x, (*shape[:axis], left + count + right, size, *shape[axis + 1 :]))
    shifted = [slice_axis(chunks, axis, i, count) for i in range(left + 1 + right)]
    return ops.moveaxis(ops.concatenate(shifted, axis=axis + 1), axis, 0)


def _counted_on(x, axis, before, after):
    """The ids before the first column and after the last one."""
    index = ops.arange(-before, ops.shape(x)[axis] + after, dtype="int32")
    return slice_axis(x, axis, 0, 1) + ops.cast(index, x.dtype)


def _padded(x, axis, before, after):
    sides = [(0, 0)] * len(x.shape)
    sides[axis] = (before, after)
    if keras.backend.standardize_dtype(x.dtype) == "bool":
        return backend.pad(ops.cast(x, "int32"), sides) > 0
    return backend.pad(x, sides)


def _at_most(number, length):
    return min(number, length) if isinstance(length, int) else ops.minimum(number, length)


def _first_rows(key, x, few):
    axis = axis_along(key, x, "rows")
    return x if axis is None else slice_axis(x, axis, 0, _at_most(few, ops.shape(x)[axis]))


def _from_row(x, first, num_rows):
    first = _at_most(first, num_rows)
    return slice_axis(x, ROWS, first, num_rows - first)
