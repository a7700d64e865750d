"""Attention by blocks of rows: memory linear in the number of tokens, whatever the encodings do.

A block's map is formed, used and forgotten, and formed again in the backward pass; only what an
encoding hands on to the next block, a number for each column, is kept of each. Columns that the
causal order or a window closes to a whole run of blocks are left out, as far as this is known
before the numbers are, but not where an encoding reads them or hands on a number for each. Padding
is not: in a batch that is cut to its longest text, no column is padding in all rows.
"""

import contextlib
import math

import keras
from keras import ops

from keras_posenc.encodings.columns import part
from keras_posenc.grid import AXES
from keras_posenc.layers.attend.dropout import hashes
from keras_posenc.layers.attend.explicit import (
    attend_cells,
    by_head,
    carried_at_first,
    columns_last,
    columns_second,
    holding,
    overridden,
)
from keras_posenc.layers.attend.lean import attend_leanly
from keras_posenc.layers.attend.loops import ROWS, over_rows

# The axes of rows and columns in what comes beside the grid.
MORE_AXES = {
    "q": (2, None),
    "k": (None, 3),
    "v": (None, 3),
    "bias": (-2, -1),
    "dropped_rows": (2, None),
    "dropped_columns": (None, 1),
    "weight": (None, None),
}


def attend_in_blocks(q, k, v, grid, scale, encodings, bias, dropout, drawn, size, kernel=None):
    """The output (B, Tq, H, Dv), the same as that of `attend_explicitly`.

    Only a row without any open cell, whose output means nothing, may differ.

    Args:
        size: int, or on TensorFlow an int32 scalar. Rows of a block.
        kernel: function of (q, k, v, grid, bias) to use for a block in place of its map.
    """
    turned = {"q": by_head(q), "k": columns_last(k), "v": columns_last(v)}
    held = {(name, None): x for name, x in (turned | {"bias": bias}).items()}
    if dropout:
        batch, rows, heads = ops.shape(q)[:3]
        signs = hashes(drawn, batch, heads, rows, ops.shape(k)[1])
        held["dropped_rows", None], held["dropped_columns", None] = signs
    held |= _read(grid, q, k, v, encodings)
    start = carried_at_first(holding(grid, q, k, v), encodings)
    carrying = list(start)
    runs = _runs(grid, q, k, size, encodings)
    side_by_side = all(columns is None or len(columns) == 1 for _, columns in runs)
    # A block is given all that it reads: what it held itself would outlive the backward pass.
    grid = grid.replace(ids_are_indices=grid.ids_are_indices and side_by_side).holding({})
    weights = {}
    if keras.backend.backend() != "jax":
        # Frozen ones too: TensorFlow watches what is read, and a scope may hold other values.
        weights = {id(v): v for e in encodings for v in e.weights}
        held |= {("weight", key): ops.convert_to_tensor(v) for key, v in weights.items()}
    held = {key: ops.convert_to_tensor(x) for key, x in held.items() if x is not None}

    def run(held, carried, found):
        inner = grid.holding({key: x for key, x in held.items() if key[0] in AXES})
        inner.carried = dict(zip(carrying, carried, strict=True))
        return output(held, inner, found), [inner.carried[encoding] for encoding in carrying]

    def output(held, inner, found):
        def given(name):
            return held.get((name, None))

        q, k, v = given("q"), given("k"), given("v")
        tokens = by_head(q), columns_second(k), columns_second(v)
        inner = holding(inner, *tokens)
        mapping = [(variable, held["weight", key]) for key, variable in weights.items()]
        with keras.StatelessScope(mapping) if mapping else contextlib.nullcontext():
            if kernel is not None:
                return by_head(kernel(*tokens, inner, given("bias")))
            signs = given("dropped_rows"), given("dropped_columns")
            arguments = scale, encodings, given("bias"), dropout, signs
            if overridden(encodings, "normalize", "value"):
                return attend_cells(q, k, v, inner, *arguments)[0]
            return attend_leanly(q, k, v, inner, *arguments, found)

    outputs = [_run(run, held, rows, columns, size, list(start.values())) for rows, columns in runs]
    return by_head(ops.concatenate(outputs, axis=ROWS) if len(outputs) > 1 else outputs[0])


def _read(grid, q, k, v, encodings):
    """What the grid holds, as far as a map needs it, and nothing twice."""
    held = grid.held()
    if not overridden(encodings, "bias", "score", "normalize", "value"):
        content = ("queries", "keys", "values", "features", "tables")
        return {key: x for key, x in held.items() if key[0] not in content}
    same = {"queries": q, "keys": k, "values": v}
    return {key: x for key, x in held.items() if same.get(key[0]) is not x}


def _run(run, held, rows, columns, size, start):
    """The output (B, H, rows, Dv) of a run of rows, in blocks that see the given columns."""
    axes, cut, whole = [], {}, {}
    for key, x in held.items():
        row_axis, column_axis = (AXES | MORE_AXES)[key[0]]
        # A mask or a bias may be the same for all rows or columns.
        if column_axis is not None and x.shape[column_axis] != 1:
            x = _between(x, column_axis, columns)
        if row_axis is None or (x.shape[row_axis] == 1 and key[0] != "q"):
            whole[key] = x
            continue
        axes.append(row_axis)
        cut[key] = _between(x, row_axis, rows)
    keys = [*cut, *whole]

    def block(parts, others, carried, found=None):
        return run(dict(zip(keys, [*parts, *others], strict=True)), carried, found)

    q, v = held["q", None], held["v", None]
    shape, dtype = (*q.shape[:3], v.shape[2]), v.dtype
    given = list(cut.values()), axes, list(whole.values()), start
    return over_rows(block, *given, size, shape, dtype)


def _between(x, axis, ranges):
    """The parts of a tensor within the ranges, side by side; None: all of it."""
    if ranges in (None, [(0, x.shape[axis])]):
        return x
    parts = [part(x, axis, start, stop - start) for start, stop in ranges]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis)


def _runs(grid, q, k, size, encodings):
    """[(ranges of rows, ranges of the columns they need)]; None: all."""
    rows, columns = q.shape[1], k.shape[1]
    window = grid.window if grid.ids_are_indices else None
    ordered = grid.order_is_index or window is not None
    # Rows that fill up the last block of a run would be carried into the next one.
    needed = any(e.needs_all_columns or e.overrides("carry") for e in encodings)
    if not ordered or needed or None in (rows, columns) or not isinstance(size, int):
        return [(None, None)]
    # Each run is a program of its own to compile: as many as save the most.
    count = 8 if keras.backend.backend() == "torch" else 4
    if window is not None:
        count = max(count, min(16, rows // math.ceil(window)))
    length = -(-rows // min(count, -(-rows // size)))
    # Row i of a cache may stand anywhere up to column i + later.
    later = max(0, columns - rows)
    runs = []
    for start in range(0, rows, length):
        stop = min(start + length, rows)
        seen = min(columns, stop + later) if grid.order_is_index else columns
        ranges = [(0, seen)]
        if window is not None:
            first = max(0, start - math.ceil(window) + 1)
            last = min(seen, stop + later + math.ceil(window) - 1)
            first = min(first, last - 1)
            sinks = min(seen, math.ceil(grid.sinks))
            ranges = [(0, sinks), (first, last)] if sinks < first else [(0, max(sinks, last))]
        runs.append(([(start, stop)], [part for part in ranges if part[1]]))
    return runs
