"""Metrics of a model's predictions, in NumPy."""

import numpy as np

from keras_posenc.files.untrusted import shorten

# Borders of the length groups: a group is borders[k] < tokens <= borders[k + 1].
LENGTH_BORDERS = (0, 128, 256, 512, 1024, 2048, 4096)


def log_softmax(logits):
    """Log-probabilities of logits (N, C), in float64."""
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def softmax(logits):
    """Probabilities of logits (N, C), in float64."""
    return np.exp(log_softmax(logits))


def check_finite(outputs):
    """Raises ValueError if a number is not finite, as after a diverged training."""
    if not np.isfinite(outputs).all():
        raise ValueError(
            "The model's logits are not finite numbers: the training has diverged. "
            "Lower learning_rate or train with a longer warm-up."
        )


def unit_rows(vectors):
    """Vectors (N, D) at length 1; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def confusion_matrix(labels, predicted, num_classes):
    """Counts documents (C, C): row = true class, column = predicted class.

    `labels`: (N,) ints, the true classes. `predicted`: (N,) ints. `num_classes`: int, C. Returns
    (C, C) int64.
    """
    matrix = np.zeros((num_classes, num_classes), "int64")
    np.add.at(matrix, (np.asarray(labels), np.asarray(predicted)), 1)
    return matrix


def precision_recall_f1(matrix):
    """Precision, recall and F1, (C,) each, from a confusion matrix; a ratio of zeros counts as
    0."""
    matrix = np.asarray(matrix, "float64")
    hit, true, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return tuple(
        np.divide(top, bottom, out=np.zeros_like(hit), where=bottom > 0)
        for top, bottom in ((hit, predicted), (hit, true), (2 * hit, predicted + true))
    )


def macro_f1(matrix):
    """Mean F1 over the classes that occur, as true class or as prediction.

    `matrix`: (C, C), as `confusion_matrix` counts. Returns a float, 0 to 1.
    """
    matrix = np.asarray(matrix)
    if not (np.isfinite(matrix).all() and matrix.sum() > 0):
        raise ValueError(
            f"`matrix` must count at least one document. Received: {shorten(matrix.tolist())}"
        )
    occurs = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    return float(precision_recall_f1(matrix)[2][occurs].mean())


def wilson(hits, count):
    """The Wilson 95% interval of a proportion, which is sensible at 0%, 100% and small counts.

    `hits`, `count`: the proportion hits / count. Returns a list of the lower and the upper bound.
    """
    z = 1.96  # of the normal distribution
    share, margin = hits / count, z * z / count
    centre = (share + margin / 2) / (1 + margin)
    spread = z * np.sqrt(share * (1 - share) / count + margin / (4 * count)) / (1 + margin)
    return [float(max(centre - spread, 0.0)), float(min(centre + spread, 1.0))]


def accuracy_by_length(correct, lengths, borders=LENGTH_BORDERS):
    """Computes the accuracy in each group of document lengths.

    `correct`: (N,) booleans. `lengths`: (N,) tokens of each document, before truncation. `borders`:
    increasing ints; the last group is longer than the last of them. Returns a list of dict with
    `more_than`, `up_to` (None for the last group), `documents`, `accuracy` and `interval` (95%,
    Wilson), without empty groups.
    """
    return _groups(lambda chosen: accuracy(np.asarray(correct, bool)[chosen]), lengths, borders)


def accuracy(correct):
    """The accuracy and its 95% interval, a dict, of (N,) booleans, or of shares that are right."""
    hits, count = float(correct.sum()), len(correct)
    return {"accuracy": hits / count, "interval": wilson(hits, count)}


def _groups(scores, lengths, borders=LENGTH_BORDERS):
    pairs = zip(borders, (*borders[1:], None), strict=True)
    groups = [_group(scores, lengths, low, high) for low, high in pairs]
    return [group for group in groups if group]


def _group(scores, lengths, low, high=None):
    """The scores of the documents of low < length <= high, or None if there are none."""
    lengths = np.asarray(lengths)
    inside = (lengths > low) & (lengths <= (np.inf if high is None else high))
    if not inside.any():
        return None
    return {"more_than": low, "up_to": high, "documents": int(inside.sum()), **scores(inside)}


def by_lengths(scores, lengths):
    """Computes the scores of all documents, and of those in each group of lengths.

    `scores`: a function from (N,) booleans, the documents chosen, to a dict of their scores.
    `lengths`: (N,) tokens of each document, before truncation. Returns a dict with `documents`, the
    scores, `by_length`, `long` (over 512 tokens, or None) and `lengths`, as in `classification`.

    Example:

    >>> report = by_lengths(lambda chosen: {"right": int(chosen.sum())}, [100, 700])
    >>> report["right"], report["long"]["right"]
    (2, 1)
    """
    return {
        "documents": len(lengths),
        **scores(np.ones(len(lengths), bool)),
        "by_length": _groups(scores, lengths),
        "long": _group(scores, lengths, 512),
        "lengths": length_histogram(lengths),
    }


def f1_of_counts(hits, true, predicted):
    """Precision, recall, F1 and support, a dict, from three counts; a ratio of zeros is 0.

    Example:

    >>> f1_of_counts(hits=1, true=2, predicted=1)["recall"]
    0.5
    """
    return {
        "precision": float(hits / predicted) if predicted else 0.0,
        "recall": float(hits / true) if true else 0.0,
        "f1": float(2 * hits / (true + predicted)) if true + predicted else 0.0,
        "support": int(true),
    }


def pearson(true, predicted):
    """Pearson's correlation of two series; 0.0 where one of them is constant.

    Args:
        true, predicted: (N,) numbers.

    Returns:
        float, -1 to 1.

    Example:

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    one, other = _series(true, predicted)
    one, other = one - one.mean(), other - other.mean()
    scale = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / scale) if scale > 0 else 0.0


def spearman(true, predicted):
    """Spearman's rank correlation of two series, ties having their mean rank.

    Args:
        true, predicted: (N,) numbers.

    Returns:
        float, -1 to 1.

    Example:

    >>> spearman([1, 2, 3], [2, 40, 700])
    1.0
    """
    return pearson(*map(_ranks, _series(true, predicted)))


def _series(true, predicted):
    """Two series as float64, which a correlation is defined for."""
    pair = [np.asarray(each, "float64") for each in (true, predicted)]
    for name, series in zip(("true", "predicted"), pair, strict=True):
        if series.ndim != 1 or not series.size or series.shape != pair[0].shape:
            raise ValueError(
                "`true` and `predicted` must be as many numbers, at least one. Received: shapes "
                f"{pair[0].shape} and {pair[1].shape}"
            )
        if not np.isfinite(series).all():
            index = int(np.argmin(np.isfinite(series)))
            raise ValueError(
                f"`{name}` must be finite numbers. Received: {series[index]} at index {index}. "
                "If a model predicted it, its training has diverged."
            )
    return pair


def _ranks(values):
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def length_histogram(lengths):
    """Counts documents over lengths, in four bins per doubling.

    Returns a dict with `edges` (tokens, n + 1 of them) and `counts` (n of them).
    """
    lengths = np.asarray(lengths)
    low, high = np.floor(np.log2(lengths.min())), np.ceil(np.log2(lengths.max() + 1))
    edges = 2.0 ** np.arange(low, high + 0.25, 0.25)
    counts, _ = np.histogram(lengths, edges)
    return {"edges": [round(float(edge), 2) for edge in edges], "counts": counts.tolist()}


def classification(logits, labels, lengths, num_classes):
    """Computes all metrics of one set of documents.

    Args:
        logits: (N, C) floats.
        labels: (N,) ints, the true classes.
        lengths: (N,) tokens of each document, before truncation.
        num_classes: int, C.

    Returns:
        dict of plain Python numbers and lists: `documents`, `loss`, `accuracy`, `interval`,
            `macro_f1`, `precision`, `recall`, `f1`, `confusion`, `by_length`, `long` (documents
            over 512 tokens, in the form of `by_length`; None if there are none) and `lengths`.
    """
    logits, labels = np.asarray(logits), np.asarray(labels)
    check_finite(logits)
    correct = logits.argmax(axis=-1) == labels
    matrix = confusion_matrix(labels, logits.argmax(axis=-1), num_classes)
    precision, recall, f1 = precision_recall_f1(matrix)
    return {
        "documents": len(labels),
        "loss": float(-log_softmax(logits)[np.arange(len(labels)), labels].mean()),
        **accuracy(correct),
        "macro_f1": macro_f1(matrix),
        "precision": precision.tolist(),
        "recall": recall.tolist(),
        "f1": f1.tolist(),
        "confusion": matrix.tolist(),
        "by_length": accuracy_by_length(correct, lengths),
        "long": _group(lambda chosen: accuracy(correct[chosen]), lengths, 512),
        "lengths": length_histogram(lengths),
    }
