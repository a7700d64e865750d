"""The computation of attention in a map or a block of it: logits, weights, output."""

import dataclasses

from keras import ops

from keras_posenc import backend
from keras_posenc.backend.shared import close, softmax
from keras_posenc.encodings.rotation import times_features
from keras_posenc.maps.diagonals import map_of_table
from keras_posenc.maps.dropout import dropout_hashes


@dataclasses.dataclass(frozen=True)
class Rules:
    """What attention computes with its queries, keys and values.

    Attributes:
        encodings: sequence of `Encoding`.
        scale: float. Factor of the products of queries and keys.
        bias: tensor of four axes added to the logits, broadcastable to (B, H, Tq, Tk), or None.
        dropout: float. Share of the weights to drop; 0 outside training.
        hashes: (B, H, Tq) and (1, Tk) int32 hashes of the dropout, or None.
        flash: True for a fused kernel, False for none, None for what the backend does best.
    """

    encodings: tuple = ()
    scale: float = 1.0
    bias: object = None
    dropout: float = 0.0
    hashes: tuple | None = None
    flash: bool | None = None

    def override(self, *hooks):
        """Whether any of the encodings overrides one of the hooks."""
        return any(encoding.overrides(hook) for encoding in self.encodings for hook in hooks)

    def need_all_columns(self):
        """Whether a block must read the columns that are closed to all of its rows, too.

        What fills up the last block of rows would enter the carry of a `scan`.
        """
        return any(e.execution.all_columns or e.overrides("scan") for e in self.encodings)

    def most_rows(self):
        """Number of rows beyond which a block would not be right, or None."""
        return min(filter(None, (e.execution.most_rows for e in self.encodings)), default=None)

    def dropping(self, dropout, q, k, seeds):
        """The same rules with dropout in the map of q and k, (B, T, H, D), by two integers.

        Its hashes are drawn here, once, so that a recomputed map drops the same cells.
        """
        (batch, num_rows, heads), num_columns = ops.shape(q)[:3], ops.shape(k)[1]
        hashes = dropout_hashes(seeds, batch, heads, num_rows, num_columns)
        return dataclasses.replace(self, dropout=dropout, hashes=hashes)

    def first_carry(self, grid):
        """dict, encoding -> the carry that its `scan` receives with the first rows."""
        return {e: e.carry(grid) for e in self.encodings if e.overrides("scan")}


def attend_nothing(q, k, v):
    """`attend_explicitly` where there is no text, no query or no key: zeros."""
    (batch, num_rows, heads), num_columns = ops.shape(q)[:3], ops.shape(k)[1]
    cells = ops.zeros((batch, heads, num_rows, num_columns), "float32")
    return ops.zeros((batch, num_rows, heads, v.shape[-1]), q.dtype), cells, cells


def attend_explicitly(q, k, v, grid, rules):
    """The map in full: output (B, Tq, H, Dv), weights before dropout, logits before closing."""
    carry = rules.first_carry(grid)
    q, k, v = by_head(q), columns_last(k), columns_last(v)
    output, weights, logits, _ = attend_cells(q, k, v, grid, rules, carry)
    return by_head(output), weights, logits


def attend_cells(q, k, v, grid, rules, carry):
    """Computes attention in a map, or in a block of it.

    Args:
        q, k, v: (B, H, Tq, D), (B, H, D, Tk) and (B, H, Dv, Tk).
        grid: `Grid` with the content of its rows and columns, (B, T, H, D) each.
        rules: `Rules`, with the bias and the hashes of these rows and columns.
        carry: dict, from `Rules.first_carry` or from the block of rows before.

    Returns:
        The output (B, H, Tq, Dv), the weights before dropout, the logits before closing, and the
        carry of the next block.
    """
    logits, carry = logits_of(q, k, grid, rules, carry)
    cells = grid.open()
    closed = logits if cells is None else close(logits, cells)
    normalizer = [e for e in rules.encodings if e.overrides("normalize")]
    weights = normalizer[0].normalize(closed, grid) if normalizer else softmax(closed)
    used = weights
    if rules.dropout:
        used = backend.keep_by_hash(weights / (1 - rules.dropout), rules.dropout, rules.hashes)
    used = ops.cast(used, v.dtype)
    output = ops.matmul(used, ops.swapaxes(v, -1, -2))
    for encoding in rules.encodings:
        if encoding.overrides("value"):
            output = output + by_head(ops.cast(encoding.value(used, grid), output.dtype))
    return zero_if_blind(output, grid, cells), weights, logits, carry


def weigh_cells(q, k, v, grid, rules, carry, output=None):
    """`attend_cells` for a softmax whose weights no encoding reads: the output and the carry, with
    fewer passes over the map.

    Args:
        output: the output, where a backend wants its gradient only.
    """
    logits, carry = logits_of(q, k, grid, rules, carry)
    v = v * ops.cast(1 / (1 - rules.dropout), v.dtype) if rules.dropout else v
    keep = rules.override("score", "scan")  # what these read is the logits themselves
    cells, dropout, hashes = grid.open(), rules.dropout, rules.hashes
    output = backend.weigh_values(logits, cells, v, dropout, hashes, output, keep)
    return zero_if_blind(output, grid, cells), carry


def zero_if_blind(x, grid, cells):
    """x (B, H, Tq, N) with zeros in the rows that see no column.

    Args:
        cells: `grid.open()`.
    """
    if cells is None or grid.every_row_sees():
        return x
    return ops.where(ops.any(cells, axis=-1, keepdims=True), x, ops.zeros((), x.dtype))


def by_head(x):
    """(B, T, H, D) as (B, H, T, D), or the other way round."""
    return ops.transpose(x, (0, 2, 1, 3))


def columns_last(x):
    """(B, T, H, D) as (B, H, D, T).

    The gradient of keys and values is then a product of the rows with the map, not with its
    transpose, which XLA computes at half the rate or less on a CPU.
    """
    return ops.swapaxes(backend.lay_out(by_head(x)), -1, -2)


def columns_second(x):
    """(B, H, D, T) as (B, T, H, D)."""
    return ops.transpose(x, (0, 3, 1, 2))


def logits_of(q, k, grid, rules, carry):
    """The logits after all hooks, float32, and the carry of the next block."""
    q, k = decayed(q, k, grid, rules)
    if rules.override("decay"):
        grid = grid.replace(encoded=(by_head(q), columns_second(k)))
    logits = ops.cast(backend.product(q * ops.cast(rules.scale, q.dtype), k), "float32")
    for term in bias_terms(grid, rules):
        logits = logits + ops.cast(term, "float32")
    carry = dict(carry)
    for encoding in rules.encodings:
        if encoding.overrides("score"):
            logits = encoding.score(logits, grid.content.queries, grid)
        if encoding.overrides("scan"):
            logits, carry[encoding] = encoding.scan(logits, grid, carry[encoding])
    return logits, carry


def decayed(q, k, grid, rules, of_q=(2, 3), of_k=(3, 2)):
    """q and k times the `decay` of the encodings; `of_q`, `of_k` are their axes of tokens and of
    features."""
    for encoding in rules.encodings:
        if encoding.overrides("decay"):
            of_rows, of_columns = encoding.decay(grid)
            q, k = times_features(q, of_rows, *of_q), times_features(k, of_columns, *of_k)
    return q, k


def bias_terms(grid, rules):
    """The terms that are added to the logits."""
    terms = [e.bias(grid.content.queries, grid) for e in rules.encodings if e.overrides("bias")]
    lines = [map_of_table(table, grid) for table in grid.content.distance_biases.values()]
    return [term for term in (rules.bias, *terms, *lines) if term is not None]
