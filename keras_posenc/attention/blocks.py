"""Attention in blocks of query rows: memory linear in the number of tokens, for all encodings.

The attention matrix of a block is computed, used and discarded, and computed again in the backward
pass. Only the carry of `scan` is saved, one number per key column.

The columns that a block reads do not depend on the values. With a window, it reads the columns
around it (`local.py`). With a causal order, it reads the columns up to itself, or up to the last
row of a run of blocks. Otherwise it reads all columns. Padding does not reduce them, because in a
batch that is truncated to its longest text no column is padding in every row.
"""

import contextlib
import dataclasses
from collections.abc import Callable

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.matrix import by_head, columns_last, columns_second
from keras_posenc.attention.rules import Rules
from keras_posenc.backend.shared_pass import is_compiling
from keras_posenc.maps.axes import axes_of, tensor, tensors_of, with_tensors
from keras_posenc.maps.columns import slice_axis
from keras_posenc.maps.grid import Grid

ROWS = 2  # their axis in the output of a block
# A TPU stores rows in tiles of this many, and the kernels of GPUs take even numbers of rows.
LANES = 128


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
    """What a block of rows reads."""

    q: object = tensor(rows=2)  # (B, H, Tq, D), (B, H / G, D, Tk) and (B, H / G, Dv, Tk)
    k: object = tensor(columns=3)
    v: object = tensor(columns=3)
    grid: Grid = None  # the rows and columns of the block
    bias: object = tensor(rows=-2, columns=-1)  # as in `Rules`
    row_hashes: object = tensor(rows=2)  # the `hashes` of `Rules`
    column_hashes: object = tensor(columns=1)
    # Maps ids to the values of the variables of the encodings.
    weights: dict = tensor(by_encoding=True)


AXES = axes_of(Inputs)


def attend_in_blocks(q, k, v, grid, rules, block_rows, compute):
    """Computes the same output (B, Tq, H, Dv) as `attend_explicitly`, block by block.

    `block_rows`: number of rows in a block. `compute`: a function such as `weigh_cells`.
    """
    block, tensors, carry = prepare(q, k, v, grid, rules, compute)
    known = None not in (q.shape[1], k.shape[1]) and isinstance(block_rows, int)
    runs = [(None, None)]
    if grid.order_is_index and known and not rules.hooks.all_columns:
        runs = _runs(q.shape[1], k.shape[1], block_rows)
    outputs = []
    for number, (row_range, column_range) in enumerate(runs):
        visible = {key: _cut(x, key, row_range, column_range) for key, x in tensors.items()}
        outputs.append(run(block.apart(number), visible, block_rows, carry))
    return by_head(ops.concatenate(outputs, axis=ROWS) if len(outputs) > 1 else outputs[0])


@dataclasses.dataclass(frozen=True)
class QueryBlock:
    """Attention of one block of rows, as a function of its arguments alone.

    It holds no tensors itself: they would stay in memory beyond the backward pass.

    `inputs`, `rules`: without tensors. `compute`: as in `attend_in_blocks`. `variables`: dict, from
    ids to variables of the encodings, whose values are passed as arguments.
    """

    inputs: Inputs
    rules: Rules
    compute: Callable
    variables: dict

    def apart(self, number):
        """The same block, of a part of the map whose blocks drop other cells."""
        return dataclasses.replace(self, rules=self.rules.of_block(number))

    def __call__(self, tensors, carry, output=None, number=0):
        """Computes the block's output (B, H, rows, Dv) and the carry of the next block.

        `tensors`: dict, with the keys of `prepare`. `output`: the saved output, when only its
        gradient is needed. `number`: int. Which of several blocks it is, where dropout needs to
        know.
        """
        inputs = with_tensors(self.inputs, tensors)
        q, k, v = inputs.q, inputs.k, inputs.v
        grid = inputs.grid.with_heads(by_head(q), columns_second(k), columns_second(v))
        hashes = inputs.row_hashes, inputs.column_hashes
        rules = dataclasses.replace(self.rules.of_block(number), bias=inputs.bias, hashes=hashes)
        values = [(variable, inputs.weights[key]) for key, variable in self.variables.items()]
        with keras.StatelessScope(values) if values else contextlib.nullcontext():
            return self.compute(q, k, v, grid, rules, carry, output)


def prepare(q, k, v, grid, rules, compute, explicit=False):
    """Makes the `QueryBlock` of a map, the tensors that it reads, and the first carry.

    The tensors are a dict, (name, encoding or None) -> tensor, with the names of `AXES`.
    `explicit`: bool. The weights of the encodings are among them.
    """
    variables = {}
    if explicit or not (backend.TRAITS.closures_have_gradients or is_compiling()):
        # Frozen ones too: TensorFlow watches what is read, and a scope may hold other values.
        variables = {id(w): w for e in rules.hooks.encodings for w in e.weights}
    carry = [encoding.carry(grid) for encoding in rules.hooks.scan]
    hashes = rules.hashes or (None, None)
    heads = by_head(q), columns_last(k), columns_last(v)
    inputs = Inputs(*heads, grid, rules.bias, *hashes, variables)
    same = {"queries": q, "keys": k, "values": v}
    hooked = rules.hooks.bias or rules.hooks.read_map
    tensors = {
        key: ops.convert_to_tensor(x)
        for key, x in tensors_of(inputs).items()
        if same.get(key[0]) is not x and (hooked or not AXES[key[0]].for_hooks)
    }
    rules = dataclasses.replace(rules, bias=None, hashes=None)
    return QueryBlock(with_tensors(inputs, {}), rules, compute, variables), tensors, carry


def run(block, tensors, block_rows, carry, columns=None, at_once=1):
    """Computes the output (B, H, Tq, Dv) of a map in blocks of `block_rows` rows.

    `block`, `tensors`, `carry`: as `prepare` makes them. `columns`: None, or the columns of each of
    N blocks, dict of tensors (N, ...). `at_once`: int, a divisor of N. So many blocks are one with
    a larger batch, which needs columns for each, no carry, and that all blocks read weights only.
    """
    batch, num_rows = (ops.shape(tensors["q", None])[axis] for axis in (0, ROWS))
    count = (num_rows + block_rows - 1) // block_rows
    if columns is None:  # blocks of even size
        block_rows, columns = _even_rows(tensors["q", None], num_rows, block_rows), {}
    else:
        count = ops.shape(columns["k", None])[0]
    stacked, whole = dict(columns), {}
    for key, x in tensors.items():
        axis = axis_along(key, x, "rows")
        if axis is None:
            whole[key] = x
        else:
            stacked[key] = _stacked(x, axis, count, block_rows)
    if at_once > 1:
        stacked = {key: _as_one_batch(x, batch, at_once) for key, x in stacked.items()}
    keys = [*stacked, *whole]

    def of_lists(of_block, of_all, carry, output=None, number=0):
        return block(dict(zip(keys, [*of_block, *of_all], strict=True)), carry, output, number)

    q, v = (stacked | whole)["q", None], (stacked | whole)["v", None]
    output_shape, dtype = (*q.shape[1:4], v.shape[-2]), v.dtype
    outputs = backend.map_blocks(
        of_lists, list(stacked.values()), list(whole.values()), carry, output_shape, dtype
    )
    if at_once > 1:
        outputs = ops.reshape(outputs, (count, batch, *ops.shape(outputs)[2:]))
    return _joined(outputs, num_rows)


def axis_along(key, x, side):
    """The axis of a tensor along which it differs, or None if it is the same everywhere.

    `key`, `x`: a tensor of `prepare` with its key. A mask or a bias may have one row for all.
    `side`: "rows" or "columns" of the map.
    """
    axis = getattr(AXES[key[0]], side)
    if axis is None or (x.shape[axis] == 1 and key[0] != "q"):
        return None
    return axis % len(x.shape)


def _as_one_batch(x, batch, size):
    """The parts (N, B or 1, ...) of N blocks as (N / size, size B, ...)."""
    count, _, *shape = ops.shape(x)
    x = ops.broadcast_to(x, (count, batch, *shape))
    return ops.reshape(x, (count // size, size * batch, *shape))


def _even_rows(q, num_rows, block_rows):
    """At most `block_rows` rows, so that no block is much shorter than the others."""
    count = (num_rows + block_rows - 1) // block_rows
    rows = (num_rows + count - 1) // count
    if isinstance(rows, int) and count > 1 and backend.on_accelerator(q):
        return min(block_rows, -(-rows // LANES) * LANES)
    return rows


def _stacked(x, axis, count, size):
    """Splits the row axis of x into `count` blocks on a new first axis, padded by the last row."""
    shape = ops.shape(x)
    missing = count * size - shape[axis]
    if not isinstance(missing, int) or missing:
        last = ops.take(x, [shape[axis] - 1], axis=axis)
        x = ops.concatenate([x, ops.repeat(last, missing, axis=axis)], axis=axis)
    x = ops.reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]))
    return ops.moveaxis(x, axis, 0)


def _joined(x, num_rows):
    """The blocks (N, B, H, rows, Dv) as (B, H, Tq, Dv), without what follows the last row."""
    count, batch, heads, size, width = ops.shape(x)
    x = ops.reshape(ops.moveaxis(x, 0, ROWS), (batch, heads, count * size, width))
    even = isinstance(count * size, int) and isinstance(num_rows, int) and count * size == num_rows
    return x if even else slice_axis(x, ROWS, 0, num_rows)


def _cut(x, key, row_range, column_range):
    """Slices a tensor to a range of rows and a range of columns; None is the whole axis."""
    for side, range_ in (("rows", row_range), ("columns", column_range)):
        axis = axis_along(key, x, side)
        if None not in (axis, range_) and range_ != (0, x.shape[axis]):
            start, stop = range_
            x = slice_axis(x, axis, start, stop - start)
    return x


def _runs(num_rows, num_columns, block_rows):
    """Pairs of a range of rows and the range of columns that they see in a causal order."""
    # Each run is a program of its own to compile: as many as save the most.
    length = -(-num_rows // min(backend.TRAITS.row_runs, -(-num_rows // block_rows)))
    # Row i of a cache may stand anywhere up to column i + later.
    later = max(0, num_columns - num_rows)
    starts = range(0, num_rows, length)
    stops = [min(start + length, num_rows) for start in starts]
    return [((a, b), (0, min(num_columns, b + later))) for a, b in zip(starts, stops, strict=True)]
