"""Random position ids in training, so that the positions of longer texts are trained too."""

import math

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.positions.position_range import check_length, check_positions, consecutive

METHODS = ("sorted", "exponential", "beta", "pose", "offset")
FLOAT_METHODS = ("exponential", "beta")
TRIES = 16
INFERENCE = ("consecutive", "spread", "sampled")


@keras.saving.register_keras_serializable(package="keras_posenc")
class RandomPositionIds(Configured, keras.layers.Layer):
    """Position ids sampled at random in training, so that longer texts have no untrained position.

    Let t = 0 .. n - 1 count the n tokens of a sequence that are not padding, and let L be
    `max_position`. The id of token t depends on `method`:

    - "sorted": the t-th smallest of n distinct integers out of 0 .. L - 1, all sets equally likely.
      The mean spacing is (L + 1) / (n + 1).
    - "exponential": t u, with one u ~ Exp(1) per sequence. The mean spacing is 1, that of
      consecutive ids at inference. The ids are float32 and unbounded: for rotary, sinusoidal and
      other functions of the position, not for tables.
    - "beta": t u, u = (L / N) Beta(alpha, alpha (L - N) / N), N = `train_length`. The mean spacing
      is 1 and the ids of a sequence of N tokens stay below L; float32. The smaller `alpha`, the
      more often they come near L.
    - "pose": two consecutive runs: t for t < c, v + t from there on; c uniform in 1 .. ceil(n / 2),
      v uniform in 0 .. L - n.
    - "offset": t + v, v uniform in 0 .. L - n.

    Padding, on either side, gets no id of its own: it repeats the id of the token before it, or has
    that of the first token. Use one layer for the whole model, because all attention layers,
    queries and keys must have the same ids.

    Args:
        method: "sorted", "exponential", "beta", "pose" or "offset".
        max_position: int, L. Choose it larger than the length of any test text.
        per: "sequence" or "batch": the scope of one draw. One draw per batch gives noisier
            gradients, especially with the float ids of "exponential" and "beta".
        inference: ids outside training: "consecutive" (t); "spread" (evenly over 0 .. L - 1: t L /
            n, rounded down where ids are integers); or "sampled" (as in training).
        pad_token_id: int or None. The id of the padding token; None uses the Keras mask of the
            input, if it has one.
        train_length: int N, for "beta" only.
        alpha: positive float, for "beta" only; default 1.
        seed: int or None.

    Call arguments:
        inputs: (B, T) token ids, or (B, T, ...) features; their values are read for `pad_token_id`
            only.
        mask: (B, T) bool, False on padding. Set by Keras.
        training: bool. Set by Keras.

    Returns:
        (B, T) ids, int32, or float32 with "exponential" and "beta".

    Example:

    >>> ids = RandomPositionIds("sorted", max_position=10, seed=0)
    >>> tokens = np.zeros((1, 4), "int32")
    >>> drawn = ops.convert_to_numpy(ids(tokens, training=True))[0]  # such as [1, 2, 6, 9]
    >>> bool((np.diff(drawn) > 0).all() and drawn.max() < 10)
    True
    >>> ops.convert_to_numpy(ids(tokens)).tolist()
    [[0, 1, 2, 3]]
    >>> tokens = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(100, 32)(tokens)
    >>> attention = PositionalAttention(num_heads=2, key_dim=16, encodings=["rotary"])
    >>> x = attention(x, x, query_positions=ids(tokens))

    Reference: "sorted" is from [Randomized positional
    encodings](https://arxiv.org/abs/2305.16843). The sources of the others are [Transformer upgrade
    8](https://spaces.ac.cn/archives/9444) for "exponential" and "beta",
    [PoSE](https://arxiv.org/abs/2309.10400) for "pose" and
    [SHAPE](https://arxiv.org/abs/2109.05644) for "offset".
    """

    def __init__(
        self,
        method: str = "sorted",
        max_position: int = 2048,
        per: str = "sequence",
        inference: str = "consecutive",
        pad_token_id: int | None = None,
        train_length: int | None = None,
        alpha: float | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        # No dtype policy may round ids: in bfloat16, 257 equals 256.
        kwargs["dtype"] = "float32" if method in FLOAT_METHODS else "int32"
        super().__init__(autocast=False, **kwargs)
        self.method = checks.choice("method", method, METHODS)
        self.per = checks.choice("per", per, ("sequence", "batch"))
        self.inference = checks.choice("inference", inference, INFERENCE)
        max_position = checks.whole("max_position", max_position)
        if method == "beta":
            alpha = 1.0 if alpha is None else alpha
            _check_beta(alpha, train_length, max_position)
        elif not (train_length is None and alpha is None):
            raise ValueError(
                f'`train_length` and `alpha` shape method="beta" and no other. Received: '
                f"method={method!r}, train_length={train_length!r}, alpha={alpha!r}"
            )
        self.max_position = max_position
        self.pad_token_id = pad_token_id
        self.train_length = train_length
        self.alpha = alpha
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs, mask=None, training=None):
        index, count = self._count(inputs, mask)
        length = ops.shape(inputs)[1]
        if training or self.inference == "sampled":
            self._check_length(length)
            ids = self._draw(index, count)
        elif self.inference == "spread":
            ids = self._spread(index, count, length)
        else:
            ids = index
        return ops.cast(ids, self.compute_dtype)

    def _count(self, inputs, mask):
        """(B, T) index of each token among the real ones, and (B, 1) their number."""
        batch, length = ops.shape(inputs)[:2]
        real = ops.ones((batch, length), "int32")
        if self.pad_token_id is not None:
            if len(inputs.shape) != 2:
                raise ValueError(
                    "`pad_token_id` is looked for among token ids (B, T): give those, or leave "
                    f"it out and give a mask. Received: inputs of shape {tuple(inputs.shape)}"
                )
            real = real * ops.cast(ops.not_equal(inputs, self.pad_token_id), "int32")
        if mask is not None:
            real = real * ops.cast(mask, "int32")
        count = ops.sum(real, axis=1, keepdims=True)
        return ops.maximum(ops.cumsum(real, axis=1) - 1, 0), ops.maximum(count, 1)

    def _draw(self, index, count):
        rows = 1 if self.per == "batch" else ops.shape(index)[0]

        def uniform(size):
            return keras.random.uniform((rows, size), dtype="float32", seed=self.seed_generator)

        if self.method == "sorted":
            return _sorted_sample(uniform(self.max_position), index, count)
        if self.method == "exponential":
            return ops.cast(index, "float32") * -ops.log1p(-uniform(1))
        if self.method == "beta":
            stretch = self.max_position / self.train_length
            logs = [
                _log_gamma_variate(
                    keras.random.normal((rows, TRIES), dtype="float32", seed=self.seed_generator),
                    uniform(TRIES),
                    uniform(1),
                    shape,
                )
                for shape in (self.alpha, self.alpha * (stretch - 1))
            ]
            return ops.cast(index, "float32") * (stretch * ops.sigmoid(logs[0] - logs[1]))
        # If a text is too long, its ids start at 0, so that a table reports the missing ones.
        skip = _uniform_integer(uniform(1), ops.maximum(self.max_position - count, 0) + 1)
        if self.method == "offset":
            return index + skip
        cut = 1 + _uniform_integer(uniform(1), (count + 1) // 2)
        return index + ops.where(index >= cut, skip, 0)

    def _spread(self, index, count, length):
        if self.method in FLOAT_METHODS:
            count = ops.cast(count, "float32")
            return ops.cast(index, "float32") * (self.max_position / count)
        self._check_length(length)
        return _share(index, self.max_position, count)

    def _check_length(self, length):
        if self.method == "exponential":
            return
        bound, remedy = self.max_position, "Raise `max_position`: every token needs its own id."
        if self.method == "beta":
            bound, remedy = self.train_length, "`train_length` is that of the longest sequence."
        if isinstance(length, int):
            check_length(0, length, bound, remedy)
        else:
            check_positions(ops.convert_to_tensor(length) - 1, bound, remedy)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape[:2]


def _sorted_sample(uniform, index, count):
    """Draws `count` distinct integers out of 0 .. L - 1, sorts them, and reads them at `index`.

    The first columns of a random permutation are a sample without replacement of any size, so a
    padded sequence uses as many of them as it has tokens; the rest is sorted to the end.
    """
    length = ops.shape(index)[1]
    order = ops.cast(ops.argsort(uniform, axis=-1), "int32")[:, :length]
    drawn = ops.where(consecutive(length)[None] < count, order, uniform.shape[-1])
    return ops.take_along_axis(ops.sort(drawn, axis=-1), index, axis=1)


def _log_gamma_variate(normal, uniform, last, shape):
    """(B, 1) logarithms of draws from Gamma(shape); two of them make a draw from Beta.

    Marsaglia and Tsang's rejection sampling, which accepts 19 of 20, with enough parallel tries
    that one is accepted: TensorFlow's own sampler does not compile under XLA. The rejection draws
    from Gamma(shape + 1); a uniform number to the power 1 / shape turns that into Gamma(shape).
    """
    d = shape + 2 / 3
    v = (1 + normal / math.sqrt(9 * d)) ** 3
    log_v = ops.log(ops.maximum(v, 1e-30))
    accepted = ops.log1p(-uniform) < 0.5 * normal**2 + d * (1 - v + log_v)
    first = ops.argmax(ops.cast(accepted, "int32"), axis=1, keepdims=True)
    return ops.take_along_axis(log_v, first, axis=1) + math.log(d) + ops.log1p(-last) / shape


def _uniform_integer(uniform, count):
    """A uniform integer of 0 .. count - 1; a product of floats could round up to `count`."""
    drawn = ops.cast(ops.floor(uniform * ops.cast(count, "float32")), "int32")
    return ops.minimum(drawn, count - 1)


def _share(index, total, count):
    """floor(index total / count), with the index split in two so that products fit into int32."""
    whole, rest = total // count, total % count
    high, low = index // 256, index % 256
    carried = high * rest
    return (
        index * whole + 256 * (carried // count) + (256 * (carried % count) + low * rest) // count
    )


def _check_beta(alpha, train_length, max_position):
    checks.number("alpha", alpha, above=0)
    why = f'method="beta" needs it, below max_position={max_position}'
    checks.whole("train_length", train_length, most=max_position - 1, why=why)
