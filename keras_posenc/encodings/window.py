"""Sliding-window attention as an encoding."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Encoding


@keras.saving.register_keras_serializable(package="keras_posenc")
class Window(Encoding):
    """Sliding-window attention: each query sees nearby keys, and optionally the first ones.

    Cell (i, j) stays unmasked if |i - j| < window, j < sinks, i < global_tokens or
    j < global_tokens, where i and j are position ids. Causal order, padding and masks of the
    attention matrix (B, H, Tq, Tk) still apply. Time and memory are those of the window.

    Args:
        window: positive number. Keys at this distance or farther are masked; with 1, each
            token sees only itself.
        sinks: integer, at least 0. First positions that stay visible at any distance; StreamingLLM
            and LM-Infinite keep a few.
        global_tokens: integer, at least 0. First positions that every token sees and that see every
            token, such as one for [CLS] in Longformer.

    Example:

    >>> layer = PositionalAttention(2, 16, encodings=["rotary", Window(128, sinks=4)])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Efficient Streaming Language Models with Attention
    Sinks](https://arxiv.org/abs/2309.17453). The window is that of
    [Longformer](https://arxiv.org/abs/2004.05150).
    """

    paper = "https://arxiv.org/abs/2309.17453"
    reads_keys = False

    def __init__(self, window: float = 512, sinks: int = 0, global_tokens: int = 0, **kwargs):
        super().__init__(**kwargs)
        why = "at 0 a query would not see its own key"
        self.window = checks.number("window", window, above=0, why=why)
        self.sinks = checks.whole("sinks", sinks, least=0)
        self.global_tokens = checks.whole("global_tokens", global_tokens, least=0)

    def restrict(self, grid):
        """Masks cells (B, H, Tq, Tk) at a distance |i - j| >= window, except the sinks."""
        if grid.window is not None:
            raise ValueError(
                "Two windows over one attention map: keep the one that closes more, or put them "
                "into different layers."
            )
        return grid.replace(window=self.window, sinks=self.sinks, global_tokens=self.global_tokens)
