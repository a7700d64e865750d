"""Context parallelism: the rows of a text on several devices, each of which sees all keys.

The mesh of `keras.distribution` has an axis "sequence". Each device computes its rows in blocks, as
a single one would; keys and values are sent to all devices once in a layer and direction.
"""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, ROWS, prepare, run
from keras_posenc.attention.matrix import by_head


def splits_sequence(q, k, hooks):
    """Whether the rows of this call are computed on several devices."""
    shards = backend.sequence_shards(q)
    if shards == 1 or hooks.scan:  # its carry goes from row to row
        return False
    return q.shape[1] % shards == 0 and k.shape[1] % shards == 0


def attend_over_devices(q, k, v, grid, rules, block_rows, compute):
    """Computes the same output (B, Tq, H, Dv) as `attend_in_blocks`.

    Args:
        block_rows: int or None. Number of rows in a block of a device; None for all of them.
    """
    block, tensors, carry = prepare(q, k, v, grid, rules, compute, explicit=True)
    output = run_over_devices(block, tensors, block_rows, carry)
    return by_head(output)


def run_over_devices(block, tensors, block_rows, carry, columns=None):
    """`blocks.run`, with the rows, and the columns of the blocks, split over devices."""
    shards = backend.sequence_shards(tensors["q", None])
    num_rows = ops.shape(tensors["q", None])[ROWS] // shards
    columns = columns or {}
    keys, several = list(tensors), list(columns)

    def on_one(values):
        whole, around = values[: len(keys)], values[len(keys) :]
        around = dict(zip(several, around, strict=True)) or None
        rows = min(block_rows or num_rows, num_rows)
        return run(block, dict(zip(keys, whole, strict=True)), rows, carry, around)

    values = [*tensors.values(), *columns.values()]
    split = [_rows(key, tensors[key]) for key in keys] + [0] * len(several)
    gathered = [_columns(key, tensors[key], shards) for key in keys] + [None] * len(several)
    return backend.over_sequence(on_one, values, split, gathered, ROWS)


def _rows(key, x):
    axis = AXES[key[0]].rows
    one = axis is None or (x.shape[axis] == 1 and key[0] != "q")
    return None if one else axis % len(x.shape)


def _columns(key, x, shards):
    """The axis of columns of what is worth sending: features, not ids, which each device makes."""
    axis = AXES[key[0]].columns
    ids = not keras.backend.is_float_dtype(x.dtype)
    if axis is None or ids or _rows(key, x) is not None or x.shape[axis] % shards:
        return None
    return axis % len(x.shape)
