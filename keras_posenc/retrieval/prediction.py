"""Outputs for each row of batches of several lengths, and documents in the order of scores."""

import keras
import numpy as np


def predicted(model, batches, verbose="auto"):
    """Yields the output of each row of a `TextBatches` that numbers its rows by labels.

    Args:
        model: `keras.Model` from token ids (and segment ids) (B, T) to (B, ...).
        batches: `TextBatches` that does not shuffle, whose labels are the rows' numbers.
        verbose: 0 or 1, or "auto" for 1. Whether to show progress.

    Yields:
        `(output, number)`.
    """
    names = [tensor.name for tensor in model.inputs]
    progress = keras.utils.Progbar(len(batches), verbose=1 if verbose == "auto" else verbose)
    for step in range(len(batches)):
        inputs, numbers = batches[step][:2]
        outputs = model.predict_on_batch({name: inputs[name] for name in names})
        yield from zip(outputs, numbers.tolist(), strict=True)
        progress.update(step + 1)


def ranked(scores, top_k=None):
    """Orders documents by their scores.

    Args:
        scores: (N,) array.
        top_k: int. Number of the best documents to return; None for all.

    Returns:
        list of dicts with the keys `corpus_id` and `score`, from the best to the worst.

    Raises:
        ValueError: if `top_k` is no int, or less than 1.
    """
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise ValueError(f"`top_k` must be an int, at least 1. Received: {top_k!r}")
    order = np.argsort(-scores, kind="stable")[:top_k]
    return [{"corpus_id": int(n), "score": float(scores[n])} for n in order]
