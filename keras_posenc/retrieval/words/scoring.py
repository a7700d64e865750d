"""How a search ranks: by vectors, by words, or by both."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.retrieval.nearest import MOST_PRODUCTS, largest

NUMBERS = {"vectors": None, "words": None, "both": 0.4, "rrf": 60.0}
MOST_RANKED = 1000  # passages of a ranking that count in "rrf"


@dataclasses.dataclass(frozen=True)
class Scoring:
    """A way of ranking passages.

    "both" is a convex combination of scores, each scaled to [0, 1] over the passages:

        score = number * scaled words + (1 - number) * scaled vectors.

    "rrf", reciprocal rank fusion, is the sum of 1 / (number + rank) in both rankings.

    Reference: [An analysis of fusion functions](https://arxiv.org/abs/2210.11934).
    """

    by: str = "vectors"  # a key of `NUMBERS`
    number: float | None = None  # the weight of words in "both", the constant of "rrf"

    @classmethod
    def of(cls, given):
        """The way that a str names, such as "both:0.3"."""
        name, _, rest = str(given).partition(":")
        kind, number = checks.choice("scoring", name, tuple(NUMBERS)), NUMBERS.get(name)
        if rest:
            try:
                number = float(rest) if number is not None else 1 / 0
            except (ValueError, ZeroDivisionError):
                raise ValueError(
                    "`scoring` must be like 'vectors', 'words', 'both:0.5' or 'rrf:60'. "
                    f"Received: {given!r}"
                ) from None
            least, most = (0, 1) if kind == "both" else (1, None)
            checks.number(f"scoring {kind}", number, least=least, most=most)
        return cls(kind, number)

    @property
    def uses_words(self):
        return self.by != "vectors"

    @property
    def uses_vectors(self):
        return self.by != "words"

    def fuse(self, vectors, words):
        """The scores (N,) of passages for a query, from those by each way; -inf for passages that
        are left out. The one that is not used may be None."""
        if not self.uses_vectors:
            return words
        if self.by == "both":
            weight = np.float32(self.number)
            found = weight * _scaled(words) + (1 - weight) * _scaled(vectors)
            return np.where(np.isfinite(vectors), found, np.float32(-np.inf))
        found = np.where(np.isfinite(vectors), np.float32(0), np.float32(-np.inf))
        for scores in (vectors, np.where(words > 0, words, -np.inf)):
            best = largest(scores, MOST_RANKED)
            found[best] += 1 / (self.number + np.arange(1, len(best) + 1, dtype="float32"))
        return found


def _scaled(scores):
    """Scores from 0 to 1 over the passages that are not left out, which have 0."""
    there = np.isfinite(scores)
    least, most = scores[there].min(initial=np.inf), scores[there].max(initial=-np.inf)
    if not least < most:
        return np.zeros_like(scores)
    return np.where(there, (scores - least) / (most - least), np.float32(0))


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
