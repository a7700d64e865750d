"""Attention that fades by content: forget gates, and tokens that mask others for later queries."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding


@keras.saving.register_keras_serializable(package="keras_posenc")
class ForgetGate(Encoding):
    """Forgetting Transformer (FoX): a data-dependent decay, each token gating all that came before.

    The gates f and the logits of head h are

        f_t = sigmoid(w_h . x_t + b_h)
        l_ij + ln f_j+1 + ... + ln f_i = l_ij + c_i - c_j,    c_t = ln f_0 + ... + ln f_t.

    Here x_t (B, T, E) is the hidden state behind key t; w (E, H) and b (H,) have a column per head.
    `c` makes the term separable: q and k are widened by 6 dimensions, and no logits matrix is
    needed. If all f are equal, it is causal ALiBi with slope -ln f. Padding causes no decay; a key
    that only an `attention_mask` masks still does.

    With `bidirectional`, keys after the query fade by gates g of their own,

        l_ij + ln g_i+1 + ... + ln g_j    for j > i,

    and w (E, H, 2) and b (H, 2) have f's numbers first. This bias needs the logits matrix.

    Args:
        initial_bias: float. Initial value of b. sigmoid(5) = 0.993 halves a weight in 103 tokens; 0
            would halve it at every token.
        kernel_initializer: initializer of w.
        bidirectional: bool. For encoders: the queries also attend to later keys, with second gates.
            Under a causal mask it equals the causal form.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["forget_gate"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Forgetting Transformer](https://arxiv.org/abs/2503.02130). The gates to both sides
    are those of `DataDependentAlibi` in
    [x-transformers](https://github.com/lucidrains/x-transformers).
    """

    paper = "https://arxiv.org/abs/2503.02130"
    reads_keys = False

    def __init__(
        self,
        initial_bias: float = 5.0,
        kernel_initializer: Initializer = "glorot_uniform",
        bidirectional: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.initial_bias = float(checks.number("initial_bias", initial_bias))
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bidirectional = bool(bidirectional)
        self.causal_only = not self.bidirectional
        self.feature_size = 2 if self.bidirectional else 1

    def build(self, heads_shape, states_shape):
        super().build(heads_shape)
        shape = (self.num_heads, 2) if self.bidirectional else (self.num_heads,)
        of_states = (states_shape[-1], *shape)
        self.kernel = self._add_uncast("kernel", of_states, self.kernel_initializer)
        constant = keras.initializers.Constant(self.initial_bias)
        self.gate_bias = self._add_uncast("bias", shape, constant)

    def overrides(self, hook):
        if hook in ("restrict", "bias", "heads"):
            return (hook == "heads") != self.bidirectional
        return super().overrides(hook)

    def features(self, states):
        """w.x, (B, Tk, H, 1 or 2) float32: the gates' pre-activations without b."""
        # Without b, which is large: a bfloat16 cache would round w.x away.
        states, kernel = (ops.cast(x, "float32") for x in (states, self.kernel))
        kernel = ops.reshape(kernel, (-1, self.num_heads, self.feature_size))
        return ops.einsum("bte,ehf->bthf", states, kernel)

    def heads(self, q, k, grid):
        """q and k widened to (B, T, H, D + 6), so that the logits gain c_i - c_j."""
        columns = self.cumulative_log_gates(grid)[..., 0]
        rows = _at_queries(columns, q, grid)
        # c_i cancels in a softmax, but it keeps the logits small, and so their rounding errors.
        rows = _stacked([*_digits(rows), 256.0, 1.0, 1.0])
        return self.widen(q, k, rows, _stacked([256.0, 1.0, 1.0, *_digits(-columns)]))

    def restrict(self, grid):
        """A grid that knows the sums of rows and columns, (B, T, H, 2), if bidirectional."""
        content, columns = grid.content, self.cumulative_log_gates(grid)
        rows = _at_queries(columns, content.queries, grid)
        return grid.replace(
            features={**content.features, self: columns},
            query_features={**content.query_features, self: rows},
        )

    def bias(self, q, grid):
        """The sum of the logarithms between query and key, (B, H, Tq, Tk), if bidirectional."""
        rows, columns = grid.content.query_features[self], grid.content.features[self]
        rows, columns = (ops.transpose(x, (3, 0, 2, 1)) for x in (rows, columns))
        difference = ops.expand_dims(rows, -1) - ops.expand_dims(columns, -2)
        # Sums fall from token to token, so on the other side of the query a difference is above 0.
        return ops.minimum(difference[0], -difference[1])

    def cumulative_log_gates(self, grid):
        """c, (B, Tk, H, 1 or 2) float32: the running sums of ln f, and ln g, over real tokens."""
        product, bias = (
            ops.cast(x, "float32") for x in (grid.content.features[self], self.gate_bias)
        )
        logs = -ops.softplus(-product - ops.reshape(bias, (self.num_heads, self.feature_size)))
        if grid.key_mask is not None:
            logs = logs * ops.cast(grid.key_mask, "float32")[..., None, None]
        return ops.cumsum(logs, axis=1)


@keras.saving.register_keras_serializable(package="keras_posenc")
class SelectiveAttention(Encoding):
    """Selective attention: a token can mask an earlier one for all later queries.

    The positive logits of head 0 are how much query k masks key j for all queries after it, in all
    heads:

        l_ij - F_ij,    F_ij = sum_{k<i} max(l0_kj, 0)

    This gives the new logits (B, H, Tq, Tk). No query masks its own key, nor the first key it
    sees (the start of the text). There are no weights. Row i sums over all earlier rows, which a
    cache does not keep, so it cannot decode from a cache.

    Args:
        **kwargs: of `keras.layers.Layer`.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["selective"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Selective Attention Improves Transformer](https://arxiv.org/abs/2410.02703).
    """

    causal_only = True
    paper = "https://arxiv.org/abs/2410.02703"
    reads_keys = False

    def restrict(self, grid):
        """A grid that knows which queries are padding, (B, Tq): those mask nothing."""
        rows, columns = ops.shape(grid.query_positions)[1], ops.shape(grid.key_positions)[1]
        if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
            raise ValueError(
                "SelectiveAttention sums over all earlier queries, so it needs the whole sequence "
                f"in one call, without a cache. Received: {rows} queries and {columns} keys"
            )
        return grid.replace(query_mask=grid.key_mask)

    def carry(self, grid):
        """F of the first row: zeros, (B, Tk)."""
        batch, columns = ops.shape(grid.content.queries)[0], ops.shape(grid.key_positions)[1]
        return ops.zeros((batch, columns), "float32")

    def scan(self, logits, grid, carry):
        """l_ij - F_ij, (B, H, Tq, Tk), and F of the row after these, (B, Tk)."""
        mask = grid.mask()[:, 0]
        index = ops.arange(ops.shape(mask)[-1], dtype="int32")
        first = ops.expand_dims(ops.argmax(ops.cast(mask, "int8"), axis=-1), -1) == index
        spared = ops.logical_or(first, grid.same_token())
        masking = ops.logical_and(mask, ops.logical_not(spared))
        if grid.query_mask is not None:  # a query that is padding masks nothing
            masking = ops.logical_and(masking, ops.cast(grid.query_mask, "bool")[:, :, None])
        masked = ops.where(masking, ops.relu(logits[:, 0]), 0.0)
        sums = ops.cumsum(ops.concatenate([carry[:, None], masked[:, :-1]], axis=1), axis=1)
        return logits - sums[:, None], sums[:, -1] + masked[:, -1]


def _at_queries(x, q, grid):
    """Selects the rows of x (B, Tk, ...) that belong to the queries' own keys: (B, Tq, ...)."""
    rows, columns = q.shape[1], x.shape[1]
    if None not in (rows, columns) and (rows > columns if grid.order_is_index else rows != columns):
        raise ValueError(
            "ForgetGate needs the queries among the keys: call the layer on one sequence, or from "
            f"a cache in the causal order. Received: {rows} queries and {columns} keys"
        )
    return backend.take(x, grid.query_order[0], 1) if grid.order_is_index else x


def _digits(x):
    """Splits x = 256 a + b + c. bfloat16, and TF32 products on GPUs, keep all three to 1e-3."""
    high = ops.round(x / 256)
    middle = ops.round(x - 256 * high)
    return [high, middle, x - 256 * high - middle]


def _stacked(parts):
    """Stacks tensors and constants to (B, T, H, len(parts))."""
    like = next(part for part in parts if not isinstance(part, float))
    return ops.stack([part + ops.zeros_like(like) for part in parts], axis=-1)
