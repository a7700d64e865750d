"""Rotary embeddings with distances clipped, or compressed, beyond a window."""

import math

import keras
from keras import ops

from keras_posenc import backend, checks
from keras_posenc.encodings.base import Execution
from keras_posenc.encodings.rotary import RotaryEmbedding


@keras.saving.register_keras_serializable(package="keras_posenc")
class ReRoPE(RotaryEmbedding):
    """Rectified rotary embeddings: distances r = i - j are clipped at a window w.

    The logit is q_i R_r' k_j, with r' = r for |r| < w and r' = sign(r) w beyond; with a `leak` f,
    r' = sign(r) (w + (|r| - w) / f) beyond (Leaky ReRoPE). It needs no training. The logits (B, H,
    Tq, Tk) beyond the window are recomputed from the rotated q and k that attention used, including
    factors of the queries such as log-n: "log_n" before or after it gives the author's best
    setting. It materialises the whole logits matrix, with three products, or four if later keys are
    visible.

    Args:
        window: number. w, well below the training length; the author's choice is 512 for 4096.
        leak: None (constant beyond the window), or a float above 1: f.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Call arguments:
        inputs: (B, T, H, D), or a pair (q, k) of those. A call of the layer itself only applies the
            rotation within the window.
        positions: optional (T,) or (B, T) ids. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor.

    Returns:
        The rotated inputs, of the same shape, in the compute dtype.

    Raises:
        ValueError: as in `RotaryEmbedding`; if `sections` are given; if `leak` is 1 or less.

    Example:

    >>> encodings = [{"name": "rerope", "window": 512, "leak": 16.0}]
    >>> layer = PositionalAttention(4, 64, encodings=encodings)
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: Su Jianlin, [Rectified rotary position embeddings](https://kexue.fm/archives/9708),
    2023; https://github.com/bojone/rerope.
    """

    paper = "https://kexue.fm/archives/9708"
    one_axis = True

    def __init__(self, window: float = 512, leak: float | None = None, **kwargs):
        super().__init__(**kwargs)
        checks.number("window", window, above=0)
        if leak is not None:
            why = "it divides the distances beyond the window, and at 1 this is plain rotary"
            checks.number("leak", leak, above=1, why=why)
        self.window = window
        self.leak = leak
        # Each block turns all columns. Frequencies by the length need the last of them.
        self.execution = Execution(min_rows=512, all_columns=self.reads_length)

    def score(self, logits, q, grid):
        """The logits (B, H, Tq, Tk), with q_i R_r' k_j beyond the window."""
        # q and k are rotated, and perhaps scaled, already: row i by i, column j by j. Beyond the
        # window the row's angle is to be that of slope i + (1 - slope) w, or - w for later keys,
        # and the column's that of slope j.
        slope = 1 / self.leak if self.leak else 0.0
        rows, columns = (
            ops.cast(grid.query_positions, "float32"),
            ops.cast(grid.key_positions, "float32"),
        )
        q, k = (x[..., : self.rotary_size] for x in grid.content.encoded)
        moved = self.rotated(k, (slope - 1) * columns, grid)

        def product(side):
            turned = self.rotated(q, (1 - slope) * (side * self.window - rows), grid)
            return self._logits(ops.cast(turned, q.dtype), ops.cast(moved, q.dtype))

        far = product(1)
        distance = grid.distance()[:, None]
        if not grid.order_is_index:
            far = ops.where(distance > 0, far, product(-1))
        # The difference leaves biases and the products of unrotated features as they are.
        return ops.where(ops.abs(distance) < self.window, logits, logits + far - self._logits(q, k))

    def _logits(self, q, k):
        scale = ops.cast(1 / math.sqrt(self.head_size), q.dtype)
        return ops.cast(backend.product(q * scale, k, "bqhd,bkhd->bhqk"), "float32")

    def get_config(self):
        return {**super().get_config(), "window": self.window, "leak": self.leak}
