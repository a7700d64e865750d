"""How a search ranks: by vectors, by words, or by both."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.retrieval.nearest import largest

NUMBERS = {"vectors": None, "words": None, "both": 0.4, "rrf": 60.0}
MOST_RANKED = 1000  # passages of a ranking that count in "rrf"


@dataclasses.dataclass(frozen=True)
class Scoring:
    """A way of ranking passages.

    "both" is a convex combination of scores, each scaled to [0, 1] over the passages:

        score = number * scaled words + (1 - number) * scaled vectors.

    "rrf", reciprocal rank fusion, is the sum of 1 / (number + rank) in both rankings.

    Attributes:
        by: str, a key of `NUMBERS`.
        number: float or None. The weight of words in "both", the constant of "rrf".

    Reference: [An analysis of fusion functions](https://arxiv.org/abs/2210.11934).
    """

    by: str = "vectors"
    number: float | None = None

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
