"""Factors of the queries, and so of the logits: they control how sharp the softmax is."""

import math

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Encoding

LOG_N_VARIANTS = ("log_n", "softmax_plus", "yarn")
TEMPERATURES = ("constant", "learned", "yarn", "llama4")


class _QueryFactor(Encoding):
    """A factor of the queries; subclasses define it.

    It scales the query as it is at this point of the list. Terms that separable biases earlier in
    the list added are scaled too; those of later ones are not.
    """

    reads_keys = False

    def factor(self, grid):
        """Float32, broadcastable to (B, H, Tq); a float if it is the same for all rows."""
        raise NotImplementedError

    def heads(self, q, k, grid):
        """q times the factor of its row, (B, Tq, H, D), and k unchanged."""
        factor = self.factor(grid)
        if not isinstance(factor, float):
            factor = ops.expand_dims(ops.transpose(factor, (0, 2, 1)), -1)
        return ops.cast(ops.cast(q, "float32") * factor, q.dtype), k


@keras.saving.register_keras_serializable(package="keras_posenc")
class LogN(_QueryFactor):
    """Log-n attention: scales the logits by ln n, which keeps the entropy as texts get longer.

    The query (B, Tq, H, D) is multiplied by a factor, and so are its logits. Let n be the number of
    keys that a query may attend to, and m the training length.

    With "log_n" the factor is ln n / ln m. With "softmax_plus", the variant of bert4keras, it is
    ln max(n, 16) / ln m; bert4keras has m = 512. With "yarn" it is (1 + 0.1 ln max(n / m, 1))^2,
    the temperature of YaRN at the scale n / m of each query. `Temperature` explains where else that
    temperature occurs.

    Padding does not count. In an encoder n is the length of the sequence. Under a causal mask it is
    the number of keys so far, so the factor grows from row to row; it is 0 for the first row, which
    sees only one key. It is exactly 1 at n = m.

    The factor scales the query at this point of the list of encodings: separable biases before it
    in the list are scaled too, later ones are not, and other biases never are.

    Args:
        train_length: int, at least 2. Training length m.
        clipped: bool. Keep the factor at 1 or above, so that nothing changes up to length m. For
            weights trained without log-n scaling.
        variant: "log_n", "softmax_plus" or "yarn".

    Example:

    >>> encodings = ["rotary", LogN(train_length=64, clipped=True)]
    >>> layer = PositionalAttention(2, 16, encodings=encodings)
    >>> x = np.random.normal(size=(1, 100, 32))
    >>> layer(x, x).shape
    (1, 100, 32)

    Reference: ln n is from [Overcoming a Theoretical Limitation of
    Self-Attention](https://arxiv.org/abs/2202.12172). The ratio ln n / ln m is from [Transformer
    upgrade 8](https://spaces.ac.cn/archives/9444). The variant "yarn" is from
    [YaRN](https://arxiv.org/abs/2309.00071).
    """

    paper = "https://arxiv.org/abs/2202.12172"

    def __init__(
        self, train_length: int = 512, clipped: bool = False, variant: str = "log_n", **kwargs
    ):
        super().__init__(**kwargs)
        self.train_length = checks.whole("train_length", train_length, least=2, why="ln 1 is 0")
        self.clipped = bool(clipped)
        self.variant = checks.choice("variant", variant, LOG_N_VARIANTS)

    def factor(self, grid):
        smallest = {"log_n": 1, "softmax_plus": 16, "yarn": self.train_length}[self.variant]
        # The log of n / m rather than of n, so that the factor is exactly 1 at n = m.
        log = ops.log(ops.maximum(grid.visible(), smallest) / self.train_length)
        if self.variant == "yarn":
            return ops.square(1 + 0.1 * log)
        factor = 1 + log / math.log(self.train_length)
        return ops.maximum(factor, 1) if self.clipped else factor


@keras.saving.register_keras_serializable(package="keras_posenc")
class ScalableSoftmax(_QueryFactor):
    """SSMax: log-n scaling with a learned strength per head.

    The query (B, Tq, H, D) is multiplied by s_h ln n + b_h, with n the number of keys that it may
    attend to; the softmax becomes n^(s z_i) / sum_j n^(s z_j). s and b are (H,). Like `LogN`, the
    factor scales the query at this point of the list of encodings. `LogNAttention` with
    `variant="ssmax"` is short for this encoding at the end of the list.

    Args:
        train_length: int, at least 2. Sets the initial s: the reciprocal of the mean of ln n over n
            = 1 .. train_length, as in causal training; 0.168 at the paper's 1024.
        use_bias: bool. Also learn b, initially 0.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=["rotary", "ssmax"])
    >>> x = np.random.normal(size=(1, 100, 32))
    >>> layer(x, x).shape
    (1, 100, 32)

    Reference: [Scalable-Softmax](https://arxiv.org/abs/2501.19399).
    """

    paper = "https://arxiv.org/abs/2501.19399"

    def __init__(self, train_length: int = 512, use_bias: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.train_length = checks.whole("train_length", train_length, least=2, why="ln 1 is 0")
        self.use_bias = bool(use_bias)

    def build(self, heads_shape):
        super().build(heads_shape)
        mean = math.lgamma(self.train_length + 1) / self.train_length
        shape, start = (self.num_heads,), keras.initializers.Constant(1 / mean)
        self.scale = self._add_uncast("scale", shape, start)
        self.bias_by_head = self._add_uncast("bias", shape, "zeros") if self.use_bias else None

    def factor(self, grid):
        factor = _per_head(self.scale) * ops.log(ops.maximum(grid.visible(), 1))
        return factor + _per_head(self.bias_by_head) if self.use_bias else factor


@keras.saving.register_keras_serializable(package="keras_posenc")
class Temperature(_QueryFactor):
    """A temperature of the logits that does not depend on the number of keys.

    The query (B, Tq, H, D) is multiplied by a factor, which depends on `kind` and on c, the
    `value`.

    With "constant" it is c. Attention without positions extrapolates further with some c above 1.
    With "learned" it is a positive number per head (H,), initially c, stored before a softplus.
    With "yarn" it is (1 + 0.1 ln c)^2 for a context that is extended by the factor c. For c <= 1 it
    is 1. With "llama4" it is 1 + s ln(floor((p + o) / c) + 1), where p is the query's position, s
    the `slope` and o the `offset`. Llama 4 uses this in its layers without rotation. Ministral 3
    uses it in all layers, with the offset 0.

    Like `LogN`, the factor scales the query at this point of the list of encodings.

    YaRN's temperature must be applied once only. With rotary positions, use
    `RotaryEmbedding(scaling={"rope_type": "yarn", ...})`, which includes it. `Temperature("yarn",
    c)` is for other encodings, at one scale c, and `LogN(variant="yarn")` for texts of many
    lengths, at the scale of each query.

    Args:
        kind: "constant", "learned", "yarn" or "llama4".
        value: positive number c. Default: 8192 for "llama4"; 1, which changes nothing, otherwise.
        slope: number s of at least 0, for "llama4".
        offset: number o of at least 0, for "llama4".

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=[Temperature(value=1.2)])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Length Generalization of Causal Transformers without Position
    Encoding](https://arxiv.org/abs/2404.12224). The kind "yarn" is from
    [YaRN](https://arxiv.org/abs/2309.00071).
    """

    paper = "https://arxiv.org/abs/2404.12224"
    by_position = True

    def __init__(
        self,
        kind: str = "constant",
        value: float | None = None,
        slope: float = 0.1,
        offset: float = 1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kind = checks.choice("kind", kind, TEMPERATURES)
        value = (8192 if kind == "llama4" else 1.0) if value is None else value
        self.value = checks.number("value", value, above=0)
        self.slope = checks.number("slope", slope, least=0)
        self.offset = checks.number("offset", offset, least=0)
        if kind != "llama4" and (slope, offset) != (0.1, 1.0):
            raise ValueError(
                '`slope` and `offset` are those of kind="llama4": leave them out, or choose it. '
                f"Received: kind={kind!r}, slope={slope}, offset={offset}"
            )

    def build(self, heads_shape):
        super().build(heads_shape)
        if self.kind == "learned":
            # The temperature is softplus(weight), so it cannot become negative.
            value = self.value + math.log(-math.expm1(-self.value))
            start = keras.initializers.Constant(value)
            name = "softplus_temperature"
            self.softplus_temperature = self._add_uncast(name, (self.num_heads,), start)

    def factor(self, grid):
        if self.kind == "constant":
            return float(self.value)
        if self.kind == "learned":
            return ops.softplus(_per_head(self.softplus_temperature))
        if self.kind == "yarn":
            return (1 + 0.1 * math.log(max(self.value, 1))) ** 2
        grid.check_one_axis()
        position = ops.cast(grid.query_positions, "float32")[:, None]
        return 1 + self.slope * ops.log(ops.floor((position + self.offset) / self.value) + 1)


def _per_head(weight):
    return ops.cast(weight, "float32")[None, :, None]
