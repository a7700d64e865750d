"""The choice of a path: the cheapest one that can compute what the encodings need."""

import dataclasses

from keras import ops

from keras_posenc import backend
from keras_posenc.attention import fused
from keras_posenc.attention.blocks import attend_in_blocks
from keras_posenc.attention.cells import attend_explicitly
from keras_posenc.attention.local import attend_locally, local_rows

MB = 2**20
# Bytes of a float32 map from which on it is cut, and of a block's map. On a CPU they are those of
# the backend's traits; of what a fused kernel is given, cutting costs time and saves memory.
IN_KERNEL = (128 * MB, 32 * MB)
ON_ACCELERATOR = (1024 * MB, 256 * MB)
# Times the usual bytes, of a block with the rows that an encoding asks for.
AT_MOST = 4
# Blocks of fewer rows would read the keys and values too often.
FEWEST_ROWS = 64


def attend(q, k, v, grid, rules, seeds=None, flash=None, training=False):
    """Computes the attention output (B, Tq, H, Dv) by the cheapest path that the encodings allow.

    A window costs what its cells cost. A fused kernel is used where the backend has one and no
    encoding needs the map. Otherwise the map is materialised, and recomputed in the backward pass
    instead of saved: a small one at once, a large one in blocks of rows, so that memory is linear
    in the number of tokens.

    Args:
        q, k, v: heads, after the encodings' `heads`.
        grid: `Grid` of the map; it holds the content queries and keys if they differ from q and k.
        rules: `Rules`.
        seeds: the two seed integers of the dropout, drawn outside so that a recomputed map drops
            the same cells.
        flash: None (the backend decides), True or False, as in `keras.ops.dot_product_attention`.
        training: bool. Whether a backward pass follows.
    """
    if flash and _needs_map(rules):
        raise ValueError(
            "A fused kernel cannot drop attention weights, nor run an encoding that reads the "
            "attention map. Set `dropout=0`, take such encodings out, or leave "
            "`flash_attention=None`."
        )
    if rules.bias is not None:  # with an axis of rows and one of columns, to be cut
        bias = ops.convert_to_tensor(rules.bias)
        bias = ops.reshape(bias, (*[1] * (4 - len(bias.shape)), *ops.shape(bias)))
        rules = dataclasses.replace(rules, bias=bias)
    if grid.keep is not None and backend.all_true(grid.keep):
        grid = grid.replace(keep=None)
    grid = grid.replace(training=training)
    formed = forms_map(q, rules, flash)
    kernel = None if formed else _kernel(rules, flash)
    if not backend.is_exporting() and (block_rows := local_rows(q, k, grid, rules)):
        return attend_locally(q, k, v, grid, rules, block_rows, seeds, kernel)
    if formed:
        traits = backend.TRAITS
        sizes = traits.map_bytes, traits.block_bytes
        block_rows = rows_of_block(q, k, rules.encodings, ops.shape(q)[2], sizes)
        if block_rows is None and not training:
            return attend_explicitly(q, k, v, grid, rules, seeds)[0]
    else:
        of_map = fused.heads_of_map(q, k, grid, _biased(rules))
        block_rows = rows_of_block(q, k, rules.encodings, of_map, IN_KERNEL) if of_map else None
        if block_rows is None:
            return fused.attend_fused(q, k, v, grid, rules, flash)
    block_rows = ops.shape(q)[1] if block_rows is None else block_rows
    return attend_in_blocks(q, k, v, grid, rules, block_rows, seeds, kernel)


def _kernel(rules, flash):
    """The fused kernel as a function of a block's tensors."""
    rules = dataclasses.replace(rules, bias=None)  # which would outlive the backward pass

    def kernel(q, k, v, grid, bias):
        return fused.attend_fused(q, k, v, grid, dataclasses.replace(rules, bias=bias), flash)

    return kernel


def forms_map(q, rules, flash):
    """Whether `attend` materialises the map, at once or in blocks."""
    return _needs_map(rules) or (not flash and not backend.has_kernel(q, _biased(rules)))


def _needs_map(rules):
    """Whether a hook reads the map, so that no fused kernel can compute it."""
    return bool(rules.dropout) or rules.override("score", "scan", "normalize", "value")


def _biased(rules):
    return rules.bias is not None or rules.override("bias")


def rows_of_block(q, k, encodings, heads, sizes):
    """Number of rows in a block, or None if the map is to be materialised at once.

    Args:
        sizes: (bytes of a map from which on it is cut, bytes of a block's map), on a CPU.
    """
    if backend.is_exporting():
        return None
    accelerated = backend.on_accelerator(q)
    map_bytes, block_bytes = ON_ACCELERATOR if accelerated else sizes
    batch, rows, columns = *ops.shape(q)[:2], ops.shape(k)[1]
    if isinstance(rows, int) and rows <= FEWEST_ROWS:
        return None
    min_rows = max((e.execution.min_rows for e in encodings), default=0)
    bounds = [e.execution.max_rows for e in encodings if e.execution.max_rows]
    max_rows = min(bounds, default=block_bytes) if not accelerated else block_bytes
    if all(isinstance(size, int) for size in (batch, rows, columns)):
        of_row = max(1, 4 * heads * batch * columns)
        size = min(max_rows, block_bytes // of_row)
        size = max(FEWEST_ROWS, size, min(min_rows, AT_MOST * block_bytes // of_row))
        return None if of_row * rows <= map_bytes else size
    # TensorFlow learns the sizes later. A map can have more bytes than int32 can count.
    of_row = ops.maximum(4 * heads * ops.cast(batch, "int64") * ops.cast(columns, "int64"), 1)
    rows = ops.cast(rows, "int64")
    size = ops.minimum(max_rows, block_bytes // of_row)
    size = ops.maximum(size, ops.minimum(min_rows, AT_MOST * block_bytes // of_row))
    size = ops.minimum(ops.maximum(FEWEST_ROWS, size), rows)
    return ops.cast(ops.where(of_row * rows <= map_bytes, rows, size), "int32")
