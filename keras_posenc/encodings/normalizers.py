"""Logits made into weights by another rule than softmax."""

import keras
from keras import ops

from keras_posenc.encodings.base import Encoding
from keras_posenc.encodings.counting import sum_from_right


@keras.saving.register_keras_serializable(package="keras_posenc")
class StickBreaking(Encoding):
    """Stick-breaking attention: from the query backwards, every key takes a share of what is left.

        A_ij = sigmoid(l_ij) prod_{j<t<i} (1 - sigmoid(l_it))

    computed as exp(l_ij - sum_{j<=t<i} softplus(l_it)). Near keys come first, so the order of the
    tokens is known without any position. A query takes nothing from its own key; what no key took
    is left over, and weights add up to less than 1. The first query has only zeros.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["stick_breaking"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Scaling Stick-Breaking Attention](https://arxiv.org/abs/2410.17980).
    """

    causal_only = True
    paper = "https://arxiv.org/abs/2410.17980"

    def normalize(self, logits, grid):
        logits = ops.where(ops.expand_dims(grid.own(), 1), -1e9, logits)
        return ops.exp(logits - sum_from_right(ops.softplus(logits)))


@keras.saving.register_keras_serializable(package="keras_posenc")
class SquaredReLU(Encoding):
    """Squared ReLU in place of softmax, as in the gated attention unit:

        A_ij = max(l_ij, 0)^2 / n_i

    n_i is the number of keys that query i may attend to, at least 1. This is bert4keras's
    convention; the paper divides q.k by n before the square.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["squared_relu"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Transformer Quality in Linear Time](https://arxiv.org/abs/2202.10447).
    """

    paper = "https://arxiv.org/abs/2202.10447"

    def normalize(self, logits, grid):
        return ops.square(ops.relu(logits)) / ops.maximum(grid.visible(), 1.0)[..., None]
