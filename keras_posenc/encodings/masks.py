"""Encodings that mask cells of the attention map."""

import math
import numbers

import keras

from keras_posenc.encodings.base import Encoding


@keras.saving.register_keras_serializable(package="keras_posenc")
class Window(Encoding):
    """Sliding-window attention with attention sinks: only nearby keys and the first keys are seen.

    Cell (i, j) stays unmasked if |i - j| < window or j < sinks, where i and j are position ids.
    Causal order, padding and masks of the attention map (B, H, Tq, Tk) still apply.

    Args:
        window: positive number. Distances from it on are masked; a window of 1 is the key itself.
        sinks: integer, at least 0. First positions that stay visible at any distance; StreamingLLM
            and LM-Infinite keep a few.

    Raises:
        ValueError: on a bad number, or on two windows in one attention layer.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=["rotary", Window(128, sinks=4)])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Efficient Streaming Language Models with Attention
    Sinks](https://arxiv.org/abs/2309.17453); the window is that of
    [Longformer](https://arxiv.org/abs/2004.05150).
    """

    paper = "https://arxiv.org/abs/2309.17453"

    def __init__(self, window=512, sinks=0, **kwargs):
        super().__init__(**kwargs)
        number = isinstance(window, numbers.Real) and not isinstance(window, bool)
        if not number or not 0 < window < math.inf:
            raise ValueError(
                "`window` must be a positive number: at 0 a query would not see its own key. "
                f"Received: {window!r}"
            )
        if isinstance(sinks, bool) or not isinstance(sinks, int) or sinks < 0:
            raise ValueError(f"`sinks` must be an integer, at least 0. Received: {sinks!r}")
        self.window = window
        self.sinks = sinks

    def restrict(self, grid):
        """Masks cells (B, H, Tq, Tk) at a distance |i - j| >= window, but for the sinks."""
        if grid.window is not None:
            raise ValueError(
                "Two windows over one attention map: keep the one that closes more, or put them "
                "into different layers."
            )
        return grid.replace(window=self.window, sinks=self.sinks)

    def get_config(self):
        return {**super().get_config(), "window": self.window, "sinks": self.sinks}
