"""Context parallelism: the rows of a text on several devices, each of which sees all keys.

The mesh of `keras.distribution` has an axis "sequence". Each device computes its rows in blocks, as
a single one would. Keys and values are sent to all devices once in a layer and direction; under a
window, devices send each other the columns that it reaches beyond their own.
"""

import keras

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, ROWS, axis_along, prepare, run
from keras_posenc.attention.matrix import by_head

# Blocks of fewer rows of local attention would mostly read what is around them.
FEWEST_ROWS = 16


def splits_sequence(q, k, hooks):
    """Whether the rows of this call are computed on several devices."""
    shards = backend.sequence_shards(q)
    if shards == 1 or hooks.scan:  # its carry goes from row to row
        return False
    return q.shape[1] % shards == 0 and k.shape[1] % shards == 0


def attend_over_devices(q, k, v, grid, rules, block_rows, compute):
    """Computes the same output (B, Tq, H, Dv) as `attend_in_blocks`.

    `block_rows`: int or None. Number of rows in a block of a device; None for all of them.
    """
    block, tensors, carry = prepare(q, k, v, grid, rules, compute, explicit=True)
    shards = backend.sequence_shards(q)
    num_rows, keys = q.shape[1] // shards, list(tensors)

    def on_one(values):
        rows = min(block_rows or num_rows, num_rows)
        return run(block, dict(zip(keys, values, strict=True)), rows, carry)

    split = [axis_along(key, x, "rows") for key, x in tensors.items()]
    gathered = [_columns(key, x, shards) for key, x in tensors.items()]
    return by_head(backend.over_sequence(on_one, list(tensors.values()), split, gathered, ROWS))


def rows_on_each_device(q, block_rows):
    """Number of rows, at most `block_rows`, in a block of local attention of which each device has
    whole ones, or None. What XLA would split by itself came out wrong on CPUs."""
    num_rows = q.shape[1] // backend.sequence_shards(q)
    sizes = range(min(block_rows, num_rows), FEWEST_ROWS - 1, -1)
    return next((size for size in sizes if num_rows % size == 0), None)


def run_with_neighbours(function, rows, columns, first):
    """function(rows, columns, first, extend) with the rows and columns of each device.

    Args:
        function: Takes three dicts of tensors with the keys of `prepare`, and a function `extend`.
            That one takes a tensor, its axis of columns, and the numbers of columns to add before
            and after those of the device.
        rows, columns: Dicts of tensors, which are split.
        first: Dict of tensors that all devices have.
    """
    groups = [list(group) for group in (rows, columns, first)]
    values = [x for group in (rows, columns, first) for x in group.values()]

    def on_one(values):
        values = iter(values)
        dicts = [{key: next(values) for key in keys} for keys in groups]
        return function(*dicts, backend.with_neighbours)

    split = [axis_along(key, x, "rows") for key, x in rows.items()]
    split += [AXES[key[0]].columns % len(x.shape) for key, x in columns.items()]
    split += [None] * len(first)
    return backend.over_sequence(on_one, values, split, [None] * len(values), ROWS)


def _columns(key, x, shards):
    """The axis of columns of what is worth sending: features, not ids, which each device makes."""
    axis = AXES[key[0]].columns
    ids = not keras.backend.is_float_dtype(x.dtype)
    if axis is None or ids or axis_along(key, x, "rows") is not None or x.shape[axis] % shards:
        return None
    return axis % len(x.shape)
