"""Attention by the map in full, or by the part of it that a block of rows and columns is."""

import keras
from keras import ops

from keras_posenc.encodings.diagonals import bias_of_line
from keras_posenc.layers.attend.dropout import hashes, kept_of


def attend_explicitly(q, k, v, grid, scale, encodings=(), bias=None, dropout=0.0, drawn=None):
    """The map in full: output (B, Tq, H, Dv), weights before dropout, logits before closing."""
    batch, rows, heads = ops.shape(q)[:3]
    signs = hashes(drawn, batch, heads, rows, ops.shape(k)[1]) if dropout else None
    grid = holding(grid, q, k, v)
    grid = grid.replace(carried=carried_at_first(grid, encodings))
    q, k, v = by_head(q), columns_last(k), columns_last(v)
    output, *more = attend_cells(q, k, v, grid, scale, encodings, bias, dropout, signs)
    return by_head(output), *more


def by_head(x):
    """(B, T, H, D) as (B, H, T, D), or the other way round."""
    return ops.transpose(x, (0, 2, 1, 3))


def columns_last(x):
    """(B, T, H, D) as (B, H, D, T).

    The gradient of keys and values is then a product of rows with the map as it stands. The other,
    of the map turned round with rows, XLA forms at half the rate, or less, on a CPU.
    """
    x = by_head(x)
    if keras.backend.backend() == "torch":  # in memory by head, once, or each product would copy it
        x = x.contiguous()
    return ops.swapaxes(x, -1, -2)


def columns_second(x):
    """(B, H, D, T) as (B, T, H, D)."""
    return ops.transpose(x, (0, 3, 1, 2))


def attend_cells(q, k, v, grid, scale, encodings, bias, dropout, signs):
    """The same for a part of a map, whose rows and columns drop by their hashes in the whole.

    Args:
        q, k, v: (B, H, Tq, D), (B, H, D, Tk) and (B, H, Dv, Tk); the output is (B, H, Tq, Dv).
        grid: `Grid` that holds them, (B, T, H, D) each.
    """
    logits = logits_of(q, k, grid, scale, encodings, bias)
    weights = _weights(close(logits, grid.open()), grid, encodings)
    kept = kept_of(weights / (1 - dropout), dropout, signs) if dropout else weights
    kept = ops.cast(kept, v.dtype)
    output = ops.matmul(kept, ops.swapaxes(v, -1, -2))
    for encoding in encodings:
        if encoding.overrides("value"):
            output = output + by_head(ops.cast(encoding.value(kept, grid), output.dtype))
    return output, weights, logits


def logits_of(q, k, grid, scale, encodings, bias):
    """The scaled products of rows and columns and what encodings make of them, float32."""
    logits = ops.cast(ops.matmul(q * ops.cast(scale, q.dtype), k), "float32")
    for term in bias_terms(grid, encodings, bias):
        logits = logits + ops.cast(term, "float32")
    for encoding in encodings:
        if encoding.overrides("score"):
            logits = encoding.score(logits, grid.queries, grid)
    return logits


def overridden(encodings, *hooks):
    """Whether any of the encodings brings one of the hooks."""
    return any(encoding.overrides(hook) for encoding in encodings for hook in hooks)


def holding(grid, q, k, v):
    """The grid with what the hooks may read: the content is q and k unless it is there already."""
    queries = q if grid.queries is None else grid.queries
    keys = k if grid.keys is None else grid.keys
    values = v if grid.values is None else grid.values
    return grid.replace(queries=queries, keys=keys, values=values, encoded=(q, k))


def carried_at_first(grid, encodings):
    """dict, encoding -> what its `score` finds in the first rows, for those that bring `carry`."""
    return {e: e.carry(grid) for e in encodings if e.overrides("carry")}


def bias_terms(grid, encodings, bias):
    """The tensors to be added to the logits."""
    terms = [e.bias(grid.queries, grid) for e in encodings if e.overrides("bias")]
    lines = [bias_of_line(line, grid) for line in grid.lines.values()]
    return [term for term in (bias, *terms, *lines) if term is not None]


def _weights(closed, grid, encodings):
    for encoding in encodings:
        if encoding.overrides("normalize"):
            return encoding.normalize(closed, grid)
    return softmax(closed)


def softmax(closed):
    """The weights of each row. Of a single key it is 1, and Keras warns about such a softmax."""
    return ops.ones_like(closed) if closed.shape[-1] == 1 else ops.softmax(closed, axis=-1)


def close(logits, cells):
    """Closes cells by a finite -1e9: a row with none open is uniform on every backend, not NaN."""
    if cells is None:
        return logits
    return logits + ops.cast(ops.logical_not(cells), "float32") * -1e9
