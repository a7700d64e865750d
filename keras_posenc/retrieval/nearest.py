"""Exact search: the vectors with the largest products, block by block."""

import numpy as np

from keras_posenc.training.metrics import unit_rows

ROWS = 2**16  # of vectors that are compared together
MOST_PRODUCTS = 2**25  # that are in memory at a time


def nearest(queries, vectors, most, excluded=None, *, unit=False, rows=ROWS):
    """Finds the nearest vectors of each query.

    Args:
        queries: (Q, D) array.
        vectors: (N, D) array, which may be a memory map.
        most: int. Number of vectors to find per query.
        excluded: list of lists. Numbers of the vectors to leave out, per query. Default: none.
        unit: bool. Whether to scale the vectors to length 1 first.
        rows: int. Number of vectors that are compared together.

    Returns:
        list of (numbers, products) per query, the nearest first and ties by their numbers.
    """
    found, size = [], max(1, MOST_PRODUCTS // min(rows, len(vectors)))
    for start in range(0, len(queries), size):
        asked = queries[start : start + size]
        best = [(np.zeros(0, int), np.zeros(0, asked.dtype))] * len(asked)
        for first in range(0, len(vectors), rows):
            block = vectors[first : first + rows]
            products = asked @ (unit_rows(block) if unit else block).T
            for place, row in enumerate(products):
                if excluded is not None:
                    hidden = np.array(excluded[start + place], int) - first
                    row[hidden[(hidden >= 0) & (hidden < len(row))]] = -np.inf
                best[place] = _merged(best[place], first, row, most)
        found += best
    return found


def largest(scores, most):
    """The indices of the largest scores, the largest first and ties in order, without any -inf."""
    last = min(most, len(scores))
    best = np.argpartition(-scores, last - 1)[:last]
    best = best[np.lexsort((best, -scores[best]))]
    return best[scores[best] > -np.inf]


def _merged(best, first, row, most):
    """The best of the results so far and of a row of products, whose numbers start at `first`."""
    chosen = largest(row, most)
    numbers = np.concatenate([best[0], chosen + first])
    scores = np.concatenate([best[1], row[chosen]])
    order = largest(scores, most) if len(scores) else slice(None)
    return numbers[order], scores[order]
