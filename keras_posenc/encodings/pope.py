"""Polar coordinates: features are lengths, positions are angles, and neither changes the other."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding
from keras_posenc.positions.angles import angles


@keras.saving.register_keras_serializable(package="keras_posenc")
class PoPE(Encoding):
    """Polar coordinate position embedding (PoPE): lengths from content, angles from position.

        l[h, i, j] = sum_c softplus(q_ic) softplus(k_jc) cos((i - j) theta_c - phi_hc) / sqrt(D),
        theta_c = base^(-c / D), c = 0 .. D - 1.

    In RoPE two features form a pair, whose angle depends on the content as well. Here each feature
    is the length of a vector in the plane, so content decides how much a feature matters and
    position where it does. The distance at which a feature peaks is learned: the phases `phi`
    (H, D). Queries and keys become (B, T, H, 2D) wide, and fused kernels compute them.

    Published code clips the phases to one full turn, [-2 pi, 0]. That includes all angles, but a
    clipped phase has no gradient, so here they are not clipped.

    It replaces the rotary embedding. The softplus acts on the content, so in a list it comes before
    other encodings that change queries and keys, such as log-n.

    Args:
        base: float. Longest wavelength, in units of 2 pi positions.
        phase_initializer: initializer of the phases. With zeros all features peak at distance 0;
            published code also has uniform ones, in [-2 pi, 0].

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["pope"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Decoupling the "What" and "Where" With Polar Coordinate Positional
    Embeddings](https://arxiv.org/abs/2509.10534).
    """

    paper = "https://arxiv.org/abs/2509.10534"
    heads_first = True

    def __init__(self, base: float = 10000.0, phase_initializer: Initializer = "zeros", **kwargs):
        super().__init__(**kwargs)
        self.base = float(checks.number("base", base, above=1))
        self.phase_initializer = keras.initializers.get(phase_initializer)

    def build(self, heads_shape):
        super().build(heads_shape)
        # bfloat16 would round an angle to 0.02.
        shape = (self.num_heads, self.head_size)
        self.phases = self._add_uncast("phases", shape, self.phase_initializer.clone())

    def heads(self, q, k, grid):
        """Softplus of q and k, times cosines and sines of their angles: (B, T, H, 2D) each."""
        grid.check_one_axis()
        phases = ops.cast(self.phases, "float32")
        return (
            self._polar(q, self._angles(grid.query_positions)),
            self._polar(k, self._angles(grid.key_positions) + phases),
        )

    def _angles(self, ids):
        """(B or 1, T, 1, D) float32."""
        turns = self.base ** (-np.arange(self.head_size) / self.head_size) / (2 * math.pi)
        return angles(ops.cast(ids, "float32")[..., None], turns)[:, :, None]

    def _polar(self, x, angle):
        length = ops.softplus(ops.cast(x, "float32"))
        return ops.cast(
            ops.concatenate([length * ops.cos(angle), length * ops.sin(angle)], axis=-1), x.dtype
        )
