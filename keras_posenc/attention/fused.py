"""The fused attention kernels of the backends, which do not materialise the map."""

import math

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.matrix import (
    bias_terms,
    by_head,
    columns_second,
    decayed,
    with_columns,
    zero_if_blind,
)
from keras_posenc.backend.head_groups import repeated_heads
from keras_posenc.maps.columns import slice_axis

# The product of these is less than any logit, and each of them is a number of float16.
FOLDED = 2.0**15


def heads_of_map(q, grid, rules):
    """Number of heads for which the kernel gets a matrix, as bias or mask, or materialises one."""
    folded = _folds_padding(q, grid)
    if rules.has_bias() or backend.kernel_forms_map(q, folded):
        return ops.shape(q)[2]
    return int((grid.replace(key_mask=None) if folded else grid).is_by_cell())


def fused_cells(q, k, v, grid, rules, carry, output=None):
    """`weigh_cells` by the kernel."""
    heads = (*grid.content.encoded, columns_second(v))
    return by_head(attend_fused(*heads, grid, rules)), carry


def attend_fused(q, k, v, grid, rules):
    """Computes the output (B, Tq, H, Dv) for encodings that do not read the map."""
    dtype = q.dtype
    q, k = decayed(q, k, grid, rules, (1, 3), (1, 3))
    v = ops.cast(v, q.dtype)
    terms, seen = bias_terms(grid, rules), grid
    if _folds_padding(q, grid):
        q, k = _with_padding(q, k, grid.key_mask)
        grid = grid.replace(key_mask=None)
    causal = not terms and grid.is_causal()
    mask = None if causal else grid.mask()
    bias = None
    if terms:
        bias = sum((ops.cast(term, "float32") for term in terms[1:]), ops.cast(terms[0], "float32"))
    num_rows, sinks = ops.shape(q)[1], rules.hooks.sink
    if sinks:
        num_columns = ops.shape(k)[1]
        q, k, v = _with_sinks(q, k, v, rules, causal)
        bias = None if bias is None else with_columns(bias, num_columns, rules)
        mask = None if mask is None else with_columns(mask, num_columns, rules, True)
    # torch takes a bias or a mask, not both, and wants the bias in the dtype of the heads. For a
    # mask in float16 Keras adds -45,850, which is more than some logits are.
    half = keras.backend.standardize_dtype(q.dtype) == "float16"
    if mask is not None and (terms or half):
        bias, mask = _closed(bias, mask, half), None
    if bias is not None:
        bias = ops.cast(bias, q.dtype)
    even = backend.runs_cudnn(q)
    if even:
        q, k, v, bias, mask = _of_even_length(q, k, v, bias, mask, causal)
    q, k, v, size = _of_one_size(q, k, v)
    with backend.fused_kernels(q, k):
        arguments = bias, mask, rules.scale, causal, rules.flash, rules.dropout, rules.seed
        output = backend.dot_product_attention(q, k, v, *arguments)
    first = len(sinks) if causal else 0
    if first or even:
        output = slice_axis(output, 1, first, num_rows)
    output = ops.cast(output[..., :size], dtype)
    if seen.every_row_sees() or (unmasked := seen.mask()) is None:
        return output
    return by_head(zero_if_blind(by_head(output), seen, unmasked))


def drops_in_kernel(q, v, grid, rules):
    """Whether `attend_dropping` computes this map, before or after the encodings have acted."""
    if not rules.dropout or not backend.has_dropout_kernel(q) or q.shape[-1] != v.shape[-1]:
        return False
    if rules.flash is not None or rules.has_bias() or backend.is_exporting():
        return False
    hooks, by_cell = rules.hooks, grid.replace(key_mask=None).is_by_cell()
    return not any((hooks.read_map, hooks.sink, hooks.decay, hooks.most_rows, by_cell))


def attend_dropping(q, k, v, grid, rules):
    """Computes the same output (B, Tq, H, Dv) as `attend_explicitly`, and drops the same cells."""
    k, v = (repeated_heads(x, q.shape[2]) for x in (k, ops.cast(v, q.dtype)))
    causal = grid.replace(key_mask=None).is_causal()
    arguments = grid.key_mask, rules.hashes, rules.scale, rules.dropout, causal
    output = backend.dropout_kernel(q, k, v, *arguments)
    return by_head(zero_if_blind(by_head(output), grid, grid.mask()))


def _folds_padding(q, grid):
    """Whether padding is a feature of the keys: Keras on JAX would materialise the matrix to mask
    keys alone."""
    return grid.key_mask is not None and backend.runs_cudnn(q)


def _with_padding(q, k, key_mask):
    """q and k (B, T, H, D) with a feature by which padding gets less than any logit."""
    hidden = ops.where(ops.cast(key_mask, "bool"), 0.0, -FOLDED)[:, :, None, None]
    q = backend.pad(q, _AFTER_LAST, constant_values=FOLDED)
    more = ops.cast(hidden, k.dtype) + ops.zeros_like(k[..., :1])
    return q, ops.concatenate([k, more], axis=-1)


def _with_sinks(q, k, v, rules, causal):
    """q, k and v (B, T, H, D) with a key for each `sink` before the others.

    The logit of a sink is a feature of its own, which no other key has. In a causal order there are
    as many queries more, so that the kernel's order stays right.
    """
    for encoding in rules.hooks.sink:
        logit = ops.cast(encoding.sink(), "float32")[:, None] / rules.scale
        key = backend.pad(ops.zeros_like(k[:, :1]), _AFTER_LAST, constant_values=1)
        q = ops.concatenate([q, ops.cast(logit, q.dtype) + ops.zeros_like(q[..., :1])], axis=-1)
        k = ops.concatenate([key, backend.pad(k, _AFTER_LAST)], axis=1)
        v = backend.pad(v, _BEFORE_FIRST)
        q = backend.pad(q, _BEFORE_FIRST) if causal else q
    return q, k, v


_AFTER_LAST, _BEFORE_FIRST = [(0, 0)] * 3 + [(0, 1)], [(0, 0), (1, 0), (0, 0), (0, 0)]


def _of_even_length(q, k, v, bias, mask, causal):
    """Heads, bias and mask with a query and a key more where there is an odd number of them.

    JAX has no gradient of cuDNN's for others. In a causal order, the key comes after all queries.
    """
    rows, columns = q.shape[1] % 2, k.shape[1] % 2
    if not rows and not columns:
        return q, k, v, bias, mask
    if bias is None and mask is not None:
        bias = ops.cast(ops.where(mask, 0.0, -1e38), q.dtype)
    if bias is not None:
        bias = ops.broadcast_to(bias, (*ops.shape(bias)[:2], q.shape[1], k.shape[1]))
        half = keras.backend.standardize_dtype(bias.dtype) == "float16"
        least = -math.inf if half else -1e38
        bias = backend.pad(bias, [(0, 0), (0, 0), (0, 0), (0, columns)], constant_values=least)
        bias = backend.pad(bias, [(0, 0), (0, 0), (0, rows), (0, 0)])
    q = backend.pad(q, [(0, 0), (0, rows), (0, 0), (0, 0)])
    k, v = (backend.pad(x, [(0, 0), (0, columns), (0, 0), (0, 0)]) for x in (k, v))
    if bias is None and columns and not causal:
        q, k = _with_padding(q, k, ops.arange(k.shape[1])[None] < k.shape[1] - 1)
    return q, k, v, bias, None


def _closed(bias, mask, half):
    """The bias, or None for 0, with less than any logit in masked positions."""
    bias = ops.cast(0.0 if bias is None else bias, "float32")
    if not half:
        return ops.where(mask, bias, ops.cast(-1e38, "float32"))
    # Only infinity is less in float16. If it filled a row the output would not be a number.
    blind = ops.logical_not(ops.any(mask, axis=-1, keepdims=True))
    return ops.where(ops.logical_or(mask, blind), bias, ops.cast(-math.inf, "float32"))


def _of_one_size(q, k, v):
    """Pads q, k and v to one size with zeros, and returns them with the size of v.

    JAX has no kernel for other sizes, and torch would materialise whole maps.
    """
    size, multiple = v.shape[-1], backend.kernel_multiple(q)
    widest = -(-max(size, q.shape[-1]) // multiple) * multiple

    def widen(x):
        missing = widest - x.shape[-1]
        return backend.pad(x, [(0, 0), (0, 0), (0, 0), (0, missing)]) if missing else x

    return widen(q), widen(k), widen(v), size
