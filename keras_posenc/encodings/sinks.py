"""Keys without a token: a place for the attention that no token needs."""

import keras

from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding


@keras.saving.register_keras_serializable(package="keras_posenc")
class SinkLogits(Encoding):
    """A learned logit per head joins the denominator of the softmax.

        A_ij = exp(l_ij) / (exp(s_h) + sum_t exp(l_it))

    It is one more key, which every query sees, with the logit s_h and a value of zero. The weights
    (B, H, Tq, Tk) of a query then sum to less than 1, so a head can attend to nothing. The
    first tokens of a text need not serve as sinks. Other encodings do not act on s_h. It runs on
    fused kernels.

    Args:
        initializer: initializer of s, (H,). With zeros, training starts from a softmax with 1
            added to its denominator. gpt-oss draws s from a normal distribution.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=["rotary", "sink_logits"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [gpt-oss-120b & gpt-oss-20b Model Card](https://arxiv.org/abs/2508.10925), section
    2.3. `Window(sinks=...)` keeps the first tokens visible instead.
    """

    paper = "https://arxiv.org/abs/2508.10925"
    reads_keys = False

    def __init__(self, initializer: Initializer = "zeros", **kwargs):
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)

    def build(self, heads_shape):
        super().build(heads_shape)
        self.logits = self._add_uncast("logits", (self.num_heads,), self.initializer.clone())

    def sink(self):
        """s, (H,)."""
        return self.logits
