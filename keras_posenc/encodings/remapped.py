"""Rotary embeddings whose far distances are replaced by distances that were trained."""

import dataclasses
import math
from collections.abc import Callable

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.encodings.base import Execution
from keras_posenc.encodings.rotary import RotaryEmbedding


@dataclasses.dataclass(frozen=True)
class Region:
    """Pairs of tokens with the same replacement of their distance.

    Attributes:
        later, earlier: functions. Map position ids to others, (B, T) float32. The new distance is
            that of the later token's id from the earlier token's.
        contains: function. Maps the ids of the later and of the earlier token, (B, Tq, 1) and (B,
            1, Tk) float32, to the pairs in the region, (B, Tq, Tk) bool. A pair in the wrong order
            is in none.
    """

    later: Callable
    earlier: Callable
    contains: Callable


class RemappedRotary(RotaryEmbedding):
    """Base class of rotary embeddings with a map of distances, given as `regions`.

    The logits of the pairs in a region are recomputed from the rotated q and k that attention used,
    including factors of the queries such as log-n. For keys after the query the same holds with the
    other sign.
    """

    one_axis = True
    reads_keys = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Each block turns all columns. Frequencies by the length need the last of them.
        self.execution = Execution(min_rows=512, all_columns=self.reads_length)

    def regions(self):
        """A list of `Region`, no two of which share a pair; elsewhere distances stay."""
        raise NotImplementedError

    def score(self, logits, q, grid):
        """The logits (B, H, Tq, Tk), with q_i R_r' k_j where the distance r is replaced by r'."""
        grid.check_one_axis()
        ids = grid.query_positions, grid.key_positions
        rows, columns = (ops.cast(x, "float32") for x in ids)
        # q and k are rotated, and perhaps scaled, already: row i by i, column j by j.
        q, k = (x[..., : self.rotary_size] for x in grid.content.encoded)
        row, column = rows[:, :, None], columns[:, None]
        near = far = self._logits(q, k)

        def replaced(far, inside, of_rows, of_columns):
            turned = self.rotated(q, of_rows(rows) - rows, grid)
            moved = self.rotated(k, of_columns(columns) - columns, grid)
            product = self._logits(ops.cast(turned, q.dtype), ops.cast(moved, k.dtype))
            return ops.where(inside[:, None], product, far)

        for region in self.regions():
            far = replaced(far, region.contains(row, column), region.later, region.earlier)
            # Ids that are given may fall where the index grows.
            if not (grid.order_is_index and grid.ids_are_indices):
                far = replaced(far, region.contains(column, row), region.earlier, region.later)
        # The difference leaves biases and the products of unrotated features as they are.
        return logits + (far - near)

    def _logits(self, q, k):
        scale = ops.cast(1 / math.sqrt(self.head_size), q.dtype)
        return ops.cast(backend.product(q * scale, k, "bqhd,bkhd->bhqk"), "float32")


@keras.saving.register_keras_serializable(package="keras_posenc")
class SelfExtend(RemappedRotary):
    """Self-Extend: beyond a window, distances are counted in groups of positions.

    The logit (B, H, Tq, Tk) is q_i R_r' k_j with the distance

        r' = i - j                                   if i - j < w,
        r' = floor(i/g) - floor(j/g) + w - floor(w/g)  beyond.

    It needs no training: with a training length n, texts of up to (n - w) g + w tokens have no
    untrained distance. Keys after the query have the same distances with the other sign. It
    materialises the whole logits matrix, with two products, or three if later keys are visible.

    A call of the layer itself is that of `RotaryEmbedding`: it rotates (B, T, H, D) by the ids.

    Args:
        group_size: int, at least 2. Number g of positions per group.
        window: int. Window w in which distances stay unchanged.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Example:

    >>> encodings = [{"name": "self_extend", "group_size": 4, "window": 128}]
    >>> layer = PositionalAttention(4, 64, encodings=encodings)
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: [LLM Maybe LongLM: Self-Extend LLM Context Window Without
    Tuning](https://arxiv.org/abs/2401.01325).
    """

    paper = "https://arxiv.org/abs/2401.01325"

    def __init__(self, group_size: int = 8, window: int = 1024, **kwargs):
        super().__init__(**kwargs)
        why = "in groups of one position this is plain rotary"
        self.group_size = checks.whole("group_size", group_size, least=2, why=why)
        self.window = checks.whole("window", window)

    def regions(self):
        """The pairs at least a window apart."""
        size, window = self.group_size, self.window

        def group(ids):
            return ops.floor(ids / size)

        return [
            Region(
                later=lambda ids: group(ids) + (window - window // size),
                earlier=group,
                contains=lambda later, earlier: later - earlier >= window,
            )
        ]


@keras.saving.register_keras_serializable(package="keras_posenc")
class DualChunk(RemappedRotary):
    """Dual chunk attention: positions start again in each chunk, and chunks have few distances.

    A chunk has s = c - w positions, where c is the `chunk_size` and w the `local_size`. The logit
    (B, H, Tq, Tk) is q_i R_r' k_j with the distance

        r' = i - j                              in one chunk,
        r' = min(i mod s + s, c) - j mod s      if the key's chunk is the one before,
        r' = min(2s - 1, c) - j mod s           if it is earlier than that.

    It needs no training: distances never exceed c, which should be at most the training length.
    Keys in a window of w keep their distance. Keys after the query have the same distances with the
    other sign. The chunks begin at position 0, so a text must begin there, too. It materialises the
    whole logits matrix, with three products, or five if later keys are visible.

    A call of the layer itself is that of `RotaryEmbedding`: it rotates (B, T, H, D) by the ids.

    Args:
        chunk_size: int. Size c, as in the `dual_chunk_attention_config` of Qwen2.5-1M.
        local_size: int, below `chunk_size`. Size w.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Example:

    >>> encodings = [{"name": "dual_chunk", "chunk_size": 512, "local_size": 64}]
    >>> layer = PositionalAttention(4, 64, encodings=encodings)
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: [Training-Free Long-Context Scaling of Large Language
    Models](https://arxiv.org/abs/2402.17463).
    """

    paper = "https://arxiv.org/abs/2402.17463"

    def __init__(self, chunk_size: int = 512, local_size: int = 128, **kwargs):
        super().__init__(**kwargs)
        self.chunk_size = checks.whole("chunk_size", chunk_size)
        why = "a chunk has `chunk_size` - `local_size` positions"
        most = self.chunk_size - 1
        self.local_size = checks.whole("local_size", local_size, least=0, most=most, why=why)

    def regions(self):
        """The pairs in adjacent chunks, and those in chunks further apart."""
        size, most = self.chunk_size - self.local_size, self.chunk_size

        def chunk(ids):
            return ops.floor(ids / size)

        def within(ids):
            return ids - size * chunk(ids)

        return [
            Region(
                later=lambda ids: ops.minimum(within(ids) + size, most),
                earlier=within,
                contains=lambda later, earlier: chunk(later) - chunk(earlier) == 1,
            ),
            Region(
                later=lambda ids: ops.full_like(ids, min(2 * size - 1, most)),
                earlier=within,
                contains=lambda later, earlier: chunk(later) - chunk(earlier) > 1,
            ),
        ]


@keras.saving.register_keras_serializable(package="keras_posenc")
class STRING(RemappedRotary):
    """STRING, shifted rotary positions: far distances take the place of nearer ones.

    The logit (B, H, Tq, Tk) is q_i R_r' k_j with the distance

        r' = i - j            if i - j < s,
        r' = i - j - s + w    beyond.

    Distances near the training length are rare in training. Therefore those from a shift s on are
    replaced by ones that are s - w smaller and better trained. It needs no training, and extends
    the training length by s - w tokens. Keys after the
    query have the same distances with the other sign. It materialises the whole logits matrix, with
    two products, or three if later keys are visible.

    A call of the layer itself is that of `RotaryEmbedding`: it rotates (B, T, H, D) by the ids.

    Args:
        shift: int. Shift s; the paper uses a third of the training length.
        window: int, below `shift`. Distance w that replaces s; the paper uses 128.
        **kwargs: as in `RotaryEmbedding`, except `sections`.

    Example:

    >>> encodings = [{"name": "string", "shift": 170, "window": 32}]
    >>> layer = PositionalAttention(4, 64, encodings=encodings)
    >>> x = np.random.normal(size=(1, 10, 256))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 256)

    Reference: [Why Does the Effective Context Length of LLMs Fall
    Short?](https://arxiv.org/abs/2410.18745)
    """

    paper = "https://arxiv.org/abs/2410.18745"

    def __init__(self, shift: int = 512, window: int = 128, **kwargs):
        super().__init__(**kwargs)
        self.shift = checks.whole("shift", shift)
        why = "distances from `shift` on become smaller"
        self.window = checks.whole("window", window, least=0, most=self.shift - 1, why=why)

    def regions(self):
        """The pairs at least the shift apart."""
        shift, window = self.shift, self.window
        return [
            Region(
                later=lambda ids: ids - (shift - window),
                earlier=lambda ids: ids,
                contains=lambda later, earlier: later - earlier >= shift,
            )
        ]


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
