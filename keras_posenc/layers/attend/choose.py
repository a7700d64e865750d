"""The path of attention: which of them says what the encodings ask at the least cost."""

import keras
from keras import ops

from keras_posenc.device import on_accelerator
from keras_posenc.layers.attend import fused
from keras_posenc.layers.attend.blocked import attend_in_blocks
from keras_posenc.layers.attend.explicit import attend_explicitly, overridden

MB = 2**20
# Backend: bytes of a map, in float32, from which on it is cut, and bytes of a block's map. As
# measured, JAX and torch gain from a block that stays in cache, TensorFlow from few blocks.
SIZES = {
    "jax": (32 * MB, 8 * MB),
    "torch": (32 * MB, 8 * MB),
    "tensorflow": (32 * MB, 48 * MB),
}
# Of what a fused kernel is given: cutting it costs time and saves memory.
IN_KERNEL = (128 * MB, 32 * MB)
# A GPU wants more rows at a time.
ON_ACCELERATOR = (1024 * MB, 256 * MB)
# Times the usual bytes, of a block with the rows that an encoding asks for.
AT_MOST = 4
# Blocks of fewer rows would read the keys and values too often.
FEWEST_ROWS = 64


def attend(
    q,
    k,
    v,
    grid,
    scale,
    encodings=(),
    bias=None,
    dropout=0.0,
    drawn=None,
    flash=None,
    training=False,
):
    """The attention output (B, Tq, H, Dv), by the leanest path that can say what the encodings ask.

    A fused kernel where the backend has one and nothing needs the map itself. Otherwise the map is
    formed, and formed again in the backward pass rather than kept: a small one in one piece, a
    large one by blocks of rows, so that memory is linear in the number of tokens.

    Args:
        q, k, v: heads, as the encodings' `heads` left them.
        grid: `Grid` of the map; it holds the content where that is not q, k.
        scale: float. Factor of the logits.
        encodings: sequence of `Encoding`.
        bias: optional tensor for the logits, broadcastable to (B, H, Tq, Tk).
        dropout: float. Share of the weights dropped; 0 outside training.
        drawn: the dropout's two seed integers, drawn outside so that a recomputed map drops the
            same.
        flash: None (the backend decides), True or False, as in `keras.ops.dot_product_attention`.
        training: bool. Whether a backward pass will come.
    """
    if flash and _needs_map(encodings, dropout):
        raise ValueError(
            "A fused kernel cannot drop attention weights, nor run an encoding that reads the "
            "attention map. Set `dropout=0`, take such encodings out, or leave "
            "`flash_attention=None`."
        )
    if bias is not None:  # with an axis of rows and one of columns, to be cut
        bias = ops.convert_to_tensor(bias)
        bias = ops.reshape(bias, (*[1] * (4 - len(bias.shape)), *ops.shape(bias)))
    if grid.keep is not None and _keeps_all(grid.keep):
        grid = grid.replace(keep=None)
    grid = grid.replace(training=training)
    kernel = None
    if not forms_map(q, encodings, bias, dropout, flash):

        def kernel(q, k, v, grid, bias):
            return fused.attend_fused(q, k, v, grid, scale, encodings, bias, flash)

        of_map = fused.heads_of_map(q, k, grid, _biased(encodings, bias))
        size = block_rows(q, k, encodings, of_map, IN_KERNEL) if of_map else None
        if size is None:
            return kernel(q, k, v, grid, bias)
    else:
        sizes = SIZES[keras.backend.backend()]
        size = block_rows(q, k, encodings, ops.shape(q)[2], sizes)
        if size is None and not training:
            return attend_explicitly(q, k, v, grid, scale, encodings, bias, dropout, drawn)[0]
    size = ops.shape(q)[1] if size is None else size
    return attend_in_blocks(q, k, v, grid, scale, encodings, bias, dropout, drawn, size, kernel)


def _keeps_all(keep):
    """Whether it is known that no column is padding: a mask is a pass over the map, and bars the
    kernels for the causal order. To ask an accelerator would be to wait for it, and a program that
    is being traced is for other masks too."""
    if keras.backend.backend() != "torch":
        return False
    import torch

    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    keep = ops.convert_to_tensor(keep)
    return not traced and keep.device.type == "cpu" and bool(torch.all(keep))


def forms_map(q, encodings, bias, dropout, flash):
    """Whether `attend` forms the map itself, in one piece or in blocks."""
    if _needs_map(encodings, dropout):
        return True
    return not flash and not fused.has_fused_kernel(q, _biased(encodings, bias))


def _needs_map(encodings, dropout):
    """Whether no fused kernel could say it."""
    return bool(dropout) or overridden(encodings, "score", "normalize", "value")


def _biased(encodings, bias):
    return bias is not None or overridden(encodings, "bias")


def block_rows(q, k, encodings, heads, sizes):
    """Rows of a block; None where the map, of so many heads, is to be formed in one piece."""
    accelerated = on_accelerator(q)
    largest, wanted = ON_ACCELERATOR if accelerated else sizes
    batch, rows, columns = *ops.shape(q)[:2], ops.shape(k)[1]
    if isinstance(rows, int) and rows <= FEWEST_ROWS:
        return None
    asked = max((encoding.fewest_rows for encoding in encodings), default=0)
    bounds = [e.most_rows for e in encodings if e.most_rows and not accelerated]
    most = min(bounds, default=wanted)
    if all(isinstance(size, int) for size in (batch, rows, columns)):
        of_row = max(1, 4 * heads * batch * columns)
        size = min(most, wanted // of_row)
        size = max(FEWEST_ROWS, size, min(asked, AT_MOST * wanted // of_row))
        return None if of_row * rows <= largest else size
    # TensorFlow learns the sizes later. A map can have more bytes than int32 can count.
    of_row = ops.maximum(4 * heads * ops.cast(batch, "int64") * ops.cast(columns, "int64"), 1)
    rows = ops.cast(rows, "int64")
    size = ops.minimum(most, wanted // of_row)
    size = ops.maximum(size, ops.minimum(asked, AT_MOST * wanted // of_row))
    size = ops.minimum(ops.maximum(FEWEST_ROWS, size), rows)
    return ops.cast(ops.where(of_row * rows <= largest, rows, size), "int32")
