"""Replacements of the softmax: from logits to attention weights."""

import keras
from keras import ops

from keras_posenc.encodings.base import Encoding
from keras_posenc.maps.sums import sum_from_right


@keras.saving.register_keras_serializable(package="keras_posenc")
class StickBreaking(Encoding):
    """Stick-breaking attention: going back from the query, each key takes a share of what is left.

        A_ij = sigmoid(l_ij) prod_{j<t<i} (1 - sigmoid(l_it))

    computed as exp(l_ij - sum_{j<=t<i} softplus(l_it)), from logits (B, H, Tq, Tk) to weights of
    that shape. Nearer keys come first, so the order of the tokens is known without position ids. A
    query does not attend to its own key; the weights sum to less than 1, and those of the first
    query are all 0.

    Args:
        **kwargs: of `keras.layers.Layer`.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["stick_breaking"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Scaling Stick-Breaking Attention](https://arxiv.org/abs/2410.17980).
    """

    causal_only = True
    paper = "https://arxiv.org/abs/2410.17980"
    reads_keys = False

    def normalize(self, logits, grid):
        """sigmoid(l_ij) prod_{j<t<i} (1 - sigmoid(l_it)), (B, H, Tq, Tk)."""
        logits = ops.where(ops.expand_dims(grid.same_token(), 1), -1e9, logits)
        return ops.exp(logits - sum_from_right(ops.softplus(logits)))


@keras.saving.register_keras_serializable(package="keras_posenc")
class SquaredReLU(Encoding):
    """Squared ReLU in place of the softmax, as in the gated attention unit.

        A_ij = max(l_ij, 0)^2 / n_i

    from logits (B, H, Tq, Tk) to weights of that shape. n_i is the number of keys that query i may
    attend to, at least 1. This is bert4keras's convention; the paper divides q.k by n before
    squaring.

    Args:
        **kwargs: of `keras.layers.Layer`.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["squared_relu"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Transformer Quality in Linear Time](https://arxiv.org/abs/2202.10447).
    """

    paper = "https://arxiv.org/abs/2202.10447"
    reads_keys = False

    def normalize(self, logits, grid):
        """max(l_ij, 0)^2 / n_i, (B, H, Tq, Tk)."""
        positive = ops.relu(logits)
        # Not the square first: in float16, that of 256 is infinite.
        visible = ops.cast(ops.expand_dims(ops.maximum(grid.visible(), 1.0), -1), positive.dtype)
        return positive * (positive / visible)
