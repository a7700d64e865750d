"""Exact search: the vectors with the largest products, block by block."""

import numpy as np

ROWS = 2**16  # of vectors that are compared together
MOST_PRODUCTS = 2**25  # that are in memory at a time


def nearest(
    queries,
    vectors,
    most,
    excluded=None,
    *,
    allowed=None,
    lengths=None,
    rows=ROWS,
    where="`vectors`",
):
    """Finds the `most` nearest vectors (N, D), which may be a memory map, of each query, except
    `excluded`.

    Products are divided by `lengths`; `rows` vectors are compared together; `where` is what the
    vectors are, in an error. Returns (numbers, products) per query, the nearest first, ties by
    their numbers.
    """
    found, size = [], max(1, MOST_PRODUCTS // min(rows, len(vectors)))
    for start in range(0, len(queries), size):
        asked = queries[start : start + size]
        best = [(np.zeros(0, int), np.zeros(0, asked.dtype))] * len(asked)
        for first, products in products_of(asked, vectors, lengths, rows, where):
            if allowed is not None:
                products[:, ~allowed[first : first + rows]] = -np.inf
            for place, row in enumerate(products):
                if excluded is not None:
                    hidden = np.array(excluded[start + place], int) - first
                    row[hidden[(hidden >= 0) & (hidden < len(row))]] = -np.inf
                best[place] = _merged(best[place], first, row, most)
        found += best
    return found


def products_of(queries, vectors, lengths=None, rows=ROWS, where="`vectors`"):
    """Yields (first, products): those of a block of vectors from the number `first` on."""
    for first in range(0, len(vectors), rows):
        block = vectors[first : first + rows]
        with np.errstate(all="ignore"):  # what is not finite is refused
            products = queries @ block.T
        check_scores(products, where, first)
        if lengths is not None:
            # The products are far fewer numbers than the vectors, so these are not rescaled.
            products /= np.maximum(lengths[first : first + rows], 1e-12)
        yield first, products


def check_width(queries, vectors):
    """Refuses queries that are no vectors, or not of the width of the vectors."""
    if not isinstance(queries, np.ndarray) or queries.shape[1:] != vectors.shape[1:]:
        raise ValueError(
            f"`queries` must be an array (N, {vectors.shape[1]}), as `vectors` have these numbers: "
            "give the `dimension` of `embed`, or the model that made them; of one vector, "
            f"vector[None]. Received: shape {np.shape(queries)}, {type(queries).__name__}"
        )


def lengths_of(vectors, rows=ROWS):
    """The lengths (N,) of vectors, which may be a memory map, block by block, in float32, or
    float64 for such vectors."""
    dtype = np.result_type(vectors.dtype, "float32")  # squares of float16 overflow
    lengths = np.empty(len(vectors), dtype)
    for first in range(0, len(vectors), rows):
        block = vectors[first : first + rows]
        lengths[first : first + rows] = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=dtype))
    return lengths


def check_scores(scores, where, first=0):
    """Raises ValueError unless the scores (Q, N) of vectors, from the number `first` on, are
    finite."""
    if not np.isfinite(scores).all():
        number = first + int(np.flatnonzero(~np.isfinite(scores).all(axis=0))[0])
        raise ValueError(
            f"{where}: vector {number + 1} has a score that is no finite number, so it or a query "
            "has NaN, infinity, or a number too large. Embed the texts again, in float32 or "
            "bfloat16."
        )


def largest(scores, most):
    """The indices of the largest scores, the largest first and ties in order, without any -inf."""
    last = min(most, len(scores))
    if not last:  # where nothing may be found
        return np.zeros(0, int)
    bound = np.partition(scores, len(scores) - last)[len(scores) - last]
    above = np.flatnonzero(scores > bound)
    # Of those at the border the first ones, so that the best 5 begin the best 10.
    level = np.flatnonzero(scores == bound)[: last - len(above)]
    best = np.concatenate([above, level])
    best = best[np.lexsort((best, -scores[best]))]
    return best[scores[best] > -np.inf]


def _merged(best, first, row, most):
    """The best of the results so far and of a row of products, whose numbers start at `first`."""
    if len(best[0]) < most:
        chosen = largest(row, most)
    else:  # of equal scores the earlier number comes first
        chosen = np.flatnonzero(row > best[1][-1])
    numbers = np.concatenate([best[0], chosen + first])
    scores = np.concatenate([best[1], row[chosen]])
    order = largest(scores, most)
    return numbers[order], scores[order]
