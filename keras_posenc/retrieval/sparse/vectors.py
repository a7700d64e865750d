"""Sparse vectors by rows: of each text the weights that are not 0."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class SparseVectors:
    """Sparse vectors by rows: text i has the entries from offsets[i] to offsets[i + 1].

    `scipy.sparse.csr_array((values, indices, offsets), shape=(len(vectors), size))` is the same
    matrix.

    Attributes:
        indices: (M,) int32 array, token ids, rising in each row.
        values: (M,) float32 array, their weights, positive.
        offsets: (N + 1,) int array, from 0 to M.
        size: int, the number of tokens in the vocabulary.

    Example:

    >>> rows = SparseVectors.of(np.array([[0, 2.0, 0], [1, 0, 3]]))
    >>> rows.indices.tolist(), rows.values.tolist(), rows.offsets.tolist()
    ([1, 0, 2], [2.0, 1.0, 3.0], [0, 1, 3])
    >>> rows.products(rows).tolist()
    [[4.0, 0.0], [0.0, 10.0]]
    """

    indices: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    size: int

    def __post_init__(self):
        indices, values, offsets = map(np.asarray, (self.indices, self.values, self.offsets))
        if indices.ndim != 1 or values.shape != indices.shape:
            raise ValueError(
                "`values` must have a number per index. Received: shapes "
                f"{values.shape} and {indices.shape}"
            )
        if indices.dtype.kind not in "iu" or offsets.dtype.kind not in "iu":
            raise ValueError(
                "`indices` and `offsets` must be whole numbers. Received: "
                f"{indices.dtype} and {offsets.dtype}"
            )
        steps = np.diff(offsets)
        if (
            offsets.ndim != 1
            or [*offsets[:1], *offsets[-1:]] != [0, len(indices)]
            or (steps < 0).any()
        ):
            raise ValueError(
                f"`offsets` must rise from 0 to the number of indices, {len(indices)}. Received: "
                f"{offsets.tolist()[:10]}"
            )
        rising = np.diff(indices, prepend=-1) > 0
        rising[offsets[:-1][steps > 0]] = True
        most = np.inf if self.size is None else self.size
        if not rising.all() or (indices < 0).any() or (indices >= most).any():
            raise ValueError(
                f"`indices` must rise in each row and be from 0 to {most} (not included). "
                f"Received: {indices.tolist()[:10]}"
            )

    def __len__(self):
        return len(self.offsets) - 1

    @classmethod
    def of(cls, weights, most=None):
        """Makes `SparseVectors` of dense ones.

        Args:
            weights: (N, V) array, not negative.
            most: int. Number of the largest weights to keep per row; None keeps all.
        """
        weights = np.asarray(weights, "float32")
        if most is not None and most < weights.shape[1]:
            order = np.argsort(-weights, axis=1, kind="stable")[:, most:]
            weights = weights.copy()
            np.put_along_axis(weights, order, 0.0, axis=1)
        rows, indices = np.nonzero(weights)
        counts = np.bincount(rows, minlength=len(weights))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        values = weights[rows, indices]
        return cls(indices.astype("int32"), values, offsets, weights.shape[1])

    def dense(self):
        """The same as an array (N, size) float32."""
        weights = np.zeros((len(self), self.size), "float32")
        weights[np.repeat(np.arange(len(self)), np.diff(self.offsets)), self.indices] = self.values
        return weights

    def products(self, others):
        """Scores: the dot products with other vectors, (N, N of the others) in float32.

        Args:
            others: `SparseVectors` of the same vocabulary.
        """
        if self.size != others.size:
            raise ValueError(
                "The vectors must be of one vocabulary. Received: "
                f"{self.size} and {others.size} tokens."
            )
        scores = np.zeros((len(self), len(others)), "float32")
        filled = np.flatnonzero(np.diff(others.offsets))
        starts = others.offsets[filled]
        if len(filled):
            for row, weights in enumerate(self.dense()):
                terms = weights[others.indices] * others.values
                scores[row, filled] = np.add.reduceat(terms, starts)
        return scores
