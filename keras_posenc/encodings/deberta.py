"""DeBERTa's disentangled attention: content-to-position and position-to-content terms."""

import math
from collections.abc import Iterable, Sequence

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.encodings.relative import NORMAL, whole_distance
from keras_posenc.maps.columns import band
from keras_posenc.maps.diagonals import (
    diagonal_distances,
    map_of_diagonals,
    prefers_diagonals,
    transposed_distances,
)

TERMS = ("c2p", "p2c")
PRODUCT = "bqhd,chd->bhqc"  # of heads and the rows of a table


def log_bucket(distance, buckets, max_distance):
    """Assigns distances to DeBERTa-v2's buckets: exact up to buckets / 2, then logarithmic.

    Beyond m = buckets / 2 the bucket is m + ceil((m - 1) ln(|r| / m) / ln((max_distance - 1) / m)),
    with the sign of r. `distance`: NumPy array of integers. `buckets`: int. Number of buckets in
    one direction. `max_distance`: int. The distance max_distance - 1 falls into the last bucket,
    buckets - 1. Returns a NumPy array of the shape of `distance`.

    Example:

    >>> log_bucket(np.array([-3, 4, 5, 11]), buckets=8, max_distance=12)
    array([-3,  4,  5,  7])
    """
    middle = buckets // 2
    size = np.abs(distance)
    fraction = np.log(np.maximum(size, middle) / middle) / math.log((max_distance - 1) / middle)
    far = middle + np.ceil(fraction * (middle - 1)).astype("int64")
    return np.where(size <= middle, distance, np.sign(distance) * far)


def _ends(x, table):
    """Products of heads with the first and the last row of a table, (2, B, H, T, 1)."""
    ends = backend.product(x, ops.stack([table[0], table[-1]]), "bkhd,chd->cbhk")
    return ops.expand_dims(ends, -1)  # LiteRT has no slices of five axes


@keras.saving.register_keras_serializable(package="keras_posenc")
class DeBERTaRelative(Encoding):
    """Disentangled attention: both the query and the key are multiplied with the relative position.

    For query i and key j it computes

        logits[i, j] = (q_i k_j + q_i K[d(i, j)] + k_j Q[d(j, i)]) / sqrt(3 D)
        d(i, j) = clip(b(i - j) + n, 0, 2n - 1).

    The second and third term are the bias (B, H, Tq, Tk). The tables K and Q are (2n, H, D).
    DeBERTa has one table of 2n rows for all layers, and each layer projects it. v2 uses the
    projections of the content for this: that is `shared=True`, where a `SharedTable` (2n, H D)
    holds the rows. Otherwise each layer has its own K and Q. In v1, b is the distance itself and n
    is `max_distance`. In v2, b assigns the distance to one of n = `buckets` buckets of growing
    width. The root counts the terms: 3 with both, 2 with one. Distances of float ids are rounded to
    the nearest integer.

    Args:
        max_distance: int. Distance from which on all distances share a row.
        buckets: None (v1) or int. Number of buckets in one direction, 256 in v2: even, at least 4
            and below 2 (max_distance - 1).
        terms: tuple. "c2p" (query times K), "p2c" (key times Q) or both.
        released: bool. Read Q at d(i, j), as the released code and its checkpoints do, instead of
            at d(j, i), as in the paper. Set it to use their weights.
        embeddings_initializer: Initializer of K and Q, or of the table.
        shared: bool. The table is passed to the call, from a `SharedTable`, and projected there.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[DeBERTaRelative(buckets=256)])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [DeBERTa: Decoding-enhanced BERT with Disentangled
    Attention](https://arxiv.org/abs/2006.03654), section 3.1; the buckets are those of the released
    v2.
    """

    paper = "https://arxiv.org/abs/2006.03654"
    projected = True

    def __init__(
        self,
        max_distance: int = 512,
        buckets: int | None = None,
        terms: str | Sequence[str] = TERMS,
        released: bool = False,
        embeddings_initializer: Initializer = NORMAL,
        **kwargs,
    ):
        super().__init__(**kwargs)
        max_distance = checks.whole("max_distance", max_distance)
        if buckets is not None:
            buckets = checks.whole("buckets", buckets)
            if buckets % 2 or not 4 <= buckets < 2 * (max_distance - 1):
                raise ValueError(
                    "`buckets` must be even, at least 4 and below 2 (max_distance - 1) = "
                    f"{2 * (max_distance - 1)}, so that half of them are exact. "
                    f"Received: {buckets}; DeBERTa-v2 has 256 for a distance of 512."
                )
        terms = (terms,) if isinstance(terms, str) else terms
        terms = tuple(checks.instance("terms", terms, Iterable, f"one or both of {TERMS}"))
        if not terms or len(set(terms)) < len(terms) or not set(terms) <= set(TERMS):
            raise ValueError(f"`terms` must be one or both of {TERMS}. Received: {terms!r}")
        self.max_distance = max_distance
        self.buckets = buckets
        self.terms = terms
        self.released = bool(released)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.span = buckets or max_distance
        # In each block all keys nearby meet all rows of Q.
        self.execution = Execution(min_rows=self.span)

    def build(self, heads_shape):
        super().build(heads_shape)
        if self.shared:
            return
        shape = (2 * self.span, self.num_heads, self.head_size)
        names = {"c2p": "key_table", "p2c": "query_table"}
        for term in self.terms:
            # A fresh initializer each: an unseeded instance draws the same values every time.
            initializer = self.embeddings_initializer.clone()
            table = self.add_weight(name=names[term], shape=shape, initializer=initializer)
            setattr(self, names[term], table)

    def table_arguments(self, num_heads, head_size):
        return {
            "name": "table",
            "shape": (2 * self.span, num_heads * head_size),
            "initializer": self.embeddings_initializer,
        }

    def _tables(self, grid):
        """K and Q; None for one that no term reads."""
        if self.shared:
            tables = grid.content.tables[self]
            return tables[0], tables[1]  # TensorFlow does not iterate over a tensor in an export
        return [getattr(self, name, None) for name in ("key_table", "query_table")]

    def index(self, distance):
        """The row d of the table for integer distances of any shape."""
        far = self.max_distance
        distance = backend.clip(distance, -far, far)
        if self.buckets is not None:
            # A table, since a float32 logarithm could round across the bound of a bucket.
            buckets = log_bucket(np.arange(-far, far + 1), self.buckets, far)
            distance = backend.take(buckets.astype("int32"), distance + far, 0)
        return backend.clip(distance + self.span, 0, 2 * self.span - 1)

    def heads(self, q, k, grid):
        """q / sqrt(1 + number of terms), (B, Tq, H, D), and k unchanged."""
        return q * ops.cast(1 / math.sqrt(1 + len(self.terms)), q.dtype), k

    def bias(self, q, grid):
        """(q_i K[d(i, j)] + k_j Q[d(j, i)]) / sqrt(3 D), (B, H, Tq, Tk)."""
        scale = 1 / math.sqrt((1 + len(self.terms)) * self.head_size)
        near = band(grid, self.max_distance)
        key_table, query_table = self._tables(grid)
        content = near.grid.content.keys
        take = self._by_diagonals if prefers_diagonals(near.grid) else self._by_cells
        of_queries, of_keys = take(near.grid)
        total = 0.0
        if "c2p" in self.terms:
            table = ops.cast(key_table, q.dtype) * scale
            far, taken = _ends(q, table), of_queries(q, table)
            total += near.put(taken, far[1], far[0])
        if "p2c" in self.terms:
            table = ops.cast(query_table, q.dtype) * scale
            far, taken = _ends(grid.content.keys, table), of_keys(content, table)
            far = ops.swapaxes(far, -1, -2)
            before, after = (far[1], far[0]) if self.released else (far[0], far[1])
            total += near.put(ops.transpose(taken, (0, 1, 3, 2)), before, after)
        return total

    def _by_cells(self, grid):
        """Functions of heads and a table: the term of queries (B, H, Tq, Tk), that of keys (B, H,
        Tk, Tq), by a look-up for each cell."""
        distance = whole_distance(grid)
        # Once for both terms: onnxscript writes a faulty file if one tensor is clipped twice.
        index = self.index(distance)

        def of_queries(q, table):
            return backend.take_last(backend.product(q, table, PRODUCT), index[:, None])

        def of_keys(k, table):
            by_key = ops.transpose(index if self.released else self.index(-distance), (0, 2, 1))
            return backend.take_last(backend.product(k, table, PRODUCT), by_key[:, None])

        return of_queries, of_keys

    def _by_diagonals(self, grid):
        """The same by a product with the row of each diagonal."""

        def of_queries(q, table):
            rows = backend.take(table, self.index(diagonal_distances(grid)), 0)
            return map_of_diagonals(backend.product(q, rows, PRODUCT))

        def of_keys(k, table):
            distance = transposed_distances(grid)
            rows = backend.take(table, self.index(distance if self.released else -distance), 0)
            return map_of_diagonals(backend.product(k, rows, PRODUCT))

        return of_queries, of_keys
