"""The passages with the best scores, by vectors, by words or by both."""

import numpy as np

from keras_posenc.retrieval.nearest import MOST_PRODUCTS, largest

ROUND = 4  # times as many passages are looked at, until there are enough texts


def ranked_passages(stored, queries, asked, way, top_k, *, normalize, allowed, index):
    """Finds the best passages of each query: (numbers, {"score": scores, ...}), the best first.

    `asked` are the vectors of the queries, None for words alone; `index` is None for vectors alone.
    """
    if index is None:
        found = stored.search(asked, top_k, normalize, allowed)
        return [(numbers, {"score": scores}) for numbers, scores in found]
    found, dense = [], isinstance(asked, np.ndarray)
    size = max(1, MOST_PRODUCTS // len(stored)) if dense else len(queries)
    for first in range(0, len(queries), size):
        by_vectors = [None] * size
        if asked is not None:
            part = asked[first : first + size] if dense else asked
            by_vectors = stored.scores(part, normalize)
        # The last part may be shorter.
        for query, vectors in zip(queries[first : first + size], by_vectors, strict=False):
            both = {"vector_score": vectors, "word_score": index.scores(query)}
            both = {name: scores for name, scores in both.items() if scores is not None}
            if allowed is not None:
                both = {name: np.where(allowed, each, -np.inf) for name, each in both.items()}
            scores = way.fuse(vectors=both.get("vector_score"), words=both["word_score"])
            numbers = largest(scores, top_k)
            if not way.uses_vectors:  # what has no word of the query is not found
                numbers = numbers[scores[numbers] > 0]
            found.append(
                (numbers, {n: each[numbers] for n, each in ({"score": scores} | both).items()})
            )
    return found


def best_of_each(find, keys, top_k):
    """The best passage of each text, in the form of `ranked_passages`; `keys` are, of each passage,
    the id of its text, and `find` is a function of a number of passages."""
    most = top_k
    while True:
        most = min(most * ROUND, len(keys))
        found, enough = [], True
        for numbers, scores in find(most):
            first = {}
            for place, number in enumerate(numbers):
                first.setdefault(keys[number], place)
            enough &= len(first) >= top_k or len(numbers) < most
            places = list(first.values())[:top_k]
            found.append((numbers[places], {n: each[places] for n, each in scores.items()}))
        if enough or most == len(keys):
            return found
