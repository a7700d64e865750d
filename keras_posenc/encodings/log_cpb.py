"""A bias that a small network makes of the logarithm of the distance."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.maps.diagonals import map_of_distances


@keras.saving.register_keras_serializable(package="keras_posenc")
class LogCPB(Encoding):
    """Log-spaced continuous position bias (Swin v2): a small network of the signed log distance.

        b[h, i, j] = B sigmoid(V_h relu(w x + u)),
        x = sign(i - j) ln(1 + c |i - j|) / ln(1 + c N).

    The bias is added to the logits (B, H, Tq, Tk). x is in [-1, 1] up to the distance N, and at 8
    times that at most 1.5, so distances never seen in training are near those that were. With
    consecutive ids the network runs once per distance, otherwise once per position of the matrix.

    The weights w, u (units,) and V (units, H) are those of Swin v2's network. Its published code
    has c = 8 / (window - 1) and divides the logarithm by ln 8. To load its w, multiply it by
    ln(1 + c N) / ln 8.

    Args:
        units: int. Hidden units of the network; Swin v2 has 512.
        train_length: int. The distance N.
        scale: float. The factor c of distances; 1 in the paper.
        bound: float or None. The largest bias B. None: no sigmoid, as in the paper's formula; its
            code has 16.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["log_cpb"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: [Swin Transformer V2](https://arxiv.org/abs/2111.09883), section 3.3.
    """

    execution = Execution(max_rows=256)  # with ids, each position of the matrix meets all units
    paper = "https://arxiv.org/abs/2111.09883"
    reads_keys = False

    def __init__(
        self,
        units: int = 64,
        train_length: int = 512,
        scale: float = 1.0,
        bound: float | None = 16.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = checks.whole("units", units)
        self.train_length = checks.whole("train_length", train_length)
        self.scale = float(checks.number("scale", scale, above=0))
        self.bound = None if bound is None else float(checks.number("bound", bound, above=0))

    def build(self, heads_shape):
        super().build(heads_shape)
        # x lies in [-1, 1] in training: kinks everywhere there, on both slopes.
        uniform = keras.initializers.RandomUniform
        self.w = self._add_uncast("w", (self.units,), uniform(-1.0, 1.0))
        self.u = self._add_uncast("u", (self.units,), uniform(-1.0, 1.0))
        limit = self.units**-0.5
        self.v = self._add_uncast("v", (self.units, self.num_heads), uniform(-limit, limit))

    def bias(self, q, grid):
        """B sigmoid(V_h relu(w x + u)), (B or 1, H, Tq, Tk) float32."""
        return map_of_distances(self._of_distance, grid)

    def _of_distance(self, distance):
        distance = ops.cast(distance, "float32")
        w, u, v = (ops.cast(x, "float32") for x in (self.w, self.u, self.v))
        longest = backend.log1p(ops.cast(self.scale * self.train_length, "float32"))
        x = ops.sign(distance) * backend.log1p(self.scale * ops.abs(distance)) / longest
        hidden = ops.relu(x[..., None] * w + u)
        biases = ops.moveaxis(ops.matmul(hidden, v), -1, 1)
        return biases if self.bound is None else self.bound * ops.sigmoid(biases)
