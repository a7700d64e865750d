"""Batches of a task at few widths, so that one compiled step serves many lengths. NumPy only."""

import itertools

import numpy as np

# Of the seeds of batches to measure on: no seed and step of a training give the same numbers.
# Settings are chosen by trials, which therefore have a test of their own.
TEST, TRIAL_TEST, VALIDATION = 2**31 - 1, 2**31 - 2, 2**31 - 3


def width(places):
    """The width to pad to: the next power of two from 32 on, or 1.5 times one.

    Three widths serve tests at 50, 100 and 200 ids. From 32 ids on at most a third is padding.

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


def train_batch(task, curriculum, batch_size, seed, step, places):
    """Makes the batch of a step, as a function of seed and step alone.

    All steps have one width, so that one compiled program takes many of them.

    The loss is the mean over all places of the answer for the published tasks of the Chomsky
    hierarchy, and over the scored ones for the others.

    Args:
        task: a `Task`.
        curriculum: a function (step, seed) -> length.
        batch_size: rows.
        seed, step: ints.
        places: int. The width W to pad to.

    Returns:
        `(ids, targets, weights)`, each (B, W). The weights are 1 at the places that count, else 0.
    """
    length = curriculum(step, seed)
    # The third number keeps these draws apart from that of the length.
    tokens, targets, mask = task.sample(batch_size, length, (seed, step, 1))
    ids, answers = padded(task, tokens, places)
    wide = np.zeros(ids.shape, "int32")
    weights = np.zeros(ids.shape, "float32")
    wide[:, answers] = targets
    weights[:, answers] = 1 if task.level else mask
    return ids, wide, weights


def evaluation_batches(task, length, rows, samples, scored=0, stream=TEST, wide=None):
    """Yields full batches that are the same for every run, until there are enough.

    Args:
        task: a `Task`.
        length: int.
        rows: int. Rows of a batch.
        samples, scored: ints. The least number of rows, and of scored places, in all.
        stream: `TEST`, `TRIAL_TEST` or `VALIDATION`.
        wide: int, the width to pad to; None: the next of `width`.

    Yields:
        `(ids, answers, targets, mask)`; `answers` is a slice.
    """
    drawn = counted = 0
    for number in itertools.count():
        tokens, targets, mask = task.sample(rows, length, (stream, length, number, 1))
        yield *padded(task, tokens, wide), targets, mask
        drawn, counted = drawn + rows, counted + mask.sum()
        # If so many samples have no scored position, none will have one; callers report that.
        if drawn >= samples and (counted >= scored or not counted):
            return


def padded(task, tokens, wide=None):
    """The ids for a model, padded on the right, and the slice of the positions of the answer."""
    inputs = task.inputs(tokens)
    rows, places = inputs.shape
    ids = np.full((rows, wide or width(places)), task.input_size, "int32")
    ids[:, :places] = inputs
    return ids, slice(places - task.output_length(tokens.shape[1]), places)
