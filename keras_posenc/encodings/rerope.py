"""Rotary embeddings with distances clipped, or compressed, beyond a window."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.encodings.remapped import Region, RemappedRotary


@keras.saving.register_keras_serializable(package="keras_posenc")
class ReRoPE(RemappedRotary):
    """Rectified rotary embeddings: distances r = i - j are clipped at a window w.

    The logit is q_i R_r' k_j, with r' = r for |r| < w and r' = sign(r) w beyond. With a `leak` f,
    r' = sign(r) (w + (|r| - w) / f) beyond (Leaky ReRoPE). It needs no training. The logits (B, H,
    Tq, Tk) beyond the window are recomputed from the rotated q and k that attention used, including
    factors of the queries such as log-n. Add "log_n" before or after it for the best setting of Su
    (2023). It materialises the whole logits matrix, with three products, or four if later keys are
    visible.

    A call of the layer itself is that of `RotaryEmbedding`: it rotates (B, T, H, D) by the ids.

    Args:
        window: number. The window w, well below the training length. Su (2023) uses 512 for 4096.
        leak: float above 1, or None. The leak f; None keeps the distance constant beyond the
            window.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

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

    def __init__(self, window: float = 512, leak: float | None = None, **kwargs):
        super().__init__(**kwargs)
        checks.number("window", window, above=0)
        if leak is not None:
            why = "it divides the distances beyond the window, and at 1 this is plain rotary"
            checks.number("leak", leak, above=1, why=why)
        self.window = window
        self.leak = leak

    def regions(self):
        """The pairs at least a window apart."""
        slope, window = 1 / self.leak if self.leak else 0.0, self.window
        return [
            Region(
                later=lambda ids: slope * ids + (1 - slope) * window,
                earlier=lambda ids: slope * ids,
                contains=lambda later, earlier: later - earlier >= window,
            )
        ]

    def get_config(self):
        return {**super().get_config(), "window": self.window, "leak": self.leak}
