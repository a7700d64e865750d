"""Batches of a task at few widths, so that one compiled step serves many lengths. NumPy only."""

import numpy as np

# Of the seeds of test batches: no seed and step of a training give the same numbers.
TEST = 2**31 - 1


def width(places):
    """The width to pad to: the next of 32, 48, 64, 96, 128, ...

    Four widths serve all lengths up to 40 of a task whose answer is as long as its input, 80 ids.
    From 32 ids on at most a third is padding, and short texts are cheap.

    Example:

    >>> [width(places) for places in (1, 41, 80, 501, 1000)]
    [32, 48, 96, 512, 1024]
    """
    size = 32
    while size < places:
        size = size * 3 // 2 if size & (size - 1) == 0 else size // 3 * 4
    return size


def places_of(task, length):
    """Number of ids in a text of this length, including the placeholders of its answer."""
    tokens = task.input_length(length)
    return tokens if task.causal else tokens + task.output_length(tokens)


def train_batch(task, curriculum, batch_size, seed, step):
    """Makes the batch of a step, as a function of seed and step alone.

    The loss is the mean over all places of the answer for the published tasks of the Chomsky
    hierarchy, and over the scored ones for the others.

    Args:
        task: a `Task`.
        curriculum: a function (step, seed) -> length.
        batch_size: rows.
        seed, step: ints.

    Returns:
        `(ids, targets, weights)`, each (B, W). The weights are 1 at the places that count, else 0.
    """
    length = curriculum(step, seed)
    # The third number keeps these draws apart from that of the length.
    tokens, targets, mask = task.sample(batch_size, length, (seed, step, 1))
    ids, answers = padded(task, tokens)
    wide = np.zeros(ids.shape, "int32")
    weights = np.zeros(ids.shape, "float32")
    wide[:, answers] = targets
    weights[:, answers] = 1 if task.level else mask
    return ids, wide, weights


def evaluation_batches(task, length, samples, rows):
    """Yields `(ids, answers, targets, mask)`, the same for every run; `answers` is a slice."""
    for number, start in enumerate(range(0, samples, rows)):
        count = min(rows, samples - start)
        tokens, targets, mask = task.sample(count, length, (TEST, length, number, 1))
        yield *padded(task, tokens), targets, mask


def padded(task, tokens):
    """The ids for a model, padded on the right, and the slice of the positions of the answer."""
    inputs = task.inputs(tokens)
    rows, places = inputs.shape
    ids = np.full((rows, width(places)), task.input_size, "int32")
    ids[:, :places] = inputs
    return ids, slice(places - task.output_length(tokens.shape[1]), places)
