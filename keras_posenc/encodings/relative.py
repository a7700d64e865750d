"""Tables indexed by clipped distance, added to keys and values (Shaw, NEZHA).

No tensor of size (T, T, D) is materialised: the queries are multiplied with the few rows of the
table, and cells within the clipping distance look up their product. For the values, the weights are
summed by table row first.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.maps.columns import band

# As BERT initialises its tables.
NORMAL = {"class_name": "RandomNormal", "config": {"stddev": 0.02}}


def whole_distance(grid):
    """Row minus column, (B, Tq, Tk) int32; distances of float ids are rounded to integers."""
    distance = grid.distance()
    if not keras.backend.is_int_dtype(distance.dtype):
        distance = ops.round(distance)
    return ops.cast(distance, "int32")


def summed_by_class(weights, index, classes):
    """Sums the weights of each row by an index.

    `weights`: (B, H, Tq, Tk). `index`: (B, Tq, Tk) int32, from 0 to C - 1. `classes`: int C.
    Returns (B, Tq, H, C) float32.
    """
    batch, heads, rows, columns = ops.shape(weights)
    weights = ops.transpose(ops.cast(weights, "float32"), (0, 2, 3, 1))
    first = ops.reshape(ops.arange(batch * rows, dtype="int32") * classes, (batch, rows, 1))
    segments = first + index
    weights, segments = ops.reshape(weights, (-1, heads)), ops.reshape(segments, (-1,))
    sums = backend.segment_sum(weights, segments, batch * rows * classes)
    return ops.transpose(ops.reshape(sums, (batch, rows, classes, heads)), (0, 1, 3, 2))


class _ClippedTable(Encoding):
    """A table of rows a for the distances -k .. k; subclasses define the rows."""

    execution = Execution(max_rows=128)  # a block looks up the band of its rows

    def __init__(self, max_distance, values, **kwargs):
        super().__init__(**kwargs)
        self.max_distance = checks.whole("max_distance", max_distance)
        self.values = bool(values)

    def rows_for_keys(self):
        """Returns the rows that are added to the keys, (2k + 1, D)."""
        raise NotImplementedError

    def rows_for_values(self, size):
        """Returns the rows that are added to the values, (2k + 1, size)."""
        raise NotImplementedError

    def index(self, grid):
        """Returns the table row of each cell, clip(j - i, -k, k) + k, (B, Tq, Tk)."""
        return ops.clip(-whole_distance(grid), -self.max_distance, self.max_distance) + (
            self.max_distance
        )

    def overrides(self, hook):
        return super().overrides(hook) and (hook != "value" or self.values)

    def bias(self, q, grid):
        """q_i a_c / sqrt(D), (B, H, Tq, Tk)."""
        rows = ops.cast(self.rows_for_keys(), q.dtype) / math.sqrt(self.head_size)
        met = backend.product(q, rows, "bqhd,cd->bhqc")
        near = band(grid, self.max_distance)
        taken = backend.take_last(met, self.index(near.grid)[:, None])
        return near.put(taken, met[..., :1], met[..., -1:])

    def value(self, weights, grid):
        """sum_j A_ij b_c, (B, Tq, H, Dv) float32."""
        rows = ops.cast(self.rows_for_values(grid.content.values.shape[-1]), "float32")
        near = band(grid, self.max_distance)
        index = self.index(near.grid)
        sums = summed_by_class(near.cut(weights), index, 2 * self.max_distance + 1)
        outside = ops.cast(near.sums_outside(weights), "float32")
        ends = ops.stack([rows[0], rows[-1]])
        return ops.einsum("bqhc,cd->bqhd", sums, rows) + ops.einsum("bhqc,cd->bqhd", outside, ends)


@keras.saving.register_keras_serializable(package="keras_posenc")
class ShawRelative(_ClippedTable):
    """A learned vector for each clipped distance, added to the keys and to the values.

        logits[i, j] = q_i (k_j + a_c) / sqrt(D),    output[i] = sum_j A[i, j] (v_j + b_c),
        c = clip(j - i, -k, k).

    The term of a is added to the logits (B, H, Tq, Tk), the term of b to the output (B, Tq, H, Dv).
    The tables a (2k + 1, D) and b (2k + 1, Dv) are shared by the heads of a layer. Distances of
    float ids are rounded to the nearest integer.

    Args:
        max_distance: int. The distance k from which on all distances share a row.
        values: bool. Whether to add b to the values; without it a fused kernel may be used.
        value_dim: int or None. Size Dv of a row of b; default the size D of the query heads.
        embeddings_initializer: initializer of a and b.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[ShawRelative(max_distance=8)])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Self-Attention with Relative Position
    Representations](https://arxiv.org/abs/1803.02155).
    """

    paper = "https://arxiv.org/abs/1803.02155"

    def __init__(
        self,
        max_distance: int = 16,
        values: bool = True,
        value_dim: int | None = None,
        embeddings_initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(max_distance, values, **kwargs)
        if value_dim is not None:
            value_dim = checks.whole("value_dim", value_dim)
        self.value_dim = value_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, heads_shape):
        super().build(heads_shape)
        self.key_table = self._add_table("key_table", self.head_size)
        if self.values:
            self.value_table = self._add_table("value_table", self.value_dim or self.head_size)

    def _add_table(self, name, size):
        return self.add_weight(
            name=name,
            shape=(2 * self.max_distance + 1, size),
            # A fresh initializer each: an unseeded instance draws the same values every time.
            initializer=self.embeddings_initializer.clone(),
        )

    def rows_for_keys(self):
        return self.key_table

    def rows_for_values(self, size):
        have = self.value_table.shape[-1]
        if have != size:
            raise ValueError(
                f"The table for the values has rows of {have} numbers, the values have {size}: "
                f"give ShawRelative `value_dim={size}`, or `values=False`."
            )
        return self.value_table


@keras.saving.register_keras_serializable(package="keras_posenc")
class NEZHA(_ClippedTable):
    """Shaw's encoding with fixed sinusoids instead of learned vectors; it has no weights.

        logits[i, j] = q_i (k_j + s(c)) / sqrt(D),    output[i] = sum_j A[i, j] (v_j + s(c))

    `c` is the distance clip(j - i, -k, k). The sinusoid s has s(c)[2m] = sin(c w_m) and
    s(c)[2m + 1] = cos(c w_m), with w_m = 10000^(-2m / D).

    It adds to the logits (B, H, Tq, Tk) and to the output (B, Tq, H, Dv). Distances of float ids
    are rounded to the nearest integer.

    Args:
        max_distance: int. The distance k from which on all distances share a row.
        values: bool. Whether to add s to the values too; without it a fused kernel may be used.
        released: bool. Read s at c + k, as the released code, its checkpoints and bert4keras do,
            instead of at c, as in the paper. Set it to use their weights.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[NEZHA()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [NEZHA: Neural Contextualized Representation for Chinese Language
    Understanding](https://arxiv.org/abs/1909.00204), section 2.2.
    """

    paper = "https://arxiv.org/abs/1909.00204"

    def __init__(
        self, max_distance: int = 64, values: bool = True, released: bool = False, **kwargs
    ):
        super().__init__(max_distance, values, **kwargs)
        self.released = bool(released)

    def rows_for_keys(self):
        return self.rows_for_values(self.head_size)

    def rows_for_values(self, size):
        k = self.max_distance
        positions = np.arange(2 * k + 1) - (0 if self.released else k)
        angles = positions[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        # An odd size ends with a sine.
        return backend.constant(pairs.reshape(len(positions), -1)[:, :size], "float32")
