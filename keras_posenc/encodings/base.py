"""The protocol between attention and everything that tells it about position."""

import math

import keras
from keras import ops


class Encoding(keras.layers.Layer):
    """Where am I, said to attention. A subclass overrides only the hooks it needs.

    Shapes: q, k (B, T, H, D); logits and weights (B, H, Tq, Tk). Attention owns a list of
    encodings: `restrict` and `heads` compose in order, `bias` and `value` add, `score` composes,
    and one at most brings `normalize`. The q of `bias` and `score` is the content query, from
    before any `heads`. The grid tells where rows and columns stand and which cells are open; all
    positions come from it, and so do the content keys (`grid.keys`), the values (`grid.values`),
    the heads as they met in the logits (`grid.encoded`) and what `features` said
    (`grid.features[self]`). Attention may call the hooks on blocks of rows, and leave out columns
    that are closed to all of them: row i of what a hook returns may depend on row i of the grid and
    on the columns open to it. An encoding that reads closed columns too says so by
    `needs_all_columns`, and one that reads earlier rows brings `carry`. An encoding whose `heads`
    add what depends on distances alone may bring `by_distance` as well, for maps that are formed
    anyway.

    Weights are created in `build(heads_shape)`, the shape of q, (B, T, H, D); with `features` in
    `build(heads_shape, states_shape)`, (B, T, E) being that of the hidden states behind the keys.

    A subclass with a table of weights may let layers share it: `table_arguments` says how it is
    made. If `shared`, `build` makes none, and the hooks read `grid.tables[self]`.

    Args:
        shared: bool. The table comes with every call, as a `SharedTable` emits it, and the layer
            has none of its own.

    Raises:
        ValueError: if `shared` is True where there is no table.

    Attributes:
        causal_only: bool. Attention refuses the encoding without a causal order or a mask.
        needs_all_columns: bool. The map hooks read closed columns too.
        fewest_rows: int. Blocks have so many rows if memory allows, since the map hooks do costly
            work once a block.
        most_rows: int or None. Blocks on a CPU have at most so many rows, since the map hooks work
            on what is near to all rows of a block, or need much memory for each row.
        heads_follow: bool. Whether an encoding behind it in the list changes the heads.
        paper: str. Address of the paper.
        num_heads, head_size: H and D, after `build`; the logits are q.k / sqrt(head_size).
        feature_size: int. Size F of what `features` returns, after `build`.
    """

    causal_only = False
    needs_all_columns = False
    fewest_rows = 0
    most_rows = None
    heads_follow = False
    feature_size = 0
    paper = None

    def __init__(self, shared=False, **kwargs):
        super().__init__(**kwargs)
        if shared and not Encoding.overrides(self, "table_arguments"):
            raise ValueError(
                f"{type(self).__name__} has no table that layers could share: leave `shared` out."
            )
        self.shared = bool(shared)

    def build(self, heads_shape):
        self.num_heads, self.head_size = heads_shape[-2:]
        self.built = True

    def table_arguments(self, num_heads, head_size):
        """Arguments of `add_weight` for the table, in an encoding whose table may be shared."""
        raise NotImplementedError

    def restrict(self, grid):
        """The grid with fewer cells open, or with more that its rows, columns or blocks read."""
        return grid

    def features(self, states):
        """(B, Tk, H, F): more about every key, from its hidden state; kept in the cache."""
        return None

    def heads(self, q, k, grid):
        """q and k with position in them. They may be widened; the softmax scale stays that of D."""
        return q, k

    def by_distance(self, distances):
        """(N, H) float32: what `heads` adds to the logits, where that depends on distances alone.

        Attention adds these numbers, and leaves out `heads`, where it forms the map in any case:
        wider heads cost more than one more term.

        Args:
            distances: (N,) int32.
        """
        raise NotImplementedError

    def bias(self, q, grid):
        """A term for the logits, broadcastable to (B, H, Tq, Tk), or None."""
        return None

    def score(self, logits, q, grid):
        """The logits, where a term depends on the logits themselves."""
        return logits

    def carry(self, grid):
        """What `score` knows of earlier rows before the first: a constant, (B, Tk) float32 or so.

        Blocks of rows then come one after the other, with closed columns too. `score` finds in
        `grid.carried[self]` this, then what it left there at the block before, and leaves there
        what the next is to find. What each block got is kept for the backward pass.
        """
        raise NotImplementedError

    def normalize(self, logits, grid):
        """The weights, in place of softmax(logits); closed cells have logits of about -1e9."""
        return ops.softmax(logits, axis=-1)

    def value(self, weights, grid):
        """A term (B, Tq, H, Dv) for the output, computed from the weights, or None."""
        return None

    def overrides(self, hook):
        """Whether this encoding brings its own `hook`."""
        return getattr(type(self), hook) is not getattr(Encoding, hook)

    def get_config(self):
        config = super().get_config()
        return {**config, "shared": self.shared} if self.overrides("table_arguments") else config

    def widen(self, q, k, rows, columns):
        """q and k, so widened that the logits gain the inner product of `rows` and `columns`.

        Args:
            q, k: heads (B, T, H, D or more).
            rows, columns: float32, broadcastable to (B, T, H, F) of the queries and of the keys.
        """
        rows = rows * math.sqrt(self.head_size)
        return _appended(q, rows), _appended(k, columns)


def _appended(heads, more):
    more = ops.cast(more, heads.dtype)
    return ops.concatenate([heads, more + ops.zeros_like(heads[..., :1])], axis=-1)
