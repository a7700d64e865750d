"""Logit biases that are no inner product of the query's and the key's position."""

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.encodings.separable import before_softplus
from keras_posenc.maps.diagonals import map_of_distances


@keras.saving.register_keras_serializable(package="keras_posenc")
class KERPLE(Encoding):
    """A learned penalty on the distance, from a family of kernels, with parameters per head.

    For head h, query i and key j it is

        b[h, i, j] = -p_h ln(1 + a_h |i - j|)        kind "log",
        b[h, i, j] = -a_h |i - j|^p_h, 0 < p_h <= 2  kind "power".

    The bias is added to the logits (B, H, Tq, Tk). The weights `a` and `p` (H,) are stored before a
    softplus, which keeps them positive: a = softplus(stored a). With "power", p = 2 sigmoid(stored
    p), so that 0 < p < 2. `keras_posenc.encodings.published.kerple_weights` converts published
    numbers.

    In exact arithmetic, power 2 is an inner product, but of terms of size a T^2 that cancel. With
    a = 0.3, float32 is already off by 0.04 at 2048 tokens, and bfloat16 keeps nothing. Power 2 is
    therefore computed on the logits matrix, too.

    Args:
        kind: str. "log", the best of the family in the paper, or "power".
        power: float in (0, 2], or None. With "power", a fixed exponent for all heads.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[KERPLE()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [KERPLE: Kernelized Relative Positional Embedding for Length
    Extrapolation](https://arxiv.org/abs/2205.09921), section 4.
    """

    paper = "https://arxiv.org/abs/2205.09921"
    reads_keys = False

    def __init__(self, kind: str = "log", power: float | None = None, **kwargs):
        super().__init__(**kwargs)
        if kind not in ("log", "power"):
            raise ValueError(f'`kind` must be "log" or "power". Received: {kind!r}')
        if power is not None and (kind == "log" or not 0 < power <= 2):
            raise ValueError(
                '`power` fixes the exponent of kind="power", above 0 and at most 2; leave it None '
                f"to learn it. Received: power={power!r}, kind={kind!r}"
            )
        self.kind = kind
        self.power = power

    def build(self, heads_shape):
        super().build(heads_shape)
        # The paper draws p from U(0, 2) and a from U(0, 1), and clamps both at 0.01.
        shape, uniform = (self.num_heads,), keras.initializers.RandomUniform
        self.a = self._add_uncast("a", shape, before_softplus(uniform(0.01, 1.0)))
        if self.kind == "log":
            self.p = self._add_uncast("p", shape, before_softplus(uniform(0.01, 2.0)))
        elif self.power is None:
            self.p = self._add_uncast("p", shape, _before_sigmoid(uniform(0.01, 1.99)))

    def bias(self, q, grid):
        """-p_h ln(1 + a_h |i - j|) or -a_h |i - j|^p_h, (B or 1, H, Tq, Tk) float32."""
        return map_of_distances(self._of_distance, grid)

    def _of_distance(self, distance):
        distance = ops.abs(ops.cast(distance, "float32"))[:, None]
        by_head = (self.num_heads, *[1] * (len(distance.shape) - 2))
        a = ops.reshape(ops.softplus(ops.cast(self.a, "float32")), by_head)
        if self.kind == "log":
            p = ops.reshape(ops.softplus(ops.cast(self.p, "float32")), by_head)
            return -p * backend.log1p(a * distance)
        if self.power is None:
            p = ops.reshape(2 * ops.sigmoid(ops.cast(self.p, "float32")), by_head)
        else:
            p = ops.cast(self.power, "float32")
        # The gradient of 0^p is ln 0.
        apart = distance > 0
        return -a * ops.where(apart, ops.power(ops.where(apart, distance, 1.0), p), 0.0)


@keras.saving.register_keras_serializable(package="keras_posenc")
class T5Bias(Encoding):
    """A learned bias per bucket of distances: exact for short ones, logarithmic for longer ones.

    For head h, query i and key j it is

        b[h, i, j] = table[bucket(i - j), h]
        bucket(n) = n for n < E, else min(N - 1, E + floor((N - E) ln(n / E) / ln(M / E))).

    There are N buckets on a side. The first E = N // 2 are exact, and M is the longest distance.
    The bias is added to the logits (B, H, Tq, Tk); the table is (num_buckets, H). If bidirectional,
    keys after the query have separate buckets. Fractional distances are truncated.

    Two things differ in T5. First, T5 shares one table among its layers: use `shared=True`. Second,
    T5 does not divide q.k by sqrt(D), while `PositionalAttention` does. To load T5's weights, put a
    temperature of sqrt(D) before the bias: `encodings=[{"name": "temperature", "value":
    math.sqrt(D)}, "t5"]`.

    Args:
        num_buckets: int. Total number of buckets, even if bidirectional.
        max_distance: int. Distance M from which on all distances share the last bucket.
        bidirectional: bool. False is for causal attention only.
        embeddings_initializer: Initializer of the table.
        shared: bool. The table is passed to the call, from a `SharedTable`.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[T5Bias()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Exploring the Limits of Transfer Learning](https://arxiv.org/abs/1910.10683),
    section 2.1.
    """

    paper = "https://arxiv.org/abs/1910.10683"
    reads_keys = False

    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: Initializer = "random_normal",
        **kwargs,
    ):
        super().__init__(**kwargs)
        sides = 2 if bidirectional else 1
        why = "each direction has half of them, at least 2" if bidirectional else ""
        self.num_buckets = checks.whole(
            "num_buckets", num_buckets, least=2 * sides, even=bool(bidirectional), why=why
        )
        exact = num_buckets // sides // 2
        self.max_distance = checks.whole(
            "max_distance",
            max_distance,
            least=exact + 1,
            why=f"{exact} distances have a bucket each",
            remedy="make it longer, or give fewer buckets",
        )
        self.bidirectional = bidirectional
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.causal_only = not bidirectional

    def build(self, heads_shape):
        super().build(heads_shape)
        if not self.shared:
            self.table = self.add_weight(**self.table_arguments(self.num_heads, self.head_size))
        size = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        before = t5_buckets(size, self.max_distance)
        after = size + before[:0:-1] if self.bidirectional else np.zeros_like(before[1:])
        # The bucket of each distance from -max_distance to max_distance.
        self.buckets = np.concatenate([after, before])

    def table_arguments(self, num_heads, head_size):
        """A table (num_buckets, H), in float32 under a mixed policy."""
        return {
            "name": "table",
            "shape": (self.num_buckets, num_heads),
            "initializer": self.embeddings_initializer,
            "autocast": False,
        }

    def bias(self, q, grid):
        """table[bucket(i - j), h], (B or 1, H, Tq, Tk) float32."""
        table = grid.content.tables[self] if self.shared else self.table
        buckets = backend.constant(self.buckets, "int32")
        by_distance = backend.take(ops.cast(table, "float32"), buckets, axis=0)

        def of_distance(distance):
            if not keras.backend.is_int_dtype(distance.dtype):
                distance = ops.sign(distance) * ops.floor(ops.abs(distance))
            distance = ops.clip(distance, -self.max_distance, self.max_distance)
            index = ops.cast(distance, "int32") + self.max_distance
            return ops.moveaxis(ops.take(by_distance, index, axis=0), -1, 1)

        return map_of_distances(of_distance, grid)


@keras.saving.register_keras_serializable(package="keras_posenc")
class FIRE(Encoding):
    """A small MLP of the distance, normalised by the position of the query.

        b[h, i, j] = f_h(ln(c |i - j| + 1) / ln(c max(L, i) + 1)),  f(x) = V relu(w x + u) + d.

    The bias is added to the logits (B, H, Tq, Tk); c, L and f are learned. The argument of f never
    exceeds 1 for causal attention, so no input is new at longer lengths. It depends on the query
    position i itself, not on distances alone. It was designed for causal attention; for a key after
    the query the absolute distance is used.

    A softplus keeps c and the threshold L positive: c = softplus(stored c) and L = length *
    softplus(threshold). The weights of f are w, u (units,), v (units, H) and d (H,).
    `keras_posenc.encodings.published.fire_weights` converts the weights of the paper's listing.

    Args:
        units: int. Hidden units of the MLP.
        scale: float. Initial value of c.
        length: number. Initial value of the threshold L.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[FIRE()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Functional Interpolation for Relative Positions Improves Long Context
    Transformers](https://arxiv.org/abs/2310.04418), section 3.
    """

    execution = Execution(max_rows=256)  # each cell meets all units
    paper = "https://arxiv.org/abs/2310.04418"
    reads_keys = False

    def __init__(self, units: int = 32, scale: float = 0.1, length: float = 512, **kwargs):
        super().__init__(**kwargs)
        self.units = checks.whole("units", units)
        self.scale = checks.number("scale", scale, above=0)
        self.length = checks.number("length", length, above=0)

    def build(self, heads_shape):
        super().build(heads_shape)
        self.c = self._add_uncast("c", (), before_softplus(keras.initializers.Constant(self.scale)))
        # In units of `length`, so that an optimizer step has a useful size.
        self.threshold = self._add_uncast(
            "threshold", (), before_softplus(keras.initializers.Ones())
        )
        # x lies in [0, 1]. Without u all units would have their kink at 0, and half would be dead.
        self.w = self._add_uncast("w", (self.units,), keras.initializers.RandomUniform(-1.0, 1.0))
        self.u = self._add_uncast("u", (self.units,), keras.initializers.RandomUniform(-1.0, 1.0))
        limit = self.units**-0.5
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.v = self._add_uncast("v", (self.units, self.num_heads), uniform)
        self.d = self._add_uncast("d", (self.num_heads,), "zeros")

    def bias(self, q, grid):
        """f_h(ln(c |i - j| + 1) / ln(c max(L, i) + 1)), (B, H, Tq, Tk) float32."""
        c, threshold, w, u, v, d = (
            ops.cast(x, "float32") for x in (self.c, self.threshold, self.w, self.u, self.v, self.d)
        )
        c, threshold = ops.softplus(c), self.length * ops.softplus(threshold)
        distance = ops.abs(ops.cast(grid.distance(), "float32"))
        reach = ops.maximum(ops.cast(grid.query_positions, "float32"), threshold)[..., None]
        # The 1e-6 is published; it also keeps the quotient finite as c goes to 0.
        share = backend.log1p(c * distance) / (backend.log1p(c * reach) + 1e-6)
        # Matrix products are faster than broadcasting over a fifth axis. d is the weight of a unit
        # that is always 1.
        pairs = ops.reshape(ops.stack([share, ops.ones_like(share)], axis=-1), (-1, 2))
        always = backend.constant([[0.0], [1.0]], "float32")
        inner = ops.concatenate([ops.stack([w, u]), always], axis=1)
        outer = ops.concatenate([v, d[None]])
        biases = ops.matmul(ops.relu(ops.matmul(pairs, inner)), outer)
        batch, *cells = ops.shape(share)
        # tf2onnx makes a faulty reshape of a transpose of four axes, and LiteRT of two transposes.
        biases = ops.swapaxes(ops.reshape(biases, (batch, -1, self.num_heads)), 1, 2)
        return ops.reshape(biases, (batch, self.num_heads, *cells))


def t5_buckets(size, max_distance):
    """Computes the bucket of each distance on one side, in integer arithmetic.

    With L = size - E, n is in bucket E + b or above when n^L E^b >= M^b E^L. Floating-point
    logarithms could round to just below an integer. `size`: int. Buckets on this side.
    `max_distance`: int. M. Returns a NumPy int32 (max_distance + 1,): the buckets of the distances
    0 .. max_distance.

    Example:

    >>> t5_buckets(4, 8)
    array([0, 1, 2, 2, 3, 3, 3, 3, 3], dtype=int32)
    """
    exact = size // 2
    steps = size - exact
    buckets, step = list(range(exact)), 0
    for n in range(exact, max_distance + 1):
        while (
            step < steps - 1
            and n**steps * exact ** (step + 1) >= max_distance ** (step + 1) * exact**steps
        ):
            step += 1
        buckets.append(exact + step)
    return np.array(buckets, "int32")


def _before_sigmoid(initializer):
    """Wraps an initializer for a weight stored before 2 sigmoid(.), so that it starts as
    intended."""

    def drawn(shape, dtype=None):
        p = ops.cast(initializer(shape, "float32"), "float32")
        return ops.cast(ops.log(p) - ops.log(2 - p), dtype)

    return drawn
