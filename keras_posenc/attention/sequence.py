"""Context parallelism: the rows of a text on several devices, each of which sees all keys.

The mesh of `keras.distribution` has an axis "sequence". Each device computes its rows in blocks, as
a single one would. Keys and values are sent to all devices once in a layer and direction; under a
window, devices send each other the columns that it reaches beyond their own.
"""

import contextlib
import dataclasses

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, ROWS, Inputs, axis_along, prepare, run
from keras_posenc.attention.matrix import by_head
from keras_posenc.maps.axes import tensors_of, with_tensors

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

    `function`: takes three dicts of tensors with the keys of `prepare`, and a function `extend`,
    which takes a tensor, its axis of columns, and the numbers of columns to add before and after
    those of the device. `rows`, `columns`: what is split. `first`: what all devices have.
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


def splits_batch(q, rules, kernel=None):
    """Whether each device computes this call for its own texts: where all texts share weights, and
    in a kernel, which XLA does not split."""
    shares = rules.bias is not None or any(e.weights for e in rules.hooks.encodings)
    return (shares or kernel is not None) and backend.batch_shards(q) > 1


def attend_per_device(path, q, k, v, grid, rules):
    """Computes path(q, k, v, grid, rules) on each device for its texts.

    `path`: function, as from `choose_path`, whose result is the output (B, Tq, H, Dv) alone.
    """
    variables = {id(w): w for e in rules.hooks.encodings for w in e.weights}
    hashes = rules.hashes or (None, None)
    record = Inputs(q, k, v, grid, rules.bias, *hashes, variables)
    tensors = tensors_of(record)
    # Queries and keys may be content, too: what is one tensor stays one.
    unique = {id(x): x for x in tensors.values()}
    split = {id(x): _has_batch(key, x, ops.shape(q)[0]) for key, x in tensors.items()}

    def of_one(values):
        values = dict(zip(unique, values, strict=True))
        inputs = with_tensors(record, {key: values[id(x)] for key, x in tensors.items()})
        q, k, v = inputs.q, inputs.k, inputs.v
        grid = inputs.grid.replace(encoded=(q, k))
        hashes = (inputs.row_hashes, inputs.column_hashes) if rules.hashes else None
        here = dataclasses.replace(rules, bias=inputs.bias, hashes=hashes)
        pairs = [(variable, inputs.weights[key]) for key, variable in variables.items()]
        with keras.StatelessScope(pairs) if pairs else contextlib.nullcontext():
            return path(q, k, v, grid, here)

    values = [ops.convert_to_tensor(x) for x in unique.values()]
    return backend.over_batch(of_one, values, [split[key] for key in unique])


def _has_batch(key, x, batch):
    """Whether the first axis of a tensor is the batch, not one text for all, nor another axis."""
    axes, rank = AXES[key[0]], len(x.shape)
    of_map = [axis % rank for axis in (axes.rows, axes.columns) if axis is not None]
    return bool(of_map) and 0 not in of_map and x.shape[0] == batch
