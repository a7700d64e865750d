"""Separable biases: inner products that widen the heads, so that no T x T tensor is formed."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.positions.angles import angles

PAIRS = "sines and cosines come in pairs; its default is the head size"


@keras.saving.register_keras_serializable(package="keras_posenc")
class ALiBi(Encoding):
    """A linear penalty on the distance, with a different slope in each head.

        b[h, i, j] = -m_h (i - j),  m_h = 2^(-8h / H), h = 1 .. H.

    The bias is added to the logits (B, H, Tq, Tk). If H is not a power of two, the slopes are those
    of the next lower power of two, followed by every other slope of twice as many heads. The causal
    and the one-sided form are inner products and widen the heads by four dimensions (six for
    fractional ids); the others need the logits matrix. Positions are exact up to 65536, in bfloat16
    too.

    Args:
        direction: str or pair. "causal" is the formula above, and "symmetric" is -m_h |i - j|. A
            pair of factors (left, right) gives -m_h left (i - j) for keys before the query and
            -m_h right (j - i) for keys after it. With "one_sided", the first half of the heads sees
            the keys up to the query, and the second half those from the query on. Each half then
            has the slopes of H / 2 heads.
        learned: bool. Train the slopes, initialised as above and stored before a softplus.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[ALiBi()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Train Short, Test Long](https://arxiv.org/abs/2108.12409), section 3. The non-causal
    forms are those of the authors' repository, issue 5.
    """

    paper = "https://arxiv.org/abs/2108.12409"
    reads_keys = False

    def __init__(
        self, direction: str | tuple[float, float] = "causal", learned: bool = False, **kwargs
    ):
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
        self.sides = sides
        if self.learned:
            initializer = before_softplus(keras.initializers.Constant(slopes))
            self.slopes = self._add_uncast("slopes", (self.num_heads,), initializer)
        else:
            self.slopes = slopes.astype("float32")

    def _slopes(self):
        """(H,) float32."""
        if self.learned:
            return ops.softplus(ops.cast(self.slopes, "float32"))
        return backend.constant(self.slopes, "float32")

    def restrict(self, grid):
        """For "one_sided": masks the keys on one side, by head, (B, H, Tq, Tk)."""
        if self.direction != "one_sided":
            return grid
        distance = grid.distance()[:, None]
        # onnxruntime cannot choose between two masks.
        sides = backend.constant(self.sides[:, None, None], "int32")
        return grid.within(distance * ops.cast(sides, distance.dtype) >= 0)

    def heads(self, q, k, grid):
        """For "causal", "one_sided": q and k widened to (B, T, H, D + 4), or D + 6."""
        if not self.overrides("heads"):
            return q, k
        rows, columns = (_digits(positions) for positions in from_first_key(grid))
        units = (self.sides[:, None] * [256, 1, 1])[:, : rows.shape[-1]]
        steps = self._slopes()[:, None] * backend.constant(units, "float32")
        # `widen` multiplies the query's side by the root, and then rounds. With the root placed
        # like this, both products contain the same rounded steps, so that their difference is
        # exactly steps times the distance.
        root = math.sqrt(self.head_size)
        return self.widen(
            q, k, _side_by_side(steps, rows / root), _side_by_side(columns, -steps * root)
        )

    def bias(self, q, grid):
        """For the other directions: -m_h |i - j|, weighted by side, (B, H, Tq, Tk)."""
        if not self.overrides("bias"):
            return None
        left, right = (1, 1) if self.direction == "symmetric" else self.direction
        distance = ops.cast(grid.distance(), "float32")[:, None]
        length = left * ops.relu(distance) + right * ops.relu(-distance)
        return -self._slopes()[:, None, None] * length


@keras.saving.register_keras_serializable(package="keras_posenc")
class Sandwich(Encoding):
    """A fixed bias that decays with distance: the inner product of sinusoidal embeddings.

        b[h, i, j] = (sum_k cos((i - j) w_k) - S / 2) H / (8h),
        w_k = base^(-2k / S), k = 0 .. S / 2 - 1, h = 1 .. H.

    The bias is added to the logits (B, H, Tq, Tk) and is symmetric around the query. It widens the
    heads by S + 1 dimensions, or is added directly where the logits matrix is materialised anyway.

    This is the fixed bias of the paper. `RotaryBias(initializer="sandwich")` learns a bias that
    starts as this one, and so does `RotaryEmbedding` with `bias_initializer="sandwich"`, without
    the factor H / (8h).

    Args:
        size: int, even. Size S of the sinusoidal embedding, independent of the head size.
        base: float. Longest wavelength, in units of 2 pi positions.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[Sandwich()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Dissecting Transformer Length Extrapolation via the Lens of Receptive Field
    Analysis](https://arxiv.org/abs/2212.10356), section 5.
    """

    paper = "https://arxiv.org/abs/2212.10356"
    reads_keys = False

    def __init__(self, size: int = 128, base: float = 10000.0, **kwargs):
        super().__init__(**kwargs)
        self.size = checks.whole("size", size, least=2, even=True, why=PAIRS)
        self.base = checks.number("base", base, above=1)

    @property
    def execution(self):
        """Adds the bias by distance where the logits matrix is formed anyway."""
        return Execution(by_distance=self._by_distance)

    def _by_distance(self, distances):
        waves = ops.cos(_angles(distances, self.size, self.base))
        ratios = backend.constant(sandwich_ratios(self.num_heads), "float32")
        return (ops.sum(waves, axis=-1, keepdims=True) - self.size / 2) * ratios

    def heads(self, q, k, grid):
        """q and k widened to (B, T, H, D + S + 1)."""
        rows, columns = _waves(grid, self.size, self.base)
        ratios = backend.constant(sandwich_ratios(self.num_heads)[:, None], "float32")
        rows, columns = (ops.concatenate(waves, axis=-1) for waves in (rows, columns))
        # Subtracting S / 2 cancels in the softmax, and keeps the logits small for bfloat16.
        rows = _side_by_side(ratios * rows, -self.size / 2 * ratios)
        return self.widen(q, k, rows, _side_by_side(columns, ops.ones((1, 1), "float32")))


@keras.saving.register_keras_serializable(package="keras_posenc")
class RotaryBias(Encoding):
    """GAU's relative bias: two learned vectors, rotated by the positions of the query and the key.

        b[h, i, j] = a_h' R_i' R_j b_h,

    where R_p rotates the pair (2k, 2k + 1) by p base^(-2k / S). The bias is added to the logits (B,
    H, Tq, Tk); a and b are (H, S). It widens the heads by S dimensions, or is added directly where
    the logits matrix is materialised anyway.

    The code of GAU and of MEGA pairs the features (k, k + S / 2) instead:
    `keras_posenc.encodings.published.rotary_bias_weights` interleaves the halves of such vectors.

    Args:
        size: int, even, or None. Size S of a vector; default the head size D.
        base: float. Longest wavelength, in units of 2 pi positions.
        initializer: initializer of a and b; or "sandwich", a = b = [c, 0, c, 0, ...] with c^2 = H /
            (8h), which starts as `Sandwich` of that size. Zeros would never train: the gradient of
            each vector is a product with the other.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[RotaryBias()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Transformer Quality in Linear Time](https://arxiv.org/abs/2202.10447), appendix.
    """

    paper = "https://arxiv.org/abs/2202.10447"
    reads_keys = False

    def __init__(
        self,
        size: int | None = None,
        base: float = 10000.0,
        initializer: Initializer = "random_normal",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if size is not None:
            size = checks.whole("size", size, least=2, even=True, why=PAIRS)
        self.size = size
        self.base = checks.number("base", base, above=1)
        sandwich = isinstance(initializer, str) and initializer == "sandwich"
        self.initializer = initializer if sandwich else keras.initializers.get(initializer)

    def build(self, heads_shape):
        super().build(heads_shape)
        size = self.size or self.head_size
        self.check_head_size(self.head_size)
        if self.initializer == "sandwich":
            vectors = np.sqrt(sandwich_ratios(self.num_heads))[:, None] * (np.arange(size) % 2 == 0)
            initializers = [keras.initializers.Constant(vectors)] * 2
        else:
            # A fresh initializer each: an unseeded instance draws the same values every time.
            initializers = [self.initializer.clone() for _ in "ab"]
        self.a, self.b = (
            self._add_uncast(name, (self.num_heads, size), initializer)
            for name, initializer in zip("ab", initializers, strict=True)
        )

    def check_head_size(self, head_size):
        """Refuses an odd size, where it is that of the vectors too."""
        checks.whole("size", self.size or head_size, least=2, even=True, why=PAIRS)

    @property
    def execution(self):
        """Adds the bias by distance where the logits matrix is formed anyway."""
        return Execution(by_distance=self._by_distance)

    def _by_distance(self, distances):
        angles = _angles(distances, self.a.shape[-1], self.base)
        a, b = (ops.cast(x, "float32") for x in (self.a, self.b))
        (a1, a2), (b1, b2) = ((x[:, 0::2], x[:, 1::2]) for x in (a, b))
        waves = ops.concatenate([ops.cos(angles), ops.sin(angles)], axis=-1)
        met = ops.concatenate([a1 * b1 + a2 * b2, a1 * b2 - a2 * b1], axis=-1)
        return ops.einsum("ns,hs->nh", waves, met)

    def heads(self, q, k, grid):
        """q and k widened by R_i a_h and R_j b_h to (B, T, H, D + S)."""
        rows, columns = _waves(grid, self.a.shape[-1], self.base)
        return self.widen(q, k, _turned(self.a, rows), _turned(self.b, columns))


def alibi_slopes(num_heads):
    """ALiBi's slopes: 2^(-8h / H), h = 1 .. H, with the paper's rule for H not a power of two.

    `num_heads`: int. H. Returns a NumPy float64 (H,).

    Example:

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** int(math.log2(num_heads))
    exact, doubled = (2.0 ** (-8 * np.arange(1, n + 1) / n) for n in (power, 2 * power))
    return np.concatenate([exact, doubled[::2][: num_heads - power]])


def sandwich_ratios(num_heads):
    """Sandwich's factors per head: NumPy float64 (H,), H / (8h), h = 1 .. H."""
    return num_heads / (8 * np.arange(1, num_heads + 1))


def before_softplus(initializer):
    """Wraps an initializer for a weight that is stored before a softplus: x -> ln(exp(x) - 1).

    `initializer`: a Keras initializer of positive numbers x, the values after the softplus. Returns
    a function (shape, dtype) -> tensor.

    Example:

    >>> stored = before_softplus(keras.initializers.Constant(0.5))((2,), "float32")
    >>> ops.convert_to_numpy(ops.softplus(stored)).tolist()
    [0.5, 0.5]
    """

    def drawn(shape, dtype=None):
        x = ops.cast(initializer(shape, "float32"), "float32")
        return ops.cast(x + ops.log(-ops.expm1(-x)), dtype)

    return drawn


def from_first_key(grid):
    """Position ids of queries and keys relative to the first key, which keeps float32 exact far
    out."""
    grid.check_one_axis()
    dtype = keras.backend.result_type(grid.query_positions.dtype, grid.key_positions.dtype)
    rows, columns = ops.cast(grid.query_positions, dtype), ops.cast(grid.key_positions, dtype)
    first = ops.amin(columns, axis=1, keepdims=True)
    return rows - first, columns - first


def _digits(positions):
    """Splits positions into digits of eight bits: (B, T, 1, 2 or 3) float32.

    Multiplied by (256, 1, 1) they sum to the positions. A position above 256 is not exact in
    bfloat16, nor one above 2048 in TF32. The third digit is the fraction of fractional ids.
    """
    whole = keras.backend.is_int_dtype(positions.dtype)
    positions = ops.cast(positions, "float32")[..., None, None]
    high = ops.floor(positions / 256)
    low = positions - 256 * high
    if whole:
        return ops.concatenate([high, low], axis=-1)
    return ops.concatenate([high, ops.floor(low), low - ops.floor(low)], axis=-1)


def _side_by_side(left, right):
    """Concatenates on the last axis after broadcasting the other axes."""
    zero = ops.zeros_like(left[..., :1]) + ops.zeros_like(right[..., :1])
    return ops.concatenate([left + zero, right + zero], axis=-1)


def _two_factors(direction):
    return (
        isinstance(direction, tuple)
        and len(direction) == 2
        and all(isinstance(x, (int, float)) and 0 <= x < math.inf for x in direction)
    )


def _waves(grid, size, base):
    """The (cosines, sines) of rows and of columns, each (B, T, 1, S / 2) float32."""
    angles = [_angles(p, size, base)[:, :, None] for p in from_first_key(grid)]
    return [(ops.cos(angle), ops.sin(angle)) for angle in angles]


def _angles(positions, size, base):
    """(..., S / 2) float32: the positions, times the frequencies, less whole turns."""
    turns = float(base) ** (-np.arange(0, size, 2) / size) / (2 * math.pi)
    return angles(ops.cast(positions, "float32")[..., None], turns)


def _turned(vectors, waves):
    """Rotates the pairs (2k, 2k + 1) of vectors (H, S): (B, T, H, S), first elements before second
    ones.
    """
    vectors = ops.cast(vectors, "float32")
    first, second = vectors[:, 0::2], vectors[:, 1::2]
    cos, sin = waves
    return ops.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
