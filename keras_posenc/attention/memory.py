"""The keys and values that queries attend to: those of the cache, then those of the call."""

import dataclasses
import itertools

from keras import ops

from keras_posenc import backend
from keras_posenc.positions import check_positions
from keras_posenc.positions.guard import mark_missing


@dataclasses.dataclass(frozen=True)
class Memory:
    """Keys and values before the encodings' `heads`, which may depend on the length.

    Attributes:
        keys: (B, Tk, H, D).
        values: (B, Tk, H, Dv).
        features: dict, encoding -> its `features` of the keys, (B, Tk, H, F).
        keep: (B, Tk) bool, False where a key is padding, or None.
        start: scalar tensor, the number of keys from earlier calls, or None without a cache.
    """

    keys: object
    values: object
    features: dict
    keep: object
    start: object = None

    def after(self, cache):
        """Appends these keys and values to those of a cache; returns the result and the new cache.

        A cache stores a key and its features in one tensor.
        """
        keys, values, kept, start = cache
        batch, new = ops.shape(self.keys)[:2]
        remedy = "The cache is full: make it longer, make_cache(batch_size, length)."
        check_positions(start + new - 1, keys.shape[1], remedy)
        keep = ops.ones((), "bool") if self.keep is None else ops.cast(self.keep, "bool")
        keep = ops.broadcast_to(keep, (batch, new))
        stored = [self.keys, *self.features.values()]
        together = ops.concatenate(stored, axis=-1)
        keys = ops.slice_update(keys, (0, start, 0, 0), ops.cast(together, keys.dtype))
        ids = (start + ops.arange(new, dtype="int32"))[:, None]
        own = mark_missing(self.values, ids, values.shape[1])
        values = ops.slice_update(values, (0, start, 0, 0), ops.cast(own, values.dtype))
        kept = ops.slice_update(kept, (0, start), keep)
        after = keys, values, kept, start + new
        if self.features:
            ends = itertools.accumulate(x.shape[-1] for x in stored[:-1])
            keys, *features = ops.split(keys, list(ends), axis=-1)
            features = dict(zip(self.features, features, strict=True))
        else:
            features = {}
        return Memory(keys, values, features, kept, start), after

    def cleaned(self):
        """The same with zeros for padding, so that a number that is none cannot pass."""
        if self.keep is None:
            return self
        if backend.all_true(self.keep):
            return dataclasses.replace(self, keep=None)
        keep = ops.expand_dims(ops.cast(self.keep, "bool"), (2, 3))

        def clean(x):
            return ops.where(keep, x, ops.zeros((), x.dtype))

        features = {encoding: clean(x) for encoding, x in self.features.items()}
        keys, values = clean(self.keys), clean(self.values)
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
