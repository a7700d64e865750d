"""Rotary embeddings with exponential decay over distance."""

import keras
import numpy as np
from keras import ops

from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.encodings.rotary_arguments import check_positive


@keras.saving.register_keras_serializable(package="keras_posenc")
class XPos(RotaryEmbedding):
    """xPos: rotary embeddings whose products decay with distance.

    q_i -> R_i q_i z^((i - c) / B), k_j -> R_j k_j z^(-(j - c) / B), so that pair k of the product
    is multiplied by z_k^((i - j) / B), z_k = (k / n + gamma) / (1 + gamma) < 1, n the number of
    pairs. The centre c, the middle of the key positions, cancels; it keeps both factors in range:
    in float16 for about 16 B positions, in bfloat16 and float32 for 100 B.

    Args:
        scale_base: float. B, the distance over which pair k decays by z_k.
        gamma: float. The larger, the weaker the decay of the fast pairs.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Call arguments:
        inputs: the pair (q, k), each (B, T, H, D); a single tensor would not say which it is.
        positions: optional (T,) or (B, T) ids. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor.

    Returns:
        The pair (q, k), rotated and scaled, in the compute dtype.

    Raises:
        ValueError: as in `RotaryEmbedding`; if `sections` are given; for a single tensor.

    Example:

    >>> layer = PositionalAttention(4, 64, encodings=["xpos"])
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: [A Length-Extrapolatable Transformer](https://arxiv.org/abs/2212.10554).
    """

    paper = "https://arxiv.org/abs/2212.10554"
    causal_only = True
    one_axis = True

    def __init__(self, scale_base=512.0, gamma=0.4, **kwargs):
        super().__init__(**kwargs)
        check_positive("scale_base", scale_base)
        check_positive("gamma", gamma)
        self.scale_base = scale_base
        self.gamma = gamma

    def turned(self, q, k, grid):
        grid.check_one_axis()
        pairs = self.rotary_size // 2
        fading = np.log((np.arange(pairs) / pairs + self.gamma) / (1 + self.gamma))
        rows, columns = ops.cast(grid.rows, "float32"), ops.cast(grid.columns, "float32")
        first, last = ops.min(columns, 1, keepdims=True), ops.max(columns, 1, keepdims=True)
        centre = (first + last) / 2

        def magnitude(ids, sign):
            far = sign * (ids - centre) / self.scale_base
            return self.factor * ops.exp(far[:, :, None, None] * ops.cast(fading, "float32"))

        q = self.rotated(q, grid.rows, grid, magnitude(rows, 1.0))
        return q, self.rotated(k, grid.columns, grid, magnitude(columns, -1.0))

    def call(self, inputs, positions=None, offset=0):
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(
                "xPos scales queries and keys in opposite ways: call it on the pair (q, k). "
                f"Received: one tensor of shape {tuple(inputs.shape)}"
            )
        return super().call(inputs, positions, offset)

    def get_config(self):
        return {**super().get_config(), "scale_base": self.scale_base, "gamma": self.gamma}
