"""How answers are scored: the published accuracy, and means by place for what varies with it."""

import numpy as np


def accuracy(predictions, targets, mask):
    """The share of the scored places that are right, as both published repositories compute it.

    `sum(mask * right) / sum(mask)` over the whole batch: a place counts the same in every row.

    Args:
        predictions: class ids (B, O), or logits (B, O, C), the highest of which is the answer.
        targets: class ids (B, O).
        mask: (B, O), 1 where a place is scored.

    Raises:
        ValueError: the shapes do not fit, or no place is scored.

    Example:

    >>> accuracy(np.array([[1, 0, 1]]), np.array([[1, 1, 0]]), np.array([[1, 1, 0]]))
    0.5
    """
    right = correct(predictions, targets)
    mask = _like(mask, right, "mask")
    if not mask.any():
        raise ValueError("mask scores no place: give it a 1 where a place counts.")
    return float((right * mask).sum() / mask.sum())


def correct(predictions, targets):
    """Where the answer is right: (B, O), bool. Takes what `accuracy` takes."""
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    if predictions.ndim == targets.ndim + 1:
        predictions = predictions.argmax(-1)
    return _like(predictions, targets, "predictions") == targets


def mean_by_place(values, mask):
    """The mean over the batch at each place: accuracy or loss by position in the text.

    Args:
        values: (B, O), for instance what `correct` gives, or losses.
        mask: (B, O), 1 where a place is scored.

    Returns:
        O floats; nan where no row is scored.

    Example:

    >>> mean_by_place(np.array([[1, 0], [0, 0]]), np.array([[1, 1], [1, 0]])).tolist()
    [0.5, 0.0]
    """
    values = np.asarray(values, "float64")
    mask = _like(mask, values, "mask")
    count = mask.sum(0)
    means = (values * mask).sum(0) / np.maximum(count, 1)
    return np.where(count, means, np.nan)


def right_by_span(predictions, targets, mask, span):
    """How many scored places are right in the first `span` places, in the next, and so on.

    Counts of all rows together, from which the accuracy of any run of spans follows.

    Args:
        predictions, targets, mask: as `accuracy` takes them.
        span: places that are counted together; the last span may have fewer.

    Returns:
        `(right, scored)`, a list of ints each.

    Example:

    >>> targets, mask = np.array([[1, 1, 0]]), np.ones((1, 3))
    >>> right_by_span(np.array([[1, 0, 0]]), targets, mask, span=2)
    ([1, 1], [2, 1])
    """
    right = correct(predictions, targets)
    mask = _like(mask, right, "mask").astype(bool)
    starts = np.arange(0, mask.shape[1], span)
    counts = (np.add.reduceat(hits.sum(0), starts) for hits in (right & mask, mask))
    return tuple(count.tolist() for count in counts)


def _like(array, model, name):
    array = np.asarray(array)
    if array.shape != model.shape:
        raise ValueError(f"{name} has the shape {array.shape}, the targets have {model.shape}.")
    return array
