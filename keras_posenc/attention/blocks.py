"""Attention by blocks of query rows: memory linear in the number of tokens, whatever the encodings
do.

A block's map is formed, used and forgotten, and formed again in the backward pass; only what an
encoding carries on to the next block, a number for each column, is kept of each. Which columns a
block reads is decided before the numbers are known:

- in a window, those around it (`local.py`);
- in a causal order, those up to it, or up to the last row of a run of blocks;
- else all. Padding is no reason to leave any out: in a batch that is cut to its longest text, no
  column is padding in all rows.
"""

import contextlib
import dataclasses

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.cells import (
    Rules,
    attend_cells,
    by_head,
    columns_last,
    columns_second,
    first_carry,
    weigh_cells,
    with_content,
)
from keras_posenc.maps.columns import slice_axis
from keras_posenc.maps.grid import AXES, Grid

# The axes of rows and of columns in what a block reads besides its grid.
MORE_AXES = {
    "q": (2, None),
    "k": (None, 3),
    "v": (None, 3),
    "bias": (-2, -1),
    "row_hashes": (2, None),
    "column_hashes": (None, 1),
    "weight": (None, None),
}
ALL_AXES = AXES | MORE_AXES
ROWS = 2  # their axis in the output of a block


def attend_in_blocks(q, k, v, grid, rules, block_rows, seeds=None, kernel=None):
    """The output (B, Tq, H, Dv), the same as that of `attend_explicitly`.

    Only a row without any open cell, whose output means nothing, may differ.

    Args:
        block_rows: int, or on TensorFlow an int32 scalar. Rows of a block.
        kernel: function of (q, k, v, grid, bias) to use for a block in place of its map.
    """
    block, tensors, carry = prepare(q, k, v, grid, rules.drawing(q, k, seeds), kernel)
    outputs = []
    for rows, columns in _runs(grid, q, k, block_rows, rules):
        part = {key: _between(x, key, rows, columns) for key, x in tensors.items()}
        outputs.append(run(block, part, block_rows, carry))
    return by_head(ops.concatenate(outputs, axis=ROWS) if len(outputs) > 1 else outputs[0])


@dataclasses.dataclass(frozen=True)
class Block:
    """Attention of one block of rows, as a function of nothing but the tensors that it is handed:
    what it held itself would outlive the backward pass.

    Attributes:
        grid: `Grid` without tensors.
        rules: `Rules` without tensors.
        kernel: as in `attend_in_blocks`.
        carrying: list of the encodings that carry something on.
        weights: dict, id -> variable of the encodings, whose values are handed over too.
    """

    grid: Grid
    rules: Rules
    kernel: object
    carrying: list
    weights: dict

    def __call__(self, tensors, carry, output=None):
        """The block's output (B, H, rows, Dv), and the carry of the next one.

        Args:
            tensors: dict, by the keys of `prepare`.
            carry: list of tensors.
            output: the output, where a backend wants its gradient only.
        """
        q, k, v = (tensors[name, None] for name in "qkv")
        heads = by_head(q), columns_second(k), columns_second(v)
        grid = self.grid.with_tensors({key: x for key, x in tensors.items() if key[0] in AXES})
        grid = with_content(grid, *heads)
        hashes = tensors.get(("row_hashes", None)), tensors.get(("column_hashes", None))
        rules = dataclasses.replace(self.rules, bias=tensors.get(("bias", None)), hashes=hashes)
        values = [(weight, tensors["weight", key]) for key, weight in self.weights.items()]
        with keras.StatelessScope(values) if values else contextlib.nullcontext():
            if self.kernel is not None:
                return by_head(self.kernel(*heads, grid, rules.bias)), carry
            carry = dict(zip(self.carrying, carry, strict=True))
            if rules.override("normalize", "value"):
                output, *_, carry = attend_cells(q, k, v, grid, rules, carry)
            else:
                output, carry = weigh_cells(q, k, v, grid, rules, carry, output)
        return output, [carry[encoding] for encoding in self.carrying]


def prepare(q, k, v, grid, rules, kernel=None):
    """The `Block` of a map, {(name, encoding or None): tensor} that it reads, and the first carry.

    The names are those of `ALL_AXES`.
    """
    tensors = {("q", None): by_head(q), ("k", None): columns_last(k), ("v", None): columns_last(v)}
    tensors |= _read_of(grid, q, k, v, rules)
    tensors["bias", None] = rules.bias
    if rules.dropout:
        tensors["row_hashes", None], tensors["column_hashes", None] = rules.hashes
    carry = first_carry(with_content(grid, q, k, v), rules)
    weights = {}
    if not backend.TRAITS.closures_have_gradients:
        # Frozen ones too: TensorFlow watches what is read, and a scope may hold other values.
        weights = {id(w): w for e in rules.encodings for w in e.weights}
        tensors |= {("weight", key): w for key, w in weights.items()}
    tensors = {key: ops.convert_to_tensor(x) for key, x in tensors.items() if x is not None}
    rules = dataclasses.replace(rules, bias=None, hashes=None)
    block = Block(grid.with_tensors({}), rules, kernel, list(carry), weights)
    return block, tensors, list(carry.values())


def _read_of(grid, q, k, v, rules):
    """The tensors of the grid, as far as a map needs them, and none twice."""
    tensors = grid.tensors()
    if not rules.override("bias", "score", "scan", "normalize", "value"):
        content = ("queries", "keys", "values", "features", "tables")
        return {key: x for key, x in tensors.items() if key[0] not in content}
    same = {"queries": q, "keys": k, "values": v}
    return {key: x for key, x in tensors.items() if same.get(key[0]) is not x}


def run(block, tensors, block_rows, carry, columns=None):
    """The output (B, H, Tq, Dv) of a map in blocks of so many rows.

    Args:
        block: `Block`.
        tensors: dict, by the keys of `prepare`.
        block_rows: int, or on TensorFlow an int32 scalar.
        carry: list of tensors.
        columns: None, or dict of tensors (N, ...): the columns of block i. Then the rows are N
            times `block_rows` at most.
    """
    rows = ops.shape(tensors["q", None])[ROWS]
    count = (rows + block_rows - 1) // block_rows
    if columns is None:  # blocks of even size
        block_rows, columns = (rows + count - 1) // count, {}
    stacked, whole = dict(columns), {}
    for key, x in tensors.items():
        axis = ALL_AXES[key[0]][0]
        # A mask or a bias may be the same for all rows.
        if axis is None or (x.shape[axis] == 1 and key[0] != "q"):
            whole[key] = x
        else:
            stacked[key] = _stacked(x, axis, count, block_rows)
    keys = [*stacked, *whole]

    def of_lists(parts, others, carry, output=None):
        return block(dict(zip(keys, [*parts, *others], strict=True)), carry, output)

    q, v = (stacked | whole)["q", None], (stacked | whole)["v", None]
    output_shape, dtype = (*q.shape[1:4], v.shape[-2]), v.dtype
    outputs = backend.map_blocks(
        of_lists, list(stacked.values()), list(whole.values()), carry, output_shape, dtype
    )
    return _joined(outputs, ROWS, rows)


def _stacked(x, axis, count, size):
    """x with its axis of rows cut into `count` on a new first axis; the last row fills it up."""
    axis %= len(x.shape)
    shape = list(ops.shape(x))
    missing = count * size - shape[axis]
    if not isinstance(missing, int) or missing:
        last = ops.take(x, [shape[axis] - 1], axis=axis)
        x = ops.concatenate([x, ops.repeat(last, missing, axis=axis)], axis=axis)
    x = ops.reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]))
    return ops.moveaxis(x, axis, 0)


def _joined(x, axis, rows):
    """What was cut, in one: the first `rows` of it."""
    axis %= len(x.shape) - 1
    x = ops.moveaxis(x, 0, axis)
    shape = ops.shape(x)
    x = ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
    return slice_axis(x, axis, 0, rows)


def _between(x, key, rows, columns):
    """The part of a tensor in a range of rows and in one of columns; None: all of it."""
    for axis, between in zip(ALL_AXES[key[0]], (rows, columns), strict=True):
        # A mask or a bias may be the same for all rows or columns.
        if None in (axis, between) or (x.shape[axis] == 1 and key[0] != "q"):
            continue
        start, stop = between
        if between != (0, x.shape[axis]):
            x = slice_axis(x, axis, start, stop - start)
    return x


def _runs(grid, q, k, block_rows, rules):
    """[(range of rows, range of the columns that the causal order leaves them)]; None: all."""
    rows, columns = q.shape[1], k.shape[1]
    # Rows that fill up the last block of a run would be carried into the next one.
    everything = any(e.execution.all_columns or e.overrides("scan") for e in rules.encodings)
    known = None not in (rows, columns) and isinstance(block_rows, int)
    if not grid.order_is_index or everything or not known:
        return [(None, None)]
    # Each run is a program of its own to compile: as many as save the most.
    length = -(-rows // min(backend.TRAITS.row_runs, -(-rows // block_rows)))
    # Row i of a cache may stand anywhere up to column i + later.
    later = max(0, columns - rows)
    starts = range(0, rows, length)
    stops = [min(start + length, rows) for start in starts]
    return [((a, b), (0, min(columns, b + later))) for a, b in zip(starts, stops, strict=True)]
