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
from keras_posenc.maps.columns import slice_axis


def heads_of_map(q, by_cell, biased):
    """Number of heads for which the kernel gets a matrix, as bias or mask, or materialises one.

    Args:
        by_cell: bool. The kernel gets a mask with an entry for each pair of query and key.
    """
    if biased or backend.kernel_forms_map(q):
        return ops.shape(q)[2]
    return int(by_cell)


def fused_cells(q, k, v, grid, rules, carry, output=None):
    """`weigh_cells` by the kernel."""
    heads = (*grid.content.encoded, columns_second(v))
    return by_head(attend_fused(*heads, grid, rules)), carry


def attend_fused(q, k, v, grid, rules):
    """Computes the output (B, Tq, H, Dv) for encodings that do not read the map."""
    dtype = q.dtype
    q, k = decayed(q, k, grid, rules, (1, 3), (1, 3))
    v = ops.cast(v, q.dtype)
    terms = bias_terms(grid, rules)
    causal = not terms and grid.is_causal()
    mask = unmasked = None if causal else grid.mask()
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
    q, k, v, size = _of_one_size(q, k, v)
    output = backend.dot_product_attention(q, k, v, bias, mask, rules.scale, causal, rules.flash)
    if sinks and causal:
        output = slice_axis(output, 1, len(sinks), num_rows)
    output = ops.cast(output[..., :size], dtype)
    if unmasked is None:
        return output
    return by_head(zero_if_blind(by_head(output), grid, unmasked))


def _with_sinks(q, k, v, rules, causal):
    """q, k and v (B, T, H, D) with a key for each `sink` before the others.

    The logit of a sink is a feature of its own, which no other key has. In a causal order there are
    as many queries more, so that the kernel's order stays right.
    """
    for encoding in rules.hooks.sink:
        logit = ops.cast(encoding.sink(), "float32")[:, None] / rules.scale
        key = ops.pad(ops.zeros_like(k[:, :1]), _AFTER_LAST, constant_values=1)
        q = ops.concatenate([q, ops.cast(logit, q.dtype) + ops.zeros_like(q[..., :1])], axis=-1)
        k = ops.concatenate([key, ops.pad(k, _AFTER_LAST)], axis=1)
        v = ops.pad(v, _BEFORE_FIRST)
        q = ops.pad(q, _BEFORE_FIRST) if causal else q
    return q, k, v


_AFTER_LAST, _BEFORE_FIRST = [(0, 0)] * 3 + [(0, 1)], [(0, 0), (1, 0), (0, 0), (0, 0)]


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
    size, multiple = v.shape[-1], backend.TRAITS.kernel_multiple
    widest = -(-max(size, q.shape[-1]) // multiple) * multiple

    def widen(x):
        missing = widest - x.shape[-1]
        return ops.pad(x, [(0, 0), (0, 0), (0, 0), (0, missing)]) if missing else x

    return widen(q), widen(k), widen(v), size
