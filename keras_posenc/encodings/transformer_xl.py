"""Transformer-XL's relative positions: queries times projected sinusoids of the distance."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding
from keras_posenc.encodings.relative import NORMAL
from keras_posenc.maps.diagonals import (
    all_distances,
    at_distances,
    diagonal_distances,
    map_of_diagonals,
)
from keras_posenc.positions.angles import angles


@keras.saving.register_keras_serializable(package="keras_posenc")
class TransformerXLRelative(Encoding):
    """Transformer-XL's relative attention: projected sinusoids of the distance, two query biases.

        logits[i, j] = ((q_i + u) k_j + (q_i + v) W s(i - j)) / sqrt(D).

    The sinusoid s(r) of size S holds the sines of r w_m and then the cosines, with frequencies
    w_m = 10000^(-2m / S). It acts on the logits (B, H, Tq, Tk); u, v (H, D) and W (S, H, D) are
    learned.

    If queries and keys are consecutive, the rows W s(r) of all distances are computed once and
    multiplied with each query. A second form serves the other cases: given position ids may be any
    distance apart, a few query rows with a cache have few distances, and later encodings may scale
    the heads. Let alpha and beta be the halves of W'(q_i + v) that meet sines and cosines. Then the
    position term is

        (alpha sin(i w) + beta cos(i w)) cos(j w) + (beta sin(i w) - alpha cos(i w)) sin(j w).

    This is an inner product of S numbers of the query with S numbers of the key, by which q and k
    are widened. Positions may be fractional; the two directions are distinguished. Put it before
    encodings that rotate or scale the heads.

    Args:
        size: int, even, or None. Size S of the sinusoid. Default: H D, the model's, as in the
            paper. A smaller size makes the widened heads cheaper.
        bias_initializer: Initializer of u and v.
        kernel_initializer: Initializer of W.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[TransformerXLRelative()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Transformer-XL: Attentive Language Models Beyond a Fixed-Length
    Context](https://arxiv.org/abs/1901.02860), section 3.3.
    """

    paper = "https://arxiv.org/abs/1901.02860"
    adds_to_heads = True

    def __init__(
        self,
        size: int | None = None,
        bias_initializer: Initializer = NORMAL,
        kernel_initializer: Initializer = NORMAL,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if size is not None:
            why = "sines and cosines come in pairs"
            size = checks.whole("size", size, least=2, even=True, why=why)
        self.size = size
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, heads_shape):
        super().build(heads_shape)
        heads = (self.num_heads, self.head_size)
        # For an odd H D the next even number.
        size = self.size or (self.num_heads * self.head_size + 1) // 2 * 2
        self.turns = 10000.0 ** (-np.arange(0, size, 2) / size) / (2 * math.pi)
        # A fresh initializer each: an unseeded instance draws the same values every time.
        self.content_bias = self.add_weight(
            name="content_bias", shape=heads, initializer=self.bias_initializer.clone()
        )
        self.position_bias = self.add_weight(
            name="position_bias", shape=heads, initializer=self.bias_initializer.clone()
        )
        self.kernel = self.add_weight(
            name="kernel", shape=(size, *heads), initializer=self.kernel_initializer.clone()
        )

    def overrides(self, hook):
        return super().overrides(hook) and not (hook == "bias" and self.heads_follow)

    def restrict(self, grid):
        """Adds a table for `bias`: W s(r) / sqrt(D) of the distances M - 1 .. -M, (2M, H, D)."""
        grid.check_one_axis()
        distance = None if self.heads_follow else all_distances(grid)
        if distance is None:
            return grid
        waves = ops.concatenate(self._waves(distance), axis=-1)[:, 0]
        kernel = ops.cast(self.kernel, "float32") / math.sqrt(self.head_size)
        table = ops.einsum("rs,shd->rhd", waves, kernel)
        return grid.replace(tables=grid.content.tables | {self: table})

    def heads(self, q, k, grid):
        """q + u; and, without a table, q and k widened to (B, T, H, D + S)."""
        content = q if grid.content.queries is None else grid.content.queries
        # The softmax meets u k_j as a part of q k: only the head proper takes u.
        head = q[..., : self.head_size] + ops.cast(self.content_bias, q.dtype)
        q = ops.concatenate([head, q[..., self.head_size :]], axis=-1)
        if self in grid.content.tables:
            return q, k
        products = ops.cast(self._position_products(content, self.kernel, "bqhn"), "float32")
        alpha, beta = ops.split(products / math.sqrt(self.head_size), 2, axis=-1)
        sin_i, cos_i = self._waves(grid.query_positions)
        sin_j, cos_j = self._waves(grid.key_positions)
        rows = [alpha * sin_i + beta * cos_i, beta * sin_i - alpha * cos_i]
        return self.widen(
            q, k, ops.concatenate(rows, axis=-1), ops.concatenate([cos_j, sin_j], axis=-1)
        )

    def bias(self, q, grid):
        """(q_i + v) W s(i - j) / sqrt(D), (B, H, Tq, Tk), from the table."""
        if self not in grid.content.tables:
            return None
        table = grid.content.tables[self]
        if not grid.ids_are_indices:  # of a window and its sinks
            index = ops.shape(table)[0] // 2 - 1 - grid.distance()
            return backend.take_last(self._position_products(q, table, "bhqn"), index[:, None])
        table = at_distances(table, diagonal_distances(grid))
        return map_of_diagonals(self._position_products(q, table, "bhqn"))

    def _position_products(self, content, rows, axes):
        """(q_i + v) times rows (N, H, D), with axes in the order of `axes`.

        The position term is such a product with the rows W s(r) of the table, or with those of W.
        With W, the sines and cosines of a distance follow from those of the two positions.
        """
        biased = content + ops.cast(self.position_bias, content.dtype)
        return backend.product(biased, ops.cast(rows, content.dtype), f"bqhd,nhd->{axes}")

    def _waves(self, positions):
        """(..., 1, S / 2) float32, twice: sines and cosines of the positions."""
        by = angles(ops.cast(positions, "float32")[..., None, None], self.turns)
        return ops.sin(by), ops.cos(by)
