"""The keys and values that queries attend to: those of the cache, then those of the call."""

import dataclasses
import itertools
import typing

from keras import ops

from keras_posenc import backend
from keras_posenc.attention.matrix import by_head
from keras_posenc.backend.shared_pass import shared
from keras_posenc.positions import check_positions
from keras_posenc.positions.position_range import check_length, mark_missing

FULL = "The cache is full: make it longer, make_cache(batch_size, length)."


class Overwritten(typing.NamedTuple):
    """A cache that nothing else reads: a call may write into its tensors instead of copying them.

    `keys`, `values`, `key_mask`, `start`: as in `empty_cache`.
    """

    keys: object
    values: object
    key_mask: object
    start: object


@dataclasses.dataclass(frozen=True)
class Memory:
    """Keys and values before `heads`, except for encodings that act when keys are written."""

    keys: object  # (B, Tk, H / G, D), each for a group of G query heads
    values: object  # (B, Tk, H / G, Dv)
    features: dict  # maps each encoding to its `features` of the keys, (B, Tk, H, F)
    key_mask: object  # (B, Tk) bool, or None; False where a key is padding
    # Scalar tensor or None. The number of keys from earlier calls; None without a cache.
    start: object = None

    def after(self, cache, whole=False):
        """Appends these keys and values to those of a cache; returns the result and the new cache.

        A cache stores a key and its features in one tensor. Where the number of keys is known, only
        the places of the cache that are written are read. `cache`: as `empty_cache` returns it, or
        `Overwritten`. `whole`: bool. Read the places that are not written, too.
        """
        keys, values, key_mask, start = cache
        start = backend.number(start)
        known = isinstance(start, int)
        write = backend.overwrite if isinstance(cache, Overwritten) else backend.write
        batch, count = ops.shape(self.keys)[:2]
        if known:
            check_length(start + count - 1, 1, key_mask.shape[1], FULL)
        else:
            check_positions(start + count - 1, key_mask.shape[1], FULL)
        added = ops.ones((), "bool") if self.key_mask is None else ops.cast(self.key_mask, "bool")
        added = ops.broadcast_to(added, (batch, count))
        key_heads = self.keys.shape[2]
        features = [_by_key_head(x, key_heads) for x in self.features.values()]
        stored = [self.keys, *features]
        together = ops.concatenate(stored, axis=-1) if self.features else self.keys
        added_values = self.values
        if not known:
            ids = (start + ops.arange(count, dtype="int32"))[:, None]
            added_values = mark_missing(added_values, ids, key_mask.shape[1])
        keys = write(keys, start, by_head(ops.cast(together, keys.dtype)), axis=2)
        values = write(values, start, by_head(ops.cast(added_values, values.dtype)), axis=2)
        key_mask = write(key_mask, start, added, axis=1)
        unmasked = self.key_mask is None or backend.all_true(self.key_mask)
        key = "moved on", count, unmasked
        moved = shared(key, (cache[3],), lambda: backend.moved_on(cache[3], count, unmasked))
        after = keys, values, key_mask, moved
        after = Overwritten(*after) if isinstance(cache, Overwritten) else after
        keys, values = by_head(keys), by_head(values)
        if known and not whole:
            keys, values, key_mask = (x[:, : start + count] for x in (keys, values, key_mask))
            unmasked = backend.is_unmasked(after[3]) or backend.all_true(key_mask)
            key_mask = None if unmasked else key_mask
        if self.features:
            ends = itertools.accumulate(x.shape[-1] for x in stored[:-1])
            keys, *features = backend.split(keys, list(ends), -1)
            features = {
                encoding: ops.reshape(x, (*ops.shape(x)[:2], *self.features[encoding].shape[2:]))
                for encoding, x in zip(self.features, features, strict=True)
            }
        else:
            features = {}
        return Memory(keys, values, features, key_mask, start), after

    def cleaned(self):
        """The same with zeros for the padding of `key_mask`, so that NaN cannot pass."""
        if self.key_mask is None:
            return self
        if backend.all_true(self.key_mask):
            return dataclasses.replace(self, key_mask=None)
        key_mask = ops.expand_dims(ops.cast(self.key_mask, "bool"), (2, 3))

        def clean(x):
            return ops.where(key_mask, x, ops.zeros((), x.dtype))

        features = {encoding: clean(x) for encoding, x in self.features.items()}
        keys, values = clean(self.keys), clean(self.values)
        return dataclasses.replace(self, keys=keys, values=values, features=features)


def _by_key_head(features, key_heads):
    """Features (B, T, H, F) side by side for the query heads of a key head, (B, T, H / G, G F)."""
    batch, length, heads, size = ops.shape(features)
    return ops.reshape(features, (batch, length, key_heads, heads // key_heads * size))


def empty_cache(batch_size, length, key_heads, key_size, value_size, dtype):
    """Makes an empty cache of `length` positions: keys, values, padding mask, number of keys.

    Keys and values are (B, H / G, T, D). Compiled programs would copy all of them at each step into
    this layout, in which they multiply matrices.
    """
    shape = (batch_size, key_heads, length)
    start = ops.zeros((), "int32")
    backend.number(start, 0)
    return (
        ops.zeros((*shape, key_size), dtype),
        ops.zeros((*shape, value_size), dtype),
        ops.zeros((batch_size, length), "bool"),
        start,
    )
