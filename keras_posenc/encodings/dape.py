"""A bias of the distance that the logits of all heads change."""

from collections.abc import Mapping

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.encodings.bias import FIRE, KERPLE, T5Bias
from keras_posenc.encodings.log_cpb import LogCPB
from keras_posenc.keras_support.nested_layers import built

BIASES = {"fire": FIRE, "kerple": KERPLE, "log_cpb": LogCPB, "t5": T5Bias}
SLOPE = 0.01


@keras.saving.register_keras_serializable(package="keras_posenc")
class DAPE(Encoding):
    """Data-adaptive position encoding (DAPE): a network adapts a bias to the content.

        l'_ij = l_ij + b_ij + V' leaky_relu(W' [l_ij, b_ij] + u).

    l_ij (H,) are the logits of query i and key j in all heads, and b_ij (H,) the bias of their
    distance. The network has as inputs both of all heads, so what a head makes of a distance
    depends on what the others see there; one that is masked there counts as 0. It reads one
    position of the attention matrix at a time, in blocks of rows, so its memory is linear in the
    length. Its weights are W (2H, units), u
    (units,) and V (units, H); the leaky ReLU has the slope 0.01 below 0.

    Args:
        bias: str. Kind of the bias b: "kerple" (best in the paper), "fire", "t5" or "log_cpb".
        bias_arguments: dict or None. Arguments of that encoding.
        units: int. Hidden units of the network.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["dape"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [DAPE: Data-Adaptive Positional Encoding for Length
    Extrapolation](https://arxiv.org/abs/2405.14722), section 3.
    """

    execution = Execution(max_rows=128)  # each position of the matrix meets all units
    paper = "https://arxiv.org/abs/2405.14722"
    reads_keys = False

    def __init__(
        self, bias: str = "kerple", bias_arguments: dict | None = None, units: int = 32, **kwargs
    ):
        super().__init__(**kwargs)
        self.bias_kind = checks.choice("bias", bias, tuple(BIASES))
        bias_arguments = checks.instance("bias_arguments", bias_arguments or {}, Mapping, "a dict")
        self.bias_arguments = dict(bias_arguments)
        self.units = checks.whole("units", units)
        self.inner = BIASES[bias](**self.bias_arguments, dtype=self.dtype_policy, name="inner")
        if self.inner.shared:
            raise ValueError(
                "DAPE makes the table of its bias itself: leave `shared` out of `bias_arguments`. "
                "Received: shared=True"
            )
        self.causal_only = self.inner.causal_only

    def build(self, heads_shape):
        super().build(heads_shape)
        built(self, self.inner, heads_shape)
        heads, units = self.num_heads, self.units
        self.w = self._add("dape_w", (2 * heads, units), 2 * heads)
        self.u = self._add("dape_u", (units,), 2 * heads)
        self.v = self._add("dape_v", (units, heads), units)

    def _add(self, name, shape, inputs):
        initializer = keras.initializers.RandomUniform(-(inputs**-0.5), inputs**-0.5)
        return self._add_uncast(name, shape, initializer)

    def score(self, logits, q, grid):
        """l + b + V' leaky_relu(W' [l, b] + u), (B, H, Tq, Tk) float32."""
        logits, bias = ops.cast(logits, "float32"), self.inner.bias(q, grid)
        mask = grid.mask()
        if mask is not None:
            # Whatever stands in a masked position would reach the gradient of W.
            logits = ops.where(mask, logits, 0.0)
        w, u, v = (ops.cast(x, "float32") for x in (self.w, self.u, self.v))
        # A bias is the same for all texts: it meets its half of W once.
        hidden = _mixed(w[: self.num_heads], logits) + _mixed(w[self.num_heads :], bias)
        hidden = ops.leaky_relu(hidden + u[:, None, None], SLOPE)
        return logits + bias + _mixed(v, hidden)

    def get_config(self):
        return {**super().get_config(), "bias": self.bias_kind}


def _mixed(weights, x):
    """weights' x over the second axis: (N, M) and (B, N, Tq, Tk) -> (B, M, Tq, Tk)."""
    batch, count, rows, columns = ops.shape(x)
    x = ops.reshape(x, (batch, count, rows * columns))
    x = ops.matmul(ops.transpose(weights), x)
    return ops.reshape(x, (batch, weights.shape[1], rows, columns))
