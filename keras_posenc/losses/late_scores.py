"""Scores of late interaction in training: products in blocks, computed again in the backward pass.

The products of all tokens of queries with all tokens of documents have the square of the number of
tokens in a batch. Only the largest product of each query token with each document is kept.
"""

from keras import ops

from keras_posenc import backend

# Of the products of a block. Its gradient takes a few times as many.
BLOCK_BYTES = 8 * 2**20
CLOSED = -1e9


def scores_of_all(queries, documents):
    """Scores (B, N) of each query with each document.

    `queries`: (B, Tq, D + 1), vectors, and 1 for those that are scored, 0 for others. `documents`:
    (N, T, D + 1), likewise.
    """

    def of_these(tensors):
        return _in_blocks(*tensors, "tbd,nsd->tbns")

    if backend.batch_shards(queries) == 1:
        return of_these([queries, documents])
    # Each device compares its queries with the documents of all devices.
    return backend.over_batch(of_these, [queries, documents], [True, False])


def scores_of_each(queries, documents):
    """Scores (B, N) of query (B, Tq, D + 1) i with its own documents (B, N, T, D + 1)."""
    return _in_blocks(queries, documents, "tbd,bnsd->tbns")


def _in_blocks(queries, documents, equation):
    """The scores (B, N) by blocks of tokens of queries; of few queries, where each has its own
    documents, of all queries else."""
    apart = len(documents.shape) == 3
    batch, length, width = (*ops.shape(queries)[:2], queries.shape[2])
    count, size = ops.shape(documents)[-3:-1]
    tokens, texts = _sizes(batch, length, count * size, apart)
    rows = _filled(_filled(queries, 0, texts), 1, tokens)
    groups, steps = ops.shape(rows)[0] // texts, ops.shape(rows)[1] // tokens
    rows = ops.reshape(rows, (groups, texts, steps, tokens, width))
    rows = ops.reshape(ops.transpose(rows, (2, 0, 3, 1, 4)), (-1, tokens, texts, width))

    def of_block(parts, whole, carry, output=None, number=0):
        (rows,), (vectors, scored) = parts, whole
        closed = scored <= 0
        is_query = rows[..., -1:] > 0

        def largest():
            products = ops.einsum(equation, rows[..., :-1], vectors)
            best = ops.max(ops.where(closed, CLOSED, products), axis=-1)
            return ops.sum(ops.where(is_query, best, 0.0), axis=0)

        def nothing():
            return ops.zeros((texts, count), "float32")

        # Queries are mostly short, and padded to the length of the documents.
        unscored = ops.logical_not(ops.any(is_query))
        return backend.choose(unscored, nothing, largest), carry

    whole = [documents[..., :-1], documents[..., -1]]
    shape = tuple(n if isinstance(n, int) else None for n in (texts, count))
    found = backend.map_blocks(of_block, [rows], whole, [], shape, "float32")
    found = ops.sum(ops.reshape(found, (steps, groups * texts, count)), axis=0)
    return found[:batch]


def _sizes(batch, length, columns, apart):
    """Numbers of tokens and of queries in a block."""
    if all(isinstance(n, int) for n in (batch, length, columns)):
        rows = max(1, BLOCK_BYTES // (4 * max(1, columns)))
        texts = max(1, min(batch, rows)) if apart else batch
        return max(1, min(length, rows // texts)), texts
    rows = BLOCK_BYTES // (4 * ops.maximum(1, ops.cast(columns, "int64")))
    rows = ops.cast(ops.maximum(1, rows), "int32")
    texts = ops.maximum(1, ops.minimum(batch, rows)) if apart else batch
    return ops.maximum(1, ops.minimum(length, rows // texts)), texts


def _filled(x, axis, size):
    """x with zeros up to a multiple of `size` along one of its first two axes."""
    missing = -ops.shape(x)[axis] % size
    if isinstance(missing, int) and not missing:
        return x
    sides = [(0, 0)] * 3
    sides[axis] = (0, missing)
    return ops.pad(x, sides)
