"""Attention in blocks of query rows: memory linear in the number of tokens, for all encodings.

The attention map of a block is computed, used and discarded, and computed again in the backward
pass. All that is saved of a block is the carry of `scan`, one number per key column. Which columns
a block reads does not depend on the values:

- with a window, those around the block (`local.py`);
- in a causal order, those up to the block, or up to the last row of a run of blocks;
- otherwise all of them. Padding leaves out none: in a batch that is truncated to its longest text,
  no column is padding in every row.
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
    weigh_cells,
)
from keras_posenc.attention.fused import attend_fused
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
# What only a hook on the map reads.
READ_BY_HOOKS = ("queries", "keys", "values", "features", "tables")
ROWS = 2  # their axis in the output of a block


def attend_in_blocks(q, k, v, grid, rules, block_rows, fused=False):
    """Computes the same output (B, Tq, H, Dv) as `attend_explicitly`, block by block.

    Args:
        block_rows: int, or on TensorFlow an int32 scalar. Number of rows in a block.
        fused: bool. A block is computed by the backend's kernel.
    """
    block, tensors, carry = prepare(q, k, v, grid, rules, fused)
    known = None not in (q.shape[1], k.shape[1]) and isinstance(block_rows, int)
    runs = [(None, None)]
    if grid.order_is_index and known and not rules.need_all_columns():
        runs = _runs(q.shape[1], k.shape[1], block_rows)
    outputs = []
    for row_range, column_range in runs:
        visible = {key: _cut(x, key, row_range, column_range) for key, x in tensors.items()}
        outputs.append(run(block, visible, block_rows, carry))
    return by_head(ops.concatenate(outputs, axis=ROWS) if len(outputs) > 1 else outputs[0])


@dataclasses.dataclass(frozen=True)
class Block:
    """Attention of one block of rows, as a function of its arguments alone.

    It holds no tensors itself: they would stay in memory beyond the backward pass.

    Attributes:
        grid: `Grid` without tensors.
        rules: `Rules` without tensors.
        fused: as in `attend_in_blocks`.
        carrying: list of the encodings with a `scan`.
        weights: dict, id -> variable of the encodings, whose values are passed as arguments.
    """

    grid: Grid
    rules: Rules
    fused: bool
    carrying: list
    weights: dict

    def __call__(self, tensors, carry, output=None):
        """Computes the block's output (B, H, rows, Dv) and the carry of the next block.

        Args:
            tensors: dict, with the keys of `prepare`.
            carry: list of tensors.
            output: the saved output, when only its gradient is needed.
        """
        q, k, v = (tensors[name, None] for name in "qkv")
        heads = by_head(q), columns_second(k), columns_second(v)
        grid = self.grid.with_tensors({key: x for key, x in tensors.items() if key[0] in AXES})
        grid = grid.with_heads(*heads)
        hashes = tensors.get(("row_hashes", None)), tensors.get(("column_hashes", None))
        rules = dataclasses.replace(self.rules, bias=tensors.get(("bias", None)), hashes=hashes)
        values = [(weight, tensors["weight", key]) for key, weight in self.weights.items()]
        with keras.StatelessScope(values) if values else contextlib.nullcontext():
            if self.fused:
                return by_head(attend_fused(*heads, grid, rules)), carry
            carry = dict(zip(self.carrying, carry, strict=True))
            if rules.override("normalize", "value"):
                output, *_, carry = attend_cells(q, k, v, grid, rules, carry)
            else:
                output, carry = weigh_cells(q, k, v, grid, rules, carry, output)
        return output, [carry[encoding] for encoding in self.carrying]


def prepare(q, k, v, grid, rules, fused):
    """Makes the `Block` of a map, the tensors that it reads, and the first carry.

    The tensors are a dict, (name, encoding or None) -> tensor, with the names of `ALL_AXES`.
    """
    tensors = {("q", None): by_head(q), ("k", None): columns_last(k), ("v", None): columns_last(v)}
    same = {"queries": q, "keys": k, "values": v}
    hooked = rules.override("bias", "score", "scan", "normalize", "value")
    for key, x in grid.tensors().items():
        if same.get(key[0]) is not x and (hooked or key[0] not in READ_BY_HOOKS):
            tensors[key] = x
    tensors["bias", None] = rules.bias
    if rules.dropout:
        tensors["row_hashes", None], tensors["column_hashes", None] = rules.hashes
    carry = rules.first_carry(grid)
    weights = {}
    if not backend.TRAITS.closures_have_gradients:
        # Frozen ones too: TensorFlow watches what is read, and a scope may hold other values.
        weights = {id(w): w for e in rules.encodings for w in e.weights}
        tensors |= {("weight", key): w for key, w in weights.items()}
    tensors = {key: ops.convert_to_tensor(x) for key, x in tensors.items() if x is not None}
    rules = dataclasses.replace(rules, bias=None, hashes=None)
    block = Block(grid.with_tensors({}), rules, fused, list(carry), weights)
    return block, tensors, list(carry.values())


def run(block, tensors, block_rows, carry, columns=None):
    """Computes the output (B, H, Tq, Dv) of a map in blocks of `block_rows` rows.

    Args:
        block: `Block`.
        tensors: dict, with the keys of `prepare`.
        block_rows: int, or on TensorFlow an int32 scalar.
        carry: list of tensors.
        columns: None, or dict of tensors (N, ...): the columns of each of N blocks. Then there are
            at most N `block_rows` rows.
    """
    num_rows = ops.shape(tensors["q", None])[ROWS]
    count = (num_rows + block_rows - 1) // block_rows
    if columns is None:  # blocks of even size
        block_rows, columns = (num_rows + count - 1) // count, {}
    stacked, whole = dict(columns), {}
    for key, x in tensors.items():
        axis = ALL_AXES[key[0]][0]
        # A mask or a bias may be the same for all rows.
        if axis is None or (x.shape[axis] == 1 and key[0] != "q"):
            whole[key] = x
        else:
            stacked[key] = _stacked(x, axis, count, block_rows)
    keys = [*stacked, *whole]

    def of_lists(of_block, of_all, carry, output=None):
        return block(dict(zip(keys, [*of_block, *of_all], strict=True)), carry, output)

    q, v = (stacked | whole)["q", None], (stacked | whole)["v", None]
    output_shape, dtype = (*q.shape[1:4], v.shape[-2]), v.dtype
    outputs = backend.map_blocks(
        of_lists, list(stacked.values()), list(whole.values()), carry, output_shape, dtype
    )
    return _joined(outputs, ROWS, num_rows)


def _stacked(x, axis, count, size):
    """Splits the row axis of x into `count` blocks on a new first axis, padded by the last row."""
    axis %= len(x.shape)
    shape = list(ops.shape(x))
    missing = count * size - shape[axis]
    if not isinstance(missing, int) or missing:
        last = ops.take(x, [shape[axis] - 1], axis=axis)
        x = ops.concatenate([x, ops.repeat(last, missing, axis=axis)], axis=axis)
    x = ops.reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]))
    return ops.moveaxis(x, axis, 0)


def _joined(x, axis, num_rows):
    """Joins the blocks again, and drops the padding after the first `num_rows`."""
    axis %= len(x.shape) - 1
    x = ops.moveaxis(x, 0, axis)
    shape = ops.shape(x)
    x = ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
    return slice_axis(x, axis, 0, num_rows)


def _cut(x, key, row_range, column_range):
    """Slices a tensor to a range of rows and a range of columns; None is the whole axis."""
    for axis, range_ in zip(ALL_AXES[key[0]], (row_range, column_range), strict=True):
        # A mask or a bias may be the same for all rows or columns.
        if None in (axis, range_) or (x.shape[axis] == 1 and key[0] != "q"):
            continue
        start, stop = range_
        if range_ != (0, x.shape[axis]):
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
