"""The protocol between the attention layer and position encodings."""

import dataclasses
import difflib
import inspect
import math
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_posenc.arguments.aliases import check_arguments
from keras_posenc.arguments.hints import Tensor
from keras_posenc.backend.head_groups import repeated_heads
from keras_posenc.keras_support.configured import Configured
from keras_posenc.maps.grid import Grid

# Keywords that every layer of Keras takes.
OF_LAYERS = {"name", "dtype", "trainable", "autocast", "activity_regularizer"}
# The methods of an encoding that attention calls.
HOOKS = (
    "restrict", "features", "query_features", "heads", "decay", "bias", "score", "scan", "sink",
    "normalize", "value",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Execution:
    """How attention computes an encoding fast. It has no influence on what is computed.

    Attributes:
        min_rows: int. Minimum number of query rows in a block, if memory allows; for hooks with
            costly work per block.
        most_rows: int or None. Number of query rows beyond which a block would not be right.
        max_rows: int or None. Maximum number of query rows in a block on a CPU; for hooks that
            compute only near the diagonal, or need much memory per row.
        all_columns: bool. Blocks keep the columns that are masked for all of their rows; for hooks
            that read them too.
        earlier_columns: bool. Blocks keep the columns before their rows that a window masks, and
            need no others; for hooks that read what lies between.
        by_distance: function or None. If what `heads` adds to the logits depends on distances
            alone, this computes it: distances (N,) int32 -> (N, H) float32. Where the attention
            matrix is materialised anyway, attention adds these numbers and skips `heads`, because
            wider heads cost more than one more term.
        exact_logits: bool. Accelerators do not round float32 queries and keys in their products;
            for hooks that sum over the keys what they compute of the logits.
    """

    min_rows: int = 0
    most_rows: int | None = None
    max_rows: int | None = None
    all_columns: bool = False
    earlier_columns: bool = False
    by_distance: Callable | None = None
    exact_logits: bool = False


class Encoding(Configured, keras.layers.Layer):
    """Base class of position encodings: a subclass overrides only the hooks it needs.

    `PositionalAttention` calls the hooks of its encodings at fixed points:

        q, k = heads(q, k)                       in list order; rotary, log-n, separable biases
        q, k = q, k times decay()                xPos
        logits = q.k / sqrt(D) + sum of bias(q)  T5, KERPLE, FIRE
        logits = score(logits, q)                in list order; CoPE, which needs the logits
        logits, carry = scan(logits, carry)      in list order; a sum over earlier rows
        logits = [sink(), logits]                a key of value zero, in the softmax alone
        weights = normalize(logits)              at most one encoding replaces the softmax
        output = weights.v + sum of value(weights)

    Before these, `restrict` may mask positions of the attention matrix. `features` may compute more
    about each key from its hidden state, and `query_features` about each query. Shapes: q, k (B, T,
    H, D); logits and weights (B, H, Tq, Tk). The q passed to `bias` and `score` is the content
    query, from before any `heads`.

    The `grid` describes the attention matrix: `grid.query_positions` and `grid.key_positions` are
    the position ids, and `grid.mask()` is True where a query may attend. `grid.content` holds the
    content queries, keys and values (`queries`, `keys`, `values`) and the q and k that produced the
    logits (`encoded`). It also holds the results of `features` and `query_features`
    (`features[self]`, `query_features[self]`).

    Attention may call the hooks on blocks of query rows and leave out key columns that are masked
    for the whole block. Row i of a hook's result may therefore depend only on row i of the grid and
    on the columns visible from it. An encoding that also reads masked columns declares this in its
    `execution`; one that reads earlier rows implements `scan` instead of `score`.

    Weights are created in `build(heads_shape)`, the shape of q, (B, T, H, D). With `features` or
    `query_features` the method is `build(heads_shape, states_shape)`, where (B, T, E) is the shape
    of the hidden states behind the keys or queries. With both it gets the shapes of both, keys
    first. An encoding whose weights are one table may let several layers share it: it implements
    `table_arguments`, and with `shared=True` its `build` creates no table and its hooks read
    `grid.content.tables[self]`.

    Args:
        shared: bool. The table is passed to each call, as a `SharedTable` emits it, and the
            encoding has none of its own.

    Attributes:
        causal_only: bool. Attention refuses the encoding without a causal order or a mask.
        execution: `Execution`. How attention computes the encoding fast.
        exportable: bool. `export_model` can write it; False if it needs a loop.
        adds_to_heads: bool. It adds to the features of queries or keys, so it must come before an
            encoding with `decay`.
        reads_length: bool. It acts by the length of the whole sequence, which must then be that of
            one document.
        heads_first: bool. Its `heads` are not linear in the content, so no other `heads` may come
            before.
        heads_follow: bool. Whether a later encoding in the list overrides `heads`.
        paper: str. URL of the paper.
        reads_keys: bool. It needs a key and a value for each query head, as they were projected.
            If False, a key that serves several query heads is not repeated for them: `heads` gets
            the few keys, and the other hooks find no keys and values in the `grid`.
        by_position: bool. Its `heads` changes each query and each key by its own position id and
            nothing else. A cache may then keep the changed keys.
        num_heads, head_size: int. H and D, set by `build`; the logits are q.k / sqrt(head_size).
        projected: bool. Whether attention projects the shared table (P, E) as it projects hidden
            states; `grid.content.tables[self]` is then (2, P, H, D), the rows as keys and as
            queries.
        feature_size: int. Size F of the result of `features`, set by `build`.

    Example:

    >>> class Backwards(Encoding):
    ...     def bias(self, q, grid):
    ...         return -1.0 * grid.distance()[:, None]  # (B, 1, Tq, Tk)
    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=[Backwards()])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)
    """

    causal_only = False
    execution = Execution()
    exportable = True
    reads_length = False
    adds_to_heads = False
    heads_first = False
    heads_follow = False
    reads_keys = True
    by_position = False
    projected = False
    feature_size = 0
    paper = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            near = difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.8)
            if near and near != [name] and callable(getattr(cls, name)) and name[0] != "_":
                raise TypeError(
                    f"Attention never calls {cls.__name__}.{name}: did you mean {near[0]!r}? "
                    f"The hooks are {', '.join(HOOKS)}."
                )

    def __init__(self, shared: bool = False, **kwargs):
        if not OF_LAYERS.issuperset(kwargs):
            kinds = [kind.__init__ for kind in type(self).__mro__ if issubclass(kind, Encoding)]
            known = {name for init in kinds for name in inspect.signature(init).parameters}
            check_arguments(type(self).__init__, kwargs, OF_LAYERS | known - {"self", "kwargs"})
        super().__init__(**kwargs)
        if not any(Encoding.overrides(self, hook) for hook in HOOKS):
            raise TypeError(
                f"{type(self).__name__} overrides no hook, so it would change nothing: override "
                f"one of {', '.join(HOOKS)}."
            )
        if Encoding.overrides(self, "scan") != Encoding.overrides(self, "carry"):
            raise TypeError(
                f"{type(self).__name__} must override both `scan` and `carry`, the input of `scan` "
                "for the first rows, or neither."
            )
        if shared and not Encoding.overrides(self, "table_arguments"):
            raise ValueError(
                f"{type(self).__name__} has no table that layers could share: leave `shared` out."
            )
        self.shared = bool(shared)

    def build(self, heads_shape: Sequence[int | None]) -> None:
        """Creates the weights. `heads_shape`: the shape of q, (B, T, H, D)."""
        self.num_heads, self.head_size = heads_shape[-2:]
        self.built = True

    def _add_uncast(self, name, shape, initializer):
        """Creates a weight that a mixed policy does not round."""
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

    def check_head_size(self, head_size: int) -> None:
        """Refuses a head size that the encoding cannot act on; attention calls it when it is made.

        Args:
            head_size: int. D.
        """

    def table_arguments(self, num_heads: int, head_size: int) -> dict:
        """Returns the arguments of `add_weight` for a table that layers may share.

        Args:
            num_heads: int. H.
            head_size: int. D.

        Returns:
            dict.
        """
        raise NotImplementedError

    def restrict(self, grid: Grid) -> Grid:
        """Masks cells of the attention map, or adds what other hooks read.

        Args:
            grid: `Grid` of the whole map.

        Returns:
            A `Grid`: for example `grid.within(mask)` with a mask (B, H, Tq, Tk), True where
                attention stays allowed.
        """
        return grid

    def features(self, states: Tensor) -> Tensor:
        """Computes features of the keys from their hidden states; they are kept in the cache.

        Args:
            states: (B, Tk, E), the hidden states that the keys are projected from.

        Returns:
            (B, Tk, H, F).
        """
        return None

    def query_features(self, states: Tensor) -> Tensor:
        """Computes features of the queries from their hidden states.

        Args:
            states: (B, Tq, E), the hidden states that the queries are projected from.

        Returns:
            (B, Tq, H, F).
        """
        return None

    def heads(self, q: Tensor, k: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        """Puts positions into the queries and keys.

        Args:
            q: (B, Tq, H, D or more).
            k: (B, Tk, H, D or more).
            grid: `Grid` of the whole map.

        Returns:
            q and k. Both may gain the same number of dimensions (see `widen`); the softmax scale
            stays 1 / sqrt(D).
        """
        return q, k

    def decay(self, grid: Grid) -> tuple[Tensor, Tensor]:
        """Computes factors of the features, of which only the products of two have a meaning.

        Attention multiplies the heads by them after all `heads`, block by block, so they need not
        keep their numbers in range for rows far apart.

        Args:
            grid: `Grid` of this block of query rows.

        Returns:
            Factors of the first F features of a head, float32: of the queries, (B or 1, Tq, F), and
            of the keys, (B or 1, Tk, F).
        """
        raise NotImplementedError

    def bias(self, q: Tensor, grid: Grid) -> Tensor | None:
        """Computes a term to add to the logits.

        Args:
            q: (B, Tq, H, D), the content queries.
            grid: `Grid` of this block of query rows.

        Returns:
            A tensor broadcastable to (B, H, Tq, Tk), or None.
        """
        return None

    def score(self, logits: Tensor, q: Tensor, grid: Grid) -> Tensor:
        """Transforms the logits.

        Args:
            logits: (B, H, Tq, Tk), with all biases.
            q: (B, Tq, H, D), the content queries.
            grid: `Grid` of this block of query rows.

        Returns:
            (B, H, Tq, Tk).
        """
        return logits

    def carry(self, grid: Grid) -> Tensor:
        """Makes the carry that `scan` receives with the first rows.

        Args:
            grid: `Grid` of the whole map.

        Returns:
            A constant tensor of floats, for example (B, Tk).
        """
        raise NotImplementedError

    def scan(self, logits: Tensor, grid: Grid, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Transforms the logits with a carry from the earlier rows.

        Blocks of query rows are then processed in order, and no column is left out. The carry of
        each block is saved for the backward pass.

        Args:
            logits: (B, H, Tq, Tk), with all biases.
            grid: `Grid` of this block of query rows.
            carry: the result of `carry`, or of the call for the rows before.

        Returns:
            The logits (B, H, Tq, Tk), and the carry of the rows after these.
        """
        raise NotImplementedError

    def sink(self) -> Tensor:
        """Computes the logit of one more key, which every query sees, and whose value is zero.

        Returns:
            (H,) float32.
        """
        raise NotImplementedError

    def normalize(self, logits: Tensor, grid: Grid) -> Tensor:
        """Computes the attention weights from the logits, in place of the softmax.

        Args:
            logits: (B, H, Tq, Tk); about -1e9 in masked cells.
            grid: `Grid` of this block of query rows.

        Returns:
            (B, H, Tq, Tk).
        """
        return ops.softmax(logits, axis=-1)

    def value(self, weights: Tensor, grid: Grid) -> Tensor | None:
        """Computes a term to add to the output.

        Args:
            weights: (B, H, Tq, Tk), the attention weights.
            grid: `Grid` of this block of query rows.

        Returns:
            (B, Tq, H, Dv), or None.
        """
        return None

    def overrides(self, hook: str) -> bool:
        """Returns whether this encoding overrides the hook of this name."""
        return getattr(type(self), hook) is not getattr(Encoding, hook)

    def get_config(self):
        config = super().get_config()
        if not self.overrides("table_arguments"):
            config.pop("shared", None)
        return config

    def widen(self, q: Tensor, k: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Widens q and k so that the logits gain the inner product of `rows` and `columns`.

        Args:
            q, k: heads, (B, T, H, D or more). Fewer heads of keys are repeated.
            rows: float32, broadcastable to (B, Tq, H, F): the queries' side of the product.
            columns: float32, broadcastable to (B, Tk, H, F): the keys' side.

        Returns:
            q and k with F more dimensions; `rows` is multiplied by sqrt(D) to undo the softmax
            scale.
        """
        rows = rows * math.sqrt(self.head_size)
        return _appended(q, rows), _appended(repeated_heads(k, q.shape[2]), columns)


def _appended(heads, more):
    more = ops.cast(more, heads.dtype)
    return ops.concatenate([heads, more + ops.zeros_like(heads[..., :1])], axis=-1)
