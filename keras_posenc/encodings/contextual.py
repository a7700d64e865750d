"""Contextual position encoding: content decides which tokens count as a position."""

import math

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.keras_support import nested_layers
from keras_posenc.maps.columns import LastColumns
from keras_posenc.maps.sums import sum_from_right

GATES = ("query_key", "separate_keys", "values")
SCALINGS = ("after", "before")
# Keys to read per position: enough if gates average 1 / 4.
NEAR = 4


@keras.saving.register_keras_serializable(package="keras_posenc")
class ContextualPositionEmbedding(Encoding):
    """CoPE: each query counts the tokens that its gates select, such as words or sentences.

    A gate g_ij in (0, 1) decides whether query i counts key j. The position of a key is the sum of
    the gates from that key to the query, both included. Its embedding is interpolated between those
    of the two nearest integers:

        g_ij = sigmoid(l_ij) where i may attend to j, else 0
        p_ij = min(g_ij + g_i,j+1 + ... + g_ii, P - 1)
        l_ij + q_i . ((1 - w) e[floor p_ij] + w e[floor p_ij + 1]),    w = p_ij - floor p_ij

    The third line gives the new logits (B, H, Tq, Tk). The table e (D, P) is initialised to zero
    and shared by the heads. If all gates are 1, p_ij = i - j + 1. The logits l are q.k / sqrt(D)
    with everything that `heads`, `bias` and earlier encodings of the list added; q is the content
    query. Only the bidirectional form reads position ids, to find out on which side of the query a
    key is.

    Args:
        npos_max: int, at least 2. Number of positions P. Keys at P - 1 and beyond share the last.
        gate: str. What the gates are computed from. "query_key": the logits, at no extra cost.
            "separate_keys": q.k' with a second key projection, so that a token can count without
            being attended to. "values": q.v. The latter two are scaled by 1 / sqrt(D) and ignore
            other encodings.
        scaling: str. Where the scale 1 / sqrt(D) is applied. With "after", as in the paper's
            listing: q.k / sqrt(D) + q.e. With "before", as in the code of its experiments:
            (q.k + q.e) / sqrt(D).
        bidirectional: bool. An extension that is not in the paper. Keys after the query, by their
            position ids, have negative positions, -(g_ii + ... + g_ij), and the table has 2P - 1
            rows for both sides. Under a causal mask it equals the causal form. Prompts with
            bidirectional attention (UniLM) need it, because the causal form would count later keys.
        shared: bool. The table is passed to the call, from a `SharedTable`, for several layers.

    Example:

    >>> cope = ContextualPositionEmbedding(npos_max=16, gate="separate_keys")
    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=[cope])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [Contextual Position Encoding](https://arxiv.org/abs/2405.18719).
    """

    causal_only = True
    # A block reads the keys of its rows and NEAR * npos_max before them.
    # A position is a sum of gates, so what a TPU rounds off each logit would add up.
    execution = Execution(max_rows=128, exact_logits=True)
    paper = "https://arxiv.org/abs/2405.18719"

    def __init__(
        self,
        npos_max: int = 64,
        gate: str = "query_key",
        scaling: str = "after",
        bidirectional: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        why = "positions are interpolated between two embeddings"
        self.npos_max = checks.whole("npos_max", npos_max, least=2, why=why)
        self.gate = checks.choice("gate", gate, GATES)
        self.scaling = checks.choice("scaling", scaling, SCALINGS)
        self.bidirectional = bool(bidirectional)
        self.causal_only = not self.bidirectional

    def build(self, heads_shape, states_shape=None):
        super().build(heads_shape)
        if not self.shared:
            arguments = self.table_arguments(self.num_heads, self.head_size)
            self.embeddings = self.add_weight(**arguments)
        if self.gate == "separate_keys":
            self.feature_size = self.head_size
            shape = (None, self.num_heads, self.head_size)
            policy = nested_layers.policy_of_part(self, "gate_key")
            self.gate_dense = keras.layers.EinsumDense(
                "bte,ehd->bthd", shape, name="gate_key", dtype=policy
            )
            # The attention layer handles the mask; without this Keras warns that it is lost.
            self.gate_dense.supports_masking = True
            nested_layers.built(self, self.gate_dense, states_shape)

    def table_arguments(self, num_heads, head_size):
        """A table (D, P) of zeros, or (D, 2P - 1) if bidirectional."""
        rows = 2 * self.npos_max - 1 if self.bidirectional else self.npos_max
        return {
            "name": "embeddings",
            "shape": (head_size, rows),
            "initializer": "zeros",
            "autocast": False,  # read in float32 under a mixed policy
        }

    def overrides(self, hook):
        return self.gate == "separate_keys" if hook == "features" else super().overrides(hook)

    def features(self, states):
        """The second projection of the keys, (B, Tk, H, D), for `gate="separate_keys"`."""
        return nested_layers.applied(self.gate_dense, states)

    def score(self, logits, q, grid):
        """l_ij plus q_i times the embedding interpolated at p_ij, (B, H, Tq, Tk)."""
        scores = self._scores(q, grid)
        rows, columns = ops.shape(logits)[2:]
        width = rows + NEAR * self.npos_max
        width += -width % 16  # running sums are computed in chunks

        def everywhere():
            return logits + self._bias(logits, scores, q, grid)

        known = isinstance(width, int) and isinstance(columns, int)
        if self.bidirectional or backend.is_exporting() or (known and 2 * width > columns):
            return everywhere()
        width = width if known else ops.minimum(width, columns)
        return self._near_or_far(logits, scores, q, grid, width, everywhere)

    def _near_or_far(self, logits, scores, q, grid, width, everywhere):
        """Gates of the nearest keys only, if with them every row is at its last position."""
        near = LastColumns(grid, width)
        gates = self.gates(near.cut(logits), q, near.grid)
        position = self.positions(gates, near.grid)
        passed = ops.logical_or(position[..., :1] >= self.npos_max - 1, near.all)

        def far_keys_are_last():
            interpolated = backend.interpolate(scores, position, grid.training)
            return logits + near.put(interpolated, scores[..., -1:])

        return backend.choose(ops.all(passed), far_keys_are_last, everywhere)

    def _scores(self, q, grid):
        """(B, H, Tq, P) float32: q.e at all integers: T x P products, not T x T."""
        table = grid.content.tables[self] if self.shared else self.embeddings
        scores = ops.einsum("bqhd,dp->bhqp", ops.cast(q, "float32"), ops.cast(table, "float32"))
        return scores if self.scaling == "after" else scores / math.sqrt(self.head_size)

    def _bias(self, logits, scores, q, grid):
        position = self.positions(self.gates(logits, q, grid), grid)
        if self.bidirectional:
            last = self.npos_max - 1
            position = ops.maximum(position, -last) + last
        return backend.interpolate(scores, position, grid.training)

    def gates(self, logits, q, grid):
        """Computes the gates: how much each key counts, 0 where it is masked.

        Args:
            logits: (B, H, Tq, Tk).
            q: (B, Tq, H, D), the content queries.
            grid: `Grid`.

        Returns:
            (B, H, Tq, Tk) float32.
        """
        if self.gate != "query_key":
            keys = grid.content.values if self.gate == "values" else grid.content.features[self]
            if keys.shape[-1] != self.head_size:
                raise ValueError(
                    "`gate='values'` multiplies queries and values: `value_dim` must be `key_dim`, "
                    f"{self.head_size}. Received: {keys.shape[-1]}"
                )
            q, keys = ops.swapaxes(q, 1, 2), ops.transpose(keys, (0, 2, 3, 1))
            dtype = keras.backend.standardize_dtype(q.dtype)
            product = backend.exact_product if dtype == "float32" else backend.product
            logits = ops.cast(product(q, keys), "float32")
            logits = logits / math.sqrt(self.head_size)
        gates, mask = ops.sigmoid(ops.cast(logits, "float32")), grid.mask()
        # Masked before the sum, or masked keys would be counted.
        return gates if mask is None else gates * ops.cast(mask, "float32")

    def positions(self, gates, grid):
        """Sums the gates to positions, before the cap at P - 1; negative after the query.

        Args:
            gates: (B, H, Tq, Tk).
            grid: `Grid`.

        Returns:
            (B, H, Tq, Tk) float32.
        """
        if not self.bidirectional:
            return sum_from_right(gates)
        distance = ops.expand_dims(grid.distance(), 1)
        before = sum_from_right(gates * ops.cast(distance >= 0, "float32"))
        after = ops.cumsum(gates * ops.cast(distance <= 0, "float32"), axis=-1)
        return ops.where(distance >= 0, before, -after)

    def get_config(self):
        parts = [self.gate_dense] if hasattr(self, "gate_dense") else []
        return nested_layers.with_quantized_parts(super().get_config(), self, parts)
