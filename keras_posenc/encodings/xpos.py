"""Rotary embeddings with exponential decay over distance."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Execution
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.encodings.rotation import times_features
from keras_posenc.positions.position_range import check_span

# Largest exponent of a factor. The product of two, times q.k, is still a float32: what no query
# sees may be infinite, but infinity less infinity is not a number.
EXPONENT = 40.0


@keras.saving.register_keras_serializable(package="keras_posenc")
class XPos(RotaryEmbedding):
    """xPos: rotary embeddings whose products decay with distance.

    Pair k of the product of R_i q_i and R_j k_j is multiplied by z_k^((i - j) / B). Of n pairs,
    z_k = (k / n + gamma) / (1 + gamma) < 1. That is z_k^((i - c) / B) times
    z_k^((c - j) / B) for any c. Attention takes the middle of a block of queries for c, so both
    factors stay in range in texts of any length. It multiplies queries and keys by them after all
    encodings have acted. An encoding that adds to queries or keys must come before this one.

    If position ids are given, those of the queries of one call may span 80 B / ln(1 + 1 / gamma):
    32,695 for the defaults. A call that returns scores takes as many queries.

    Args:
        scale_base: float. B, the distance over which pair k decays by z_k.
        gamma: float. The larger, the weaker the decay of the fast pairs.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Call arguments:
        inputs: the pair (q, k), each (B, T, H, D); a single tensor would be ambiguous.
        positions: optional (T,) or (B, T) ids. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor.

    Returns:
        The pair (q, k), rotated and scaled, in the compute dtype.

    Example:

    >>> layer = PositionalAttention(4, 64, encodings=["xpos"])
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: [A Length-Extrapolatable Transformer](https://arxiv.org/abs/2212.10554).
    """

    paper = "https://arxiv.org/abs/2212.10554"
    causal_only = True
    one_axis = True

    def __init__(self, scale_base: float = 512.0, gamma: float = 0.4, **kwargs):
        super().__init__(**kwargs)
        checks.number("scale_base", scale_base, above=0)
        checks.number("gamma", gamma, above=0)
        self.scale_base = scale_base
        self.gamma = gamma
        reach = 2 * EXPONENT * scale_base / math.log1p(1 / gamma)
        self.execution = Execution(most_rows=max(1, math.floor(min(reach, 2**30))))

    def restrict(self, grid):
        """The grid, after checking that its row ids (B, Tq) do not span too much."""
        grid.check_one_axis()
        if not grid.ids_are_indices:
            self._check_span(grid.query_positions)
        return grid

    def decay(self, grid):
        """z^((i - c) / B) and z^((c - j) / B), (B or 1, T, rotary size) each."""
        packed = grid.query_index is not None  # in a document, indices are as far apart as ids
        rows = grid.query_index if packed else grid.query_positions
        columns = grid.key_index if packed else grid.key_positions
        rows, columns = (ops.cast(ids, "float32") for ids in (rows, columns))
        centre = (ops.amin(rows, 1, keepdims=True) + ops.amax(rows, 1, keepdims=True)) / 2
        pairs = np.arange(self.rotary_size // 2) / (self.rotary_size // 2)
        rates = np.log((pairs + self.gamma) / (1 + self.gamma)) / self.scale_base
        rates = np.repeat(rates, 2) if self.layout == "interleaved" else np.tile(rates, 2)
        rates = backend.constant(rates, "float32")
        of_rows = (rows - centre)[..., None] * rates
        # Keys so far behind a block of queries are visible to none of them.
        of_columns = ops.minimum((centre - columns)[..., None] * rates, EXPONENT)
        # No number is better than a wrong one, where the span could not be checked.
        fits = ops.abs(of_rows) <= 1.001 * EXPONENT
        return ops.where(fits, ops.exp(of_rows), np.nan), ops.exp(of_columns)

    def _check_span(self, ids):
        most = self.execution.most_rows
        check_span(
            ids,
            most,
            f"XPos with scale_base={self.scale_base} and gamma={self.gamma} takes query positions "
            f"that span at most {most}: leave the ids out, or configure a slower decay.",
        )

    def call(self, inputs, positions=None, offset=0):
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(
                "xPos scales queries and keys in opposite ways: call it on the pair (q, k). "
                f"Received: one tensor of shape {tuple(inputs.shape)}"
            )
        heads, grid = self._heads_and_grid(inputs, positions, offset)
        self._check_span(grid.query_positions)
        pairs = zip(self.heads(*heads, grid), self.decay(grid), strict=True)
        return tuple(ops.cast(times_features(*pair), self.compute_dtype) for pair in pairs)
