"""Several vectors per text, one after the other, and the scores of late interaction."""

import dataclasses

import numpy as np

BLOCK_BYTES = 2**26  # of the products of query and document tokens that are in memory at a time


@dataclasses.dataclass(frozen=True)
class MultiVectors:
    """Several vectors per text: those of text i are `vectors[offsets[i]:offsets[i + 1]]`.

    Attributes:
        vectors: (M, D) float32 array, of all texts.
        offsets: (N + 1,) int array, from 0 to M.

    Example:

    >>> found = MultiVectors(np.eye(3), np.array([0, 1, 3]))
    >>> len(found), found[1].shape
    (2, (2, 3))
    """

    vectors: np.ndarray
    offsets: np.ndarray

    def __post_init__(self):
        offsets = np.asarray(self.offsets)
        ends = [0, len(self.vectors)]
        if (
            offsets.ndim != 1
            or len(offsets) < 2
            or [offsets[0], offsets[-1]] != ends
            or (np.diff(offsets) < 1).any()
        ):
            raise ValueError(
                f"`offsets` must rise from 0 to the number of vectors, {len(self.vectors)}, with "
                f"at least one vector per text. Received: {offsets.tolist()[:10]}"
            )

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, number):
        number = range(len(self))[number]
        return self.vectors[self.offsets[number] : self.offsets[number + 1]]


def maxsim(queries, documents, block_bytes=BLOCK_BYTES):
    """Returns the scores (Q, N) of every document for every query by late interaction.

    score(q, d) = sum over the vectors i of q of the max over the vectors j of d of q_i . d_j.

    Documents are compared block by block, so that memory does not grow with their number, and
    without padding.

    Args:
        queries, documents: `MultiVectors`.
        block_bytes: int. Bytes of the products that are in memory at a time; one document is
            always allowed.

    Example:

    >>> queries = MultiVectors(np.eye(3), np.array([0, 1, 3]))
    >>> maxsim(queries, queries).tolist()
    [[1.0, 0.0], [0.0, 2.0]]

    Reference: [ColBERT](https://arxiv.org/abs/2004.12832).
    """
    size, other = queries.vectors.shape[1], documents.vectors.shape[1]
    if size != other:
        raise ValueError(
            f"The vectors of queries and documents must be of one size. Received: {size} and "
            f"{other} numbers."
        )
    vectors = np.asarray(queries.vectors, "float32")
    scores = np.empty((len(queries), len(documents)), "float32")
    most = max(1, block_bytes // (4 * len(vectors)))
    first = 0
    while first < len(documents):
        start = documents.offsets[first]
        last = int(np.searchsorted(documents.offsets, start + most, side="right")) - 1
        last = min(max(last, first + 1), len(documents))
        offsets = documents.offsets[first : last + 1]
        block = np.asarray(documents.vectors[start : offsets[-1]], "float32")
        best = np.maximum.reduceat(vectors @ block.T, offsets[:-1] - start, axis=1)
        scores[:, first:last] = np.add.reduceat(best, queries.offsets[:-1], axis=0)
        first = last
    return scores
