"""Logit biases that are inner products: they widen the heads, and no T x T tensor is formed."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc.encodings.base import Encoding


@keras.saving.register_keras_serializable(package="keras_posenc")
class ALiBi(Encoding):
    """A linear penalty on the distance, another slope in each head.

        b[h, i, j] = -m_h (i - j),  m_h = 2^(-8h / H), h = 1 .. H.

    For H not a power of two the slopes are those of the power of two below, then every other one of
    twice as many heads. The causal and the one-sided form are inner products and widen the heads by
    four dimensions (six for fractional ids); the others need the map. Positions are exact up to
    65536 in bfloat16 too.

    Args:
        direction: "causal"; "symmetric", -m_h |i - j|; a pair of factors (left, right),
            -m_h left (i - j) for keys before the query and -m_h right (j - i) for keys after it;
            or "one_sided": the first half of the heads sees the keys up to the query, the second
            half those from the query on, with the slopes of H / 2 heads in each half.
        learned: bool. Train the slopes from there, positive by a softplus.

    Raises:
        ValueError: on another direction; for "one_sided" with an odd number of heads; for "causal"
            in a call that is not causal.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[ALiBi()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Train Short, Test Long](https://arxiv.org/abs/2108.12409), section 3. The forms that
    are not causal are those of the authors' repository, issue 5.
    """

    paper = "https://arxiv.org/abs/2108.12409"

    def __init__(self, direction="causal", learned=False, **kwargs):
        super().__init__(**kwargs)
        if isinstance(direction, (list, tuple)):
            direction = tuple(direction)
        if not (direction in ("causal", "symmetric", "one_sided") or _two_factors(direction)):
            raise ValueError(
                '`direction` must be "causal", "symmetric", "one_sided" or a pair of factors '
                f"(left, right), numbers of at least 0. Received: {direction!r}"
            )
        self.direction = direction
        self.learned = learned
        self.causal_only = direction == "causal"

    def overrides(self, hook):
        acting = {"causal": ("heads",), "one_sided": ("restrict", "heads")}
        return hook in acting.get(self.direction, ("bias",))

    def build(self, heads_shape):
        super().build(heads_shape)
        slopes, sides = alibi_slopes(self.num_heads), np.ones(self.num_heads)
        if self.direction == "one_sided":
            half = self.num_heads // 2
            if self.num_heads % 2:
                raise ValueError(
                    '`direction="one_sided"` gives half of the heads to each side: the number of '
                    f'heads must be even. Received: {self.num_heads}; use "symmetric".'
                )
            slopes, sides = np.tile(alibi_slopes(half), 2), np.repeat([1, -1], half)
        self.sides = sides.astype("float32")
        if self.learned:
            # autocast=False: a mixed policy would round the slopes.
            self.slopes = self.add_weight(
                name="slopes",
                shape=(self.num_heads,),
                initializer=keras.initializers.Constant(inverse_softplus(slopes)),
                autocast=False,
            )
        else:
            self.slopes = slopes.astype("float32")

    def _slopes(self):
        """(H,) float32."""
        slopes = ops.cast(self.slopes, "float32")
        return ops.softplus(slopes) if self.learned else slopes

    def restrict(self, grid):
        if self.direction != "one_sided":
            return grid
        distance = grid.distance()[:, None]
        left = self.sides[:, None, None] > 0
        return grid.within(ops.where(left, distance >= 0, distance <= 0))

    def heads(self, q, k, grid):
        if not self.overrides("heads"):
            return q, k
        rows, columns = (_digits(positions) for positions in from_first_key(grid))
        steps = (self._slopes() * self.sides)[:, None] * np.float32([256, 1, 1])[: rows.shape[-1]]
        # `widen` multiplies its rows by the root, and then rounds. As the root stands here, both
        # products hold the same rounded steps, and their difference is steps times the distance.
        root = math.sqrt(self.head_size)
        return self.widen(
            q, k, _side_by_side(steps, rows / root), _side_by_side(columns, -steps * root)
        )

    def bias(self, q, grid):
        left, right = (1, 1) if self.direction == "symmetric" else self.direction
        distance = ops.cast(grid.distance(), "float32")[:, None]
        length = left * ops.relu(distance) + right * ops.relu(-distance)
        return -self._slopes()[:, None, None] * length

    def get_config(self):
        return {**super().get_config(), "direction": self.direction, "learned": self.learned}


def alibi_slopes(num_heads):
    """(H,) float64: 2^(-8h / H), h = 1 .. H, and the paper's filling for H not a power of two."""
    power = 2 ** int(math.log2(num_heads))
    exact, doubled = (2.0 ** (-8 * np.arange(1, n + 1) / n) for n in (power, 2 * power))
    return np.concatenate([exact, doubled[::2][: num_heads - power]])


def inverse_softplus(x):
    """The float64 y with softplus(y) = x, for positive x."""
    x = np.asarray(x, "float64")
    return x + np.log(-np.expm1(-x))


def from_first_key(grid):
    """The positions of rows and columns, counted from the first key: far from 0 nothing is lost."""
    grid.check_one_axis()
    first = ops.min(grid.columns, axis=1, keepdims=True)
    return ops.subtract(grid.rows, first), ops.subtract(grid.columns, first)


def _digits(positions):
    """(B, T, 1, 2 or 3) float32, of eight bits each: times (256, 1, 1) they are the positions.

    A position above 256 is not exact in bfloat16, nor one above 2048 in the TF32 of a GPU. The
    third digit is the fraction of fractional ids.
    """
    whole = keras.backend.is_int_dtype(positions.dtype)
    positions = ops.cast(positions, "float32")[..., None, None]
    high = ops.floor(positions / 256)
    low = positions - 256 * high
    if whole:
        return ops.concatenate([high, low], axis=-1)
    return ops.concatenate([high, ops.floor(low), low - ops.floor(low)], axis=-1)


def _side_by_side(left, right):
    """Both on the last axis, with each other's dimensions."""
    zero = ops.zeros_like(left[..., :1]) + ops.zeros_like(right[..., :1])
    return ops.concatenate([left + zero, right + zero], axis=-1)


def _two_factors(direction):
    return (
        isinstance(direction, tuple)
        and len(direction) == 2
        and all(isinstance(x, (int, float)) and 0 <= x < math.inf for x in direction)
    )
