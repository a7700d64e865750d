"""What attention computes: the encodings of a layer by their hooks, the scale, the dropout."""

import copy
import dataclasses
import itertools

from keras import ops

from keras_posenc import backend
from keras_posenc.encodings.base import HOOKS
from keras_posenc.maps.attention_dropout import dropout_hashes
from keras_posenc.maps.diagonals import all_distances


class Hooks:
    """What an attention layer asks of its encodings, asked once.

    `encodings`: sequence of `Encoding`. Each learns here whether later ones change the heads.

    Attributes:
        encodings: tuple, all of them.
        restrict, features, query_features, heads, decay, bias, score, scan, sink, normalize, value:
            tuples. The encodings that override this hook, in their order.
        read_logits: bool. Some read the logits themselves.
        read_weights: bool. Some make the attention weights, or read them.
        read_map: bool. Some need the attention matrix, which a fused kernel does not materialise.
        shared, causal_only: tuples. The encodings with this attribute; `projected`, those of the
            shared ones that also have that.
        by_distance: tuple. The encodings at the end of `heads` that all have `by_distance`. An
            earlier one is left out, because a later one might scale its term.
        reads_keys: bool. Some need a key and a value for each query head, unchanged.
        at_writing: tuple. The encodings at the beginning of `heads` that act on keys as they are
            written to a cache.
        at_writing_alone: bool. No encoding does anything else.
        heads_and_masks_alone: bool. No encoding does anything but this, or mask keys.
        all_columns: bool. A block must also read the columns that are masked for all of its rows.
        earlier_columns: bool. It must also read those that a window masks before its rows.
        exact_logits: bool. Float32 queries and keys must not be rounded in their products.
        min_rows, max_rows, most_rows: int or None. The bounds that all encodings respect; see
            `Execution`.
    """

    def __init__(self, encodings=()):
        self.encodings = tuple(encodings)
        self.heads = self._those_with("heads")
        for i, encoding in enumerate(self.encodings):
            encoding.heads_follow = any(e in self.heads for e in self.encodings[i + 1 :])
        for hook in HOOKS:  # after `heads_follow`, on which what an encoding overrides may depend
            setattr(self, hook, self._those_with(hook))
        self._check()
        self.read_logits = bool(self.score or self.scan)
        self.read_weights = bool(self.normalize or self.value)
        self.read_map = self.read_logits or self.read_weights
        self.shared = tuple(e for e in self.encodings if e.shared)
        self.projected = tuple(e for e in self.shared if e.projected)
        self.causal_only = tuple(e for e in self.encodings if e.causal_only)
        last = itertools.takewhile(lambda e: e.execution.by_distance, reversed(self.heads))
        self.by_distance = tuple(last)
        self.reads_keys = any(e.reads_keys for e in self.encodings)
        first = itertools.takewhile(lambda e: e.by_position, self.heads)
        self.at_writing = () if self.reads_keys else tuple(first)
        others = any(getattr(self, hook) for hook in HOOKS if hook not in ("heads", "restrict"))
        self.heads_and_masks_alone = self.heads == self.at_writing and not others
        self.at_writing_alone = self.heads_and_masks_alone and not self.restrict
        executions = [e.execution for e in self.encodings]
        # What fills up the last block of rows would enter the carry of a `scan`.
        self.all_columns = bool(self.scan) or any(e.all_columns for e in executions)
        self.earlier_columns = any(e.earlier_columns for e in executions)
        self.exact_logits = any(e.exact_logits for e in executions)
        self.min_rows = max((e.min_rows for e in executions), default=0)
        self.max_rows = min(filter(None, (e.max_rows for e in executions)), default=None)
        self.most_rows = min(filter(None, (e.most_rows for e in executions)), default=None)

    def after_writing(self):
        """The same without the `heads` of the encodings that have acted on what a cache holds."""
        after = copy.copy(self)
        after.heads = self.heads[len(self.at_writing) :]
        return after

    def _those_with(self, hook):
        return tuple(e for e in self.encodings if e.overrides(hook))

    def _check(self):
        if len(self.normalize) > 1:
            names = ", ".join(type(e).__name__ for e in self.normalize)
            raise ValueError(f"Only one encoding can turn logits into weights. Received: {names}")
        if self.normalize and self.sink:
            added, replaced = (type(e).__name__ for e in (self.sink[0], self.normalize[0]))
            raise ValueError(
                f"{added} adds a key to the softmax, which {replaced} replaces: take one of them "
                "out of `encodings`. Received: both"
            )
        for encoding in self.heads[1:]:
            if encoding.heads_first:
                first, late = type(self.heads[0]).__name__, type(encoding).__name__
                raise ValueError(
                    f"{late} must be the first in `encodings` of those that change queries and "
                    f"keys: put it before {first}, or leave {first} out. Received: {first} first"
                )
        turning = [e for e in self.score if hasattr(e, "layout")]
        pairs = {_pairs_of(e) for e in (*self.decay, *turning)}
        if self.decay and turning and len(pairs) > 1:
            # A rotation of what has faded would mix features that have faded differently.
            names = " and ".join(type(e).__name__ for e in (*self.decay, *turning))
            raise ValueError(
                f"{names} must act on the same pairs of features: give all of them one `layout` "
                f"and one `rotary_dim`. Received: {' and '.join(map(str, sorted(pairs)))}"
            )
        for i, encoding in enumerate(self.encodings):
            before = [type(e).__name__ for e in self.encodings[:i] if e in self.decay]
            if encoding.adds_to_heads and before:
                # A bias of rotated and scaled heads would see where in the batch a text begins.
                raise ValueError(
                    f"{type(encoding).__name__} adds to the queries or keys, so in `encodings` it "
                    f"must come before {before[0]}: swap them. Received: {before[0]} first"
                )


def _pairs_of(encoding):
    """Which features an encoding takes as pairs: neighbours are the same for any number of them."""
    interleaved = encoding.layout == "interleaved"
    return encoding.layout if interleaved else f"{encoding.layout}, {encoding.rotary_dim}"


@dataclasses.dataclass(frozen=True)
class Rules:
    """What attention computes with its queries, keys and values."""

    hooks: Hooks = Hooks()  # of its encodings
    scale: float = 1.0  # factor of the products of queries and keys
    # Tensor of four axes added to the logits, broadcastable to (B, H, Tq, Tk), or None.
    bias: object = None
    dropout: float = 0.0  # share of the weights to drop; 0 outside training
    hashes: tuple | None = None  # (B, H, Tq) and (1, Tk) int32 hashes of the dropout, or None
    draws: object = None  # `keras.random.SeedGenerator` of the dropout until it is drawn, or None
    seed: tuple | None = None  # by which a fused kernel draws the dropout, or None
    # True for a fused kernel, False for none, None for what the backend does best.
    flash: bool | None = None

    def has_bias(self):
        """Whether terms are added to the logits."""
        return self.bias is not None or bool(self.hooks.bias)

    def drawn(self, q, k, fused):
        """The same rules with what decides the dropped cells of the map of q and k, (B, T, H, D).

        It is drawn here, once, so that a recomputed map drops the same cells.
        """
        if self.draws is None:
            return self
        seeds = backend.next_seed(self.draws, by_kernel=fused)
        if fused:
            return dataclasses.replace(self, draws=None, seed=seeds)
        (batch, num_rows, heads), num_columns = ops.shape(q)[:3], ops.shape(k)[1]
        hashes = dropout_hashes(seeds, batch, heads, num_rows, num_columns)
        return dataclasses.replace(self, draws=None, hashes=hashes)

    def of_block(self, number):
        """The same rules with a seed of its own for a block that a kernel computes."""
        seed = None if self.seed is None else (*self.seed, number)
        return dataclasses.replace(self, seed=seed)


def encode(q, k, v, grid, hooks, forms_map):
    """Lets the encodings act before the logits: on the grid, and on the heads (B, T, H, D).

    `forms_map`: bool. The attention matrix is materialised. Then a term that depends on distances
    alone is added to the logits, and its `heads` are skipped. Returns q, k and the `Grid`, whose
    content is what came in. The queries are those that its content already has, if it has any.
    """
    queries = q if grid.content.queries is None else grid.content.queries
    grid = grid.replace(queries=queries, keys=k, values=v)
    for encoding in hooks.restrict:
        grid = encoding.restrict(grid)
    by_distance = {}
    if forms_map and hooks.by_distance and (distances := all_distances(grid)) is not None:
        by_distance = {e: e.execution.by_distance(distances) for e in hooks.by_distance}
    for encoding in hooks.heads:
        if encoding not in by_distance:
            q, k = encoding.heads(q, k, grid)
    return q, k, grid.replace(distance_biases=by_distance, encoded=(q, k))
