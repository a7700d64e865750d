"""The keys and values that queries attend to: those of the cache, then those of the call."""

import dataclasses
import itertools

from keras import ops

from keras_posenc import backend
from keras_posenc.positions import check_positions


@dataclasses.dataclass(frozen=True)
class Memory:
    """Keys and values before the encodings' `heads`, which may depend on the length.

    Attributes:
        keys: (B, Tk, H, D).
        values: (B, Tk, H, Dv).
        features: list of (B, Tk, H, F), the encodings' `features` of the keys.
        keep: (B, Tk) bool, False where a key is padding, or None.
        start: int or scalar tensor. Number of keys from earlier calls.
    """

    keys: object
    values: object
    features: list
    keep: object
    start: object = 0

    def after(self, cache):
        """Appends these keys and values to those of a cache; returns the result and the new cache.

        A cache stores a key and its features in one tensor.
        """
        keys, values, kept, start = cache
        batch, new = ops.shape(self.keys)[:2]
        remedy = "The cache is full: make it longer, make_cache(batch_size, length)."
        check_positions(start + new - 1, keys.shape[1], remedy)
        keep = ops.ones((batch, new), "bool") if self.keep is None else ops.cast(self.keep, "bool")
        together = ops.concatenate([self.keys, *self.features], axis=-1)
        keys = ops.slice_update(keys, (0, start, 0, 0), ops.cast(together, keys.dtype))
        values = ops.slice_update(values, (0, start, 0, 0), ops.cast(self.values, values.dtype))
        kept = ops.slice_update(kept, (0, start), keep)
        sizes = [x.shape[-1] for x in (self.keys, *self.features)]
        parts = ops.split(keys, list(itertools.accumulate(sizes))[:-1], -1) if sizes[1:] else [keys]
        return Memory(parts[0], values, parts[1:], kept, start), (keys, values, kept, start + new)

    def cleaned(self):
        """The same with zeros for padding, so that a number that is none cannot pass."""
        if self.keep is None or backend.all_true(self.keep):
            return self
        keep = ops.expand_dims(ops.cast(self.keep, "bool"), (2, 3))
        keys, values, *features = (
            ops.where(keep, x, ops.zeros((), x.dtype))
            for x in (self.keys, self.values, *self.features)
        )
        return dataclasses.replace(self, keys=keys, values=values, features=features)


def empty_cache(batch_size, length, num_heads, key_size, value_size, dtype):
    """Makes an empty cache of `length` positions: keys, values, padding mask, number of keys."""
    shape = (batch_size, length, num_heads)
    return (
        ops.zeros((*shape, key_size), dtype),
        ops.zeros((*shape, value_size), dtype),
        ops.zeros((batch_size, length), "bool"),
        ops.zeros((), "int32"),
    )


def is_empty(q, keys):
    """Whether there is known to be no text, no query or no key."""
    return 0 in (*q.shape[:2], keys.shape[1])


def attend_nothing(q, memory):
    """The output, the weights and the logits where there is no cell to attend to: zeros."""
    (batch, rows, heads), columns = ops.shape(q)[:3], ops.shape(memory.keys)[1]
    cells = ops.zeros((batch, heads, rows, columns), "float32")
    output = ops.zeros((batch, rows, heads, memory.values.shape[-1]), q.dtype)
    return output, cells, cells
