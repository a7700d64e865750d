"""Attention with log-n scaling."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Encodings
from keras_posenc.attention.call import listed
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.encodings.scale import LOG_N_VARIANTS, LogN, ScalableSoftmax

VARIANTS = (*LOG_N_VARIANTS, "ssmax")


@keras.saving.register_keras_serializable(package="keras_posenc")
class LogNAttention(PositionalAttention):
    """`PositionalAttention` with log-n scaling, which keeps the entropy of attention at any length.

        output = softmax(factor q.k / sqrt(D)) v,   factor = ln n / ln m.

    Here m is `train_length`, and n is the number of keys that the query may attend to, not counting
    padding. Under a causal mask the first row sees one key, so its factor is 0. The factor is
    applied after all `encodings`, so it also scales the separable biases among them. For another
    order, put `LogN` into the `encodings` of a `PositionalAttention`.

    Args:
        num_heads, key_dim, value_dim, encodings: as in `PositionalAttention`.
        train_length: int, at least 2. Training length m.
        clipped: bool. Keep the factor at 1 or above.
        variant: "log_n", "softmax_plus" or "yarn", as in `LogN`, or "ssmax", short for a
            `ScalableSoftmax` at the end of `encodings`: s ln n with a learned s per head.
        **kwargs: of `PositionalAttention`.

    Call arguments:
        query: (B, Tq, E).
        value: (B, Tk, E).
        **kwargs: as in `PositionalAttention`.

    Returns:
        (B, Tq, E), or as in `PositionalAttention` if more is requested.

    Example:

    >>> layer = LogNAttention(num_heads=2, key_dim=16, train_length=64, encodings=["rotary"])
    >>> x = np.random.normal(size=(1, 100, 32))
    >>> layer(x, x).shape
    (1, 100, 32)

    Reference: [Transformer upgrade 8](https://spaces.ac.cn/archives/9444).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        encodings: Encodings = (),
        *,
        train_length: int = 512,
        clipped: bool = False,
        variant: str = "log_n",
        **kwargs,
    ):
        checks.choice("variant", variant, VARIANTS)
        if variant == "ssmax" and clipped:
            raise ValueError(
                '`clipped` keeps every factor at 1 or above, while "ssmax" learns it: use only one '
                "of them. Received: clipped=True, variant='ssmax'"
            )
        if variant == "ssmax":
            scaling = ScalableSoftmax(train_length)
        else:
            scaling = LogN(train_length, clipped, variant)
        super().__init__(num_heads, key_dim, value_dim, [*listed(encodings), scaling], **kwargs)
        others = self.encodings[:-1]
        if any(isinstance(encoding, (LogN, ScalableSoftmax)) for encoding in others):
            raise ValueError(
                "LogNAttention scales by ln n itself: take `LogN` and `ScalableSoftmax` out of "
                "`encodings`, or give them to a PositionalAttention."
            )
        self.train_length = train_length
        self.clipped = bool(clipped)
        self.variant = variant

    def get_config(self):
        config = super().get_config()
        return {**config, "encodings": config["encodings"][:-1]}
