"""Scores of answers: the published accuracy, and accuracy by position in the text."""

import numpy as np


def accuracy(predictions, targets, mask):
    """Accuracy over the scored positions, as both published repositories compute it.

    sum(mask * correct) / sum(mask) over the whole batch, so a position counts the same in each row.

    Args:
        predictions: class ids (B, O), or logits (B, O, C), of which the argmax is taken.
        targets: class ids (B, O).
        mask: (B, O), 1 where a position is scored.

    Returns:
        float in [0, 1].

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
    """Marks the positions where the prediction equals the target.

    Args:
        predictions: class ids (B, O), or logits (B, O, C), of which the argmax is taken.
        targets: class ids (B, O).

    Returns:
        bool array (B, O).

    Example:

    >>> correct(np.array([[1, 0]]), np.array([[1, 1]])).tolist()
    [[True, False]]
    """
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    if predictions.ndim == targets.ndim + 1:
        predictions = predictions.argmax(-1)
    return _like(predictions, targets, "predictions") == targets


def mean_by_place(values, mask):
    """Mean over the batch at each position: accuracy or loss by position in the text.

    Args:
        values: (B, O), for example the result of `correct`, or losses.
        mask: (B, O), 1 where a position is scored.

    Returns:
        float64 array (O,); NaN where no row is scored.

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
    """Counts the correct and the scored positions in each span of `span` positions.

    The counts are over all rows, so the accuracy of any range of spans follows from them.

    Args:
        predictions, targets, mask: as in `accuracy`.
        span: int. Positions counted together; the last span may have fewer.

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
