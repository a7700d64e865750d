"""Softmax attention over a grid: the only place that knows what each backend is good at.

Shapes: q (B, Tq, H, D), k (B, Tk, H, D), v (B, Tk, H, Dv); logits and weights (B, H, Tq, Tk).
"""

import keras
from keras import ops


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
    formed, and while training it is formed again in the backward pass rather than kept.

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
    needs_map = dropout or _any_overrides(encodings, "score", "normalize", "value")
    if flash and needs_map:
        raise ValueError(
            "A fused kernel cannot drop attention weights, nor run an encoding that reads the "
            "attention map. Set `dropout=0`, take such encodings out, or leave "
            "`flash_attention=None`."
        )
    biased = bias is not None or _any_overrides(encodings, "bias")
    if not needs_map and (flash or _has_fused_kernel(biased)):
        return _fused(q, k, v, grid, scale, encodings, bias, flash)

    # TensorFlow's recomputation has no gradient for what a function reads from outside: whatever
    # the hooks read is an argument.
    reads_content = needs_map or _any_overrides(encodings, "bias")
    content = _content(grid) if reads_content else {}
    features = grid.features if reads_content else {}
    tables = grid.tables if reads_content else {}

    def output(q, k, v, *rest):
        rest = list(rest)
        bias_ = None if bias is None else rest.pop(0)
        held = {name: rest.pop(0) for name in content}
        features_ = {encoding: rest.pop(0) for encoding in features}
        tables_ = dict(zip(tables, rest, strict=True))
        inner = grid.replace(**held, features=features_, tables=tables_)
        return attend_explicitly(q, k, v, inner, scale, encodings, bias_, dropout, drawn)[0]

    arguments = [q, k, v, *([] if bias is None else [bias])]
    arguments += [*content.values(), *features.values(), *tables.values()]
    return keras.remat(output)(*arguments) if training else output(*arguments)


def _content(grid):
    held = {"queries": grid.queries, "keys": grid.keys}
    return {name: tensor for name, tensor in held.items() if tensor is not None}


def attend_explicitly(q, k, v, grid, scale, encodings=(), bias=None, dropout=0.0, drawn=None):
    """The map in full: output (B, Tq, H, Dv), weights before dropout, logits before closing."""
    grid = _holding(grid, q, k, v)
    logits = ops.einsum("bqhd,bkhd->bhqk", q * ops.cast(scale, q.dtype), k)
    logits = ops.cast(logits, "float32")
    for term in _bias_terms(grid, encodings, bias):
        logits = logits + ops.cast(term, "float32")
    for encoding in encodings:
        if encoding.overrides("score"):
            logits = encoding.score(logits, grid.queries, grid)
    weights = _weights(_close(logits, grid.open()), grid, encodings)
    kept = drop_weights(weights, dropout, drawn) if dropout else weights
    kept = ops.cast(kept, v.dtype)
    output = ops.einsum("bhqk,bkhd->bqhd", kept, v)
    for encoding in encodings:
        if encoding.overrides("value"):
            output = output + ops.cast(encoding.value(kept, grid), output.dtype)
    return output, weights, logits


def _any_overrides(encodings, *hooks):
    return any(encoding.overrides(hook) for encoding in encodings for hook in hooks)


def _holding(grid, q, k, v):
    """The grid with what the hooks may read: the content is q and k unless it is there already."""
    queries = q if grid.queries is None else grid.queries
    keys = k if grid.keys is None else grid.keys
    return grid.replace(queries=queries, keys=keys, values=v, encoded=(q, k))


def _bias_terms(grid, encodings, bias):
    terms = [e.bias(grid.queries, grid) for e in encodings if e.overrides("bias")]
    return [term for term in (bias, *terms) if term is not None]


def _weights(closed, grid, encodings):
    for encoding in encodings:
        if encoding.overrides("normalize"):
            return encoding.normalize(closed, grid)
    # Of a single key the weight is 1, and Keras warns about a softmax over one number.
    return ops.ones_like(closed) if closed.shape[-1] == 1 else ops.softmax(closed, axis=-1)


def _close(logits, cells):
    """Closes cells by a finite -1e9: a row with none open is uniform on every backend, not NaN."""
    if cells is None:
        return logits
    return logits + ops.cast(ops.logical_not(cells), "float32") * -1e9


def _has_fused_kernel(biased):
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    # Keras before 3.14 has no way to add a bias there.
    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    return backend == "torch" and (version >= (3, 14) or not biased)


def _fused(q, k, v, grid, scale, encodings, bias, flash):
    cells = grid.open()
    terms = _bias_terms(_holding(grid, q, k, v), encodings, bias)
    bias = None
    if terms:
        # torch takes a bias or a mask, not both, and wants the bias in the dtype of the heads.
        bias = sum((ops.cast(term, "float32") for term in terms[1:]), ops.cast(terms[0], "float32"))
        if cells is not None:
            half = keras.backend.standardize_dtype(q.dtype) == "float16"
            bias, cells = ops.where(cells, bias, -3e4 if half else -1e9), None
        bias = ops.cast(bias, q.dtype)
    q, k, v, size = _of_one_size(q, k, v)
    output = ops.dot_product_attention(
        q, k, v, bias=bias, mask=cells, scale=scale, flash_attention=flash
    )
    return output[..., :size]


def _of_one_size(q, k, v):
    """The heads, and the size of v; JAX wants v as wide as q and k, and zeros change nothing."""
    size, widest = v.shape[-1], max(v.shape[-1], q.shape[-1])
    if keras.backend.backend() != "jax" or size == q.shape[-1]:
        return q, k, v, size

    def widen(x):
        return ops.pad(x, [(0, 0), (0, 0), (0, 0), (0, widest - x.shape[-1])])

    return widen(q), widen(k), widen(v), size


def drop_weights(weights, rate, drawn):
    """Drops a share of the weights (B, H, Tq, Tk), the same ones whenever `drawn` is the same.

    Cell (i, j) is kept if the 32-bit product r_i c_j is at least rate 2^32, r_i and c_j being odd
    hashes of the seed and of the row or column. Two cells of one row, or of one column, are
    independent, and so, as far as tests can see, are any four; it costs two cheap passes over the
    map where counter-based random bits cost as much as the attention itself.

    Args:
        weights: (B, H, Tq, Tk).
        rate: float in (0, 1).
        drawn: two integers, as `SeedGenerator.next()` gives them.
    """
    batch, heads, rows, columns = ops.shape(weights)
    drawn = ops.cast(drawn, "int32")
    r = _odd_hash(batch * heads * rows, drawn[0], drawn[1])
    c = _odd_hash(columns, drawn[1], drawn[0] + 1)
    product = ops.reshape(r, (batch, heads, rows, 1)) * c
    kept = product >= int(rate * 2**32) - 2**31
    return weights * ops.cast(kept, weights.dtype) * (1 / (1 - rate))


def _odd_hash(length, seed, more):
    """(length,) odd int32, hashed from the index and two seeds by multiplying and shifting."""
    x = ops.arange(0, length, dtype="int32") + seed
    for word in (more, 0x2C1B3C6D):
        x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
        x = ops.bitwise_xor(x, ops.right_shift(x, 15)) * 0x46CA68AB
        x = ops.bitwise_xor(x, word)
    x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
    return ops.bitwise_or(ops.bitwise_xor(x, ops.right_shift(x, 15)), 1)
