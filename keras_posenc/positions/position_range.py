"""Consecutive position ids, and the range check of all, with one message on every backend."""

import functools

import keras
import numpy as np
from keras import ops

from keras_posenc import backend


def consecutive(length, offset=0):
    """Makes the ids offset, offset + 1, ..., (length,) int32; both arguments may be tensors."""
    if isinstance(offset, int):
        return ops.arange(offset, offset + length, dtype="int32")
    return ops.arange(0, length, dtype="int32") + ops.cast(offset, "int32")


def check_positions(ids, bound, remedy):
    """Returns the ids after checking that 0 <= id < `bound`.

    Backends disagree on an index out of range: JAX gives NaN, or clamps a negative one; TensorFlow
    and torch raise messages of their own. Ids known only inside a compiled step are checked there,
    except under XLA on TensorFlow, which drops assertions: see `mark_missing`.

    `ids`: integer tensor of any shape, or KerasTensor (which cannot be checked yet). `bound`: int.
    First position that does not exist; None if it is not known yet. `remedy`: str. End of the error
    message: what the user can do about it. Returns the ids.
    """
    if isinstance(ids, keras.KerasTensor) or bound is None or 0 in ids.shape:
        return ids
    if backend.is_traced(ids):
        if backend.TRAITS.eager:  # PyTorch reports nothing then, and a message would fix the bound
            return ids
        message = f"A position does not exist: positions run from 0 to {bound - 1}. {remedy}"
        check = functools.partial(_check_range, bound=bound, remedy=remedy)
        return backend.check_range(ids, bound, check, message)
    values = ops.convert_to_numpy(ids)
    _check_range(values.min(), values.max(), bound, remedy)
    return ids


def check_span(ids, bound, message):
    """Raises ValueError if ids (B, T) of a text span more than `bound`.

    As with `check_positions`, ids known only inside a compiled step are checked there. `ids`:
    tensor of ids. `bound`: number. `message`: str. The error, up to the span received.
    """
    if ids.shape[1] == 1:
        return
    ids = ops.cast(ids, "float32")
    span = ops.max(ids, axis=1) - ops.min(ids, axis=1)

    def check(_, largest):
        if largest > bound:
            raise ValueError(f"{message} Received: {largest:.0f}")

    if backend.is_traced(span):
        backend.check_range(span, bound + 1, check, message)
    else:
        check(None, ops.convert_to_numpy(span).max(initial=0))


def mark_missing(rows, ids, bound):
    """Makes rows (..., D) NaN for ids of `bound` or above, and below 0, if no check reports them.

    XLA on TensorFlow, which `fit` compiles with by default, reads the nearest row without an error.
    """
    if bound is None or not backend.TRAITS.drops_assertions or not backend.is_traced(ids):
        return rows
    exists = ops.logical_and(ids >= 0, ids < bound)
    return ops.where(ops.expand_dims(exists, -1), rows, np.nan)


def check_length(offset, length, bound, remedy):
    """Raises ValueError unless the positions offset .. offset + length - 1 are below `bound`, if
    there is one."""
    if bound is not None:
        _check_range(offset, max(offset, offset + length - 1), bound, remedy)


def _check_range(smallest, largest, bound, remedy):
    if smallest < 0 or largest >= bound:
        wrong = int(smallest if smallest < 0 else largest)
        raise ValueError(
            f"Position {wrong} does not exist: positions run from 0 to {bound - 1}. {remedy}"
        )
