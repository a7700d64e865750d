"""Attention by its matrix, in full or in a block of it: logits, weights, output."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.backend.head_groups import heads_of_groups, rows_of_groups
from keras_posenc.backend.weighing import close, softmax, weighed
from keras_posenc.encodings.rotation import times_features
from keras_posenc.maps.columns import slice_axis
from keras_posenc.maps.diagonals import map_of_table


def attend_nothing(q, k, v):
    """`attend_with_map` where there is no text, no query or no key: zeros."""
    (batch, num_rows, heads), num_columns = ops.shape(q)[:3], ops.shape(k)[1]
    matrix = ops.zeros((batch, heads, num_rows, num_columns), "float32")
    return ops.zeros((batch, num_rows, heads, v.shape[-1]), q.dtype), matrix, matrix


def attend_explicitly(q, k, v, grid, rules):
    """The output (B, Tq, H, Dv) by the map in full, which is saved for the backward pass."""
    return by_head(_in_full(q, k, v, grid, rules)[0])


def attend_with_map(q, k, v, grid, rules):
    """`attend_explicitly`, with the weights before dropout and the logits before closing."""
    output, weights, logits, _ = _in_full(q, k, v, grid, rules)
    return by_head(output), zero_if_blind(weights, grid, grid.mask()), logits


def _in_full(q, k, v, grid, rules):
    q, k, v = by_head(q), columns_last(k), columns_last(v)
    carry = [encoding.carry(grid) for encoding in rules.hooks.scan]
    return matrix_of(q, k, v, grid, rules, carry)


def attend_cells(q, k, v, grid, rules, carry, output=None):
    """`weigh_cells` where encodings make the weights, or read them."""
    output, _, _, carry = matrix_of(q, k, v, grid, rules, carry)
    return output, carry


def matrix_of(q, k, v, grid, rules, carry):
    """Computes attention with an explicit matrix, or with a block of its rows.

    `q, k, v`: (B, H, Tq, D), (B, H / G, D, Tk) and (B, H / G, Dv, Tk). `grid`: with the content of
    its rows and columns, (B, T, H, D) each. `rules`: with their bias and hashes. `carry`: what the
    `scan` of each encoding receives, its `carry` or what it returned for the rows before. Returns
    the output (B, H, Tq, Dv), the weights before dropout, the logits before masking, and the carry
    of the next block.
    """
    logits, carry = logits_of(q, k, grid, rules, carry)
    mask = grid.mask()
    num_sinks, num_columns = len(rules.hooks.sink), ops.shape(k)[-1]
    of_all, opened = with_sinks(logits, mask, num_columns, rules)
    closed = of_all if mask is None else close(of_all, opened)
    normalizers = rules.hooks.normalize
    weights = normalizers[0].normalize(closed, grid) if normalizers else softmax(closed)
    weights = slice_axis(weights, -1, num_sinks, num_columns) if num_sinks else weights
    used = weights
    if rules.dropout:
        used = backend.keep_by_hash(weights / (1 - rules.dropout), rules.dropout, rules.hashes)
    used = ops.cast(used, v.dtype)
    output = weighed(used, v)
    for encoding in rules.hooks.value:
        output = output + by_head(ops.cast(encoding.value(used, grid), output.dtype))
    return zero_if_blind(output, grid, mask), weights, logits, carry


def weigh_cells(q, k, v, grid, rules, carry, output=None):
    """The output and carry of `matrix_of`, in fewer passes, where no encoding reads the weights.

    `q`, `k`, `v`, `grid`, `rules`, `carry`: as in `matrix_of`. `output`: the output, where a
    backend wants its gradient only.
    """
    logits, carry = logits_of(q, k, grid, rules, carry)
    v = v * ops.cast(1 / (1 - rules.dropout), v.dtype) if rules.dropout else v
    keep_logits = rules.hooks.read_logits
    mask, dropout, hashes = grid.mask(), rules.dropout, rules.hashes
    num_columns, opened = ops.shape(k)[-1], mask
    if rules.hooks.sink:
        logits, opened = with_sinks(logits, mask, num_columns, rules)
        v = with_columns(v, num_columns, rules)
        if dropout:
            hashes = hashes[0], with_columns(hashes[1], num_columns, rules)
    output = backend.weigh_values(logits, opened, v, dropout, hashes, output, keep_logits)
    return zero_if_blind(output, grid, mask), carry


def with_sinks(logits, mask, num_columns, rules):
    """Logits and mask, or None, with a column for each `sink` before the others."""
    sinks = [encoding.sink() for encoding in rules.hooks.sink]
    if not sinks:
        return logits, mask
    of_sinks = ops.stack([ops.cast(sink, "float32") for sink in sinks], axis=-1)[:, None]
    of_sinks = ops.broadcast_to(of_sinks, (*ops.shape(logits)[:-1], len(sinks)))
    logits = ops.concatenate([of_sinks, logits], axis=-1)
    return logits, None if mask is None else with_columns(mask, num_columns, rules, True)


def with_columns(x, num_columns, rules, value=0):
    """x (..., Tk or 1) with a column of this value for each `sink` before the others."""
    x = ops.broadcast_to(x, (*ops.shape(x)[:-1], num_columns))
    more = ops.full((*ops.shape(x)[:-1], len(rules.hooks.sink)), value, dtype=x.dtype)
    return ops.concatenate([more, x], axis=-1)


def zero_if_blind(x, grid, mask):
    """x (B, H, Tq, N) with zeros in the rows that see no column. `mask`: `grid.mask()`."""
    if mask is None or grid.every_row_sees():
        return x
    return ops.where(ops.any(mask, axis=-1, keepdims=True), x, ops.zeros((), x.dtype))


def by_head(x):
    """(B, T, H, D) as (B, H, T, D), or the other way round."""
    return ops.transpose(x, (0, 2, 1, 3))


def columns_last(x):
    """(B, T, H, D) as (B, H, D, T).

    The gradient of keys and values is then a product of the rows with the matrix. With its
    transpose XLA computes at half the rate or less on a CPU.
    """
    return ops.swapaxes(backend.lay_out(by_head(x)), -1, -2)


def columns_second(x):
    """(B, H, D, T) as (B, T, H, D)."""
    return ops.transpose(x, (0, 3, 1, 2))


def logits_of(q, k, grid, rules, carry):
    """The logits after all hooks, float32, and the carry of the next block."""
    if rules.hooks.decay:
        q, k = decayed(q, k, grid, rules)
        grid = grid.replace(encoded=(by_head(q), columns_second(k)))
    scaled = rows_of_groups(q * ops.cast(rules.scale, q.dtype), k.shape[1])
    in_full = rules.hooks.exact_logits and keras.backend.standardize_dtype(q.dtype) == "float32"
    product = backend.exact_product if in_full else backend.product
    logits = heads_of_groups(ops.cast(product(scaled, k), "float32"), q.shape[1])
    for term in bias_terms(grid, rules):
        logits = logits + ops.cast(term, "float32")
    hooks, carry = rules.hooks, list(carry)
    for encoding in hooks.encodings if hooks.read_logits else ():
        if encoding in hooks.score:
            logits = encoding.score(logits, grid.content.queries, grid)
        if encoding in hooks.scan:
            i = hooks.scan.index(encoding)
            logits, carry[i] = encoding.scan(logits, grid, carry[i])
    return logits, carry


def decayed(q, k, grid, rules, of_q=(2, 3), of_k=(3, 2)):
    """q and k times the `decay` of the encodings; `of_q`, `of_k` are their axes of tokens and of
    features."""
    for encoding in rules.hooks.decay:
        of_rows, of_columns = encoding.decay(grid)
        q, k = times_features(q, of_rows, *of_q), times_features(k, of_columns, *of_k)
    return q, k


def bias_terms(grid, rules):
    """The terms that are added to the logits."""
    terms = [e.bias(grid.content.queries, grid) for e in rules.hooks.bias]
    lines = [map_of_table(table, grid) for table in grid.content.distance_biases.values()]
    return [term for term in (rules.bias, *terms, *lines) if term is not None]
