"""Rotary embeddings that see no distance beyond a window, or see it grow more slowly there."""

import math

import keras
from keras import ops

from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.encodings.rotary_arguments import check_positive


@keras.saving.register_keras_serializable(package="keras_posenc")
class ReRoPE(RotaryEmbedding):
    """Rotary whose distances r = i - j are cut at a window w, so that none is longer than trained.

    The logit is q_i R_r' k_j with r' = r for |r| < w, and sign(r) w beyond; with `leak` f
    sign(r) (w + (|r| - w) / f) beyond (Leaky ReRoPE). Needs no training. Cells beyond the window
    are computed from the heads as they met, with log-n or any other factor of the queries on them,
    so "log_n" before or after it gives the author's best setting. It forms the whole map, in three
    products, or four where later keys are seen too.

    Args:
        window: number. w, well below the training length; the author's choice is 512 of 4096.
        leak: None (constant beyond the window), or a float above 1: f.
        **kwargs: as `RotaryEmbedding`, but `sections`.

    Call arguments: as `RotaryEmbedding`. A call alone is the rotation within the window.

    Raises:
        ValueError: as `RotaryEmbedding`; for `sections`, or a leak of 1 and less.

    Example:

    >>> encodings = [{"name": "rerope", "window": 512, "leak": 16.0}]
    >>> layer = PositionalAttention(4, 64, encodings=encodings)

    Reference: Su Jianlin, [Rectified rotary position
    embeddings](https://kexue.fm/archives/9708), 2023; https://github.com/bojone/rerope.
    """

    fewest_rows = 512  # each block turns all columns
    paper = "https://kexue.fm/archives/9708"
    one_axis = True

    def __init__(self, window=512, leak=None, **kwargs):
        super().__init__(**kwargs)
        check_positive("window", window)
        if leak is not None:
            check_positive("leak", leak)
            if leak <= 1:
                raise ValueError(
                    "`leak` divides the distances beyond the window, so it must be above 1: at 1 "
                    f"this is plain rotary. Received: {leak!r}"
                )
        self.window = window
        self.leak = leak
        # Where the frequencies depend on the length, on the last key.
        self.needs_all_columns = self.kind in ("dynamic", "longrope")

    def score(self, logits, q, grid):
        # The content, turned and perhaps scaled. Row i stands at i; beyond the window it shall
        # stand at slope i + (1 - slope) w, or - w for later keys, and column j at slope j.
        slope = 1 / self.leak if self.leak else 0.0
        rows, columns = ops.cast(grid.rows, "float32"), ops.cast(grid.columns, "float32")
        q, k = (x[..., : self.rotary_size] for x in grid.encoded)
        moved = self.rotated(k, (slope - 1) * columns, grid)

        def product(side):
            turned = self.rotated(q, (1 - slope) * (side * self.window - rows), grid)
            return self._logits(ops.cast(turned, q.dtype), ops.cast(moved, q.dtype))

        far = product(1)
        distance = grid.distance()[:, None]
        if not grid.order_is_index:
            far = ops.where(distance > 0, far, product(-1))
        # Products of other features, and biases, stay as they are.
        return ops.where(ops.abs(distance) < self.window, logits, logits + far - self._logits(q, k))

    def _logits(self, q, k):
        scale = ops.cast(1 / math.sqrt(self.head_size), q.dtype)
        return ops.cast(ops.einsum("bqhd,bkhd->bhqk", q * scale, k), "float32")

    def get_config(self):
        return {**super().get_config(), "window": self.window, "leak": self.leak}
