"""Consecutive position ids."""

from keras import ops


def consecutive(length, offset=0):
    """Makes the ids offset, offset + 1, ..., (length,) int32; both arguments may be tensors."""
    if isinstance(offset, int):
        return ops.arange(offset, offset + length, dtype="int32")
    return ops.arange(0, length, dtype="int32") + ops.cast(offset, "int32")
