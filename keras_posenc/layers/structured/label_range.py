"""The check that a label exists, with one message on every backend."""

import functools

import numpy as np
from keras import ops

from keras_posenc import backend


def check_labels(labels, bound, what, remedy):
    """Returns integer labels after checking that each is below `bound`; negative ones pass.

    `labels`: int32 tensor of any shape. `bound`: int, or a scalar tensor where the size is known
    only when the program runs. `what`: str. What a label is, such as "Tag". `remedy`: str. What the
    user can do about it.
    """
    if not isinstance(bound, int) or 0 in labels.shape:
        return labels
    check = functools.partial(_check, bound=bound, what=what, remedy=remedy)
    if not backend.is_traced(labels):
        check(0, ops.convert_to_numpy(labels).max())
        return labels
    message = f"{what}: one does not exist, they run from 0 to {bound - 1}. {remedy}"
    checked = backend.check_range(ops.maximum(labels, 0), bound, check, message)
    return ops.where(labels < 0, -1, checked)


def mark_missing_labels(losses, labels, bound):
    """The losses, NaN where one of the labels (..., more) is invalid and no check reports it."""
    if not (backend.TRAITS.drops_assertions and backend.is_traced(labels)):
        return losses
    axes = tuple(range(len(losses.shape), len(labels.shape)))
    return ops.where(ops.any(labels >= bound, axis=axes), np.nan, losses)


def _check(smallest, largest, bound, what, remedy):
    if largest >= bound:
        raise ValueError(
            f"{what} {int(largest)} does not exist: they run from 0 to {bound - 1}. {remedy}"
        )
