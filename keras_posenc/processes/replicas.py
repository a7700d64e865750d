"""Batches that can be split over devices, and how many of an epoch were read."""

import keras
import numpy as np

from keras_posenc import backend


def filled_size(count, multiple=None):
    """The number of rows filled up to a multiple, by default of the number of replicas."""
    return count + -count % (multiple or backend.row_multiple())


def fill(array, multiple=None):
    """Fills an array up to `filled_size` rows by repeating the last one."""
    lacking = filled_size(len(array), multiple) - len(array)
    return np.concatenate([array, np.repeat(array[-1:], lacking, axis=0)]) if lacking else array


def fill_batch(batch, multiple, apart=False):
    """Fills up a batch of NumPy arrays, or dicts of them, by rows of weight 0.

    Where a batch may be filled, every one has weights, because a program is for one structure.
    `apart` is whether the rows of the batch are compared with each other: then the target of a row
    that fills up is -1, which belongs to no text, or -2, which is no cosine, where targets are
    scores.
    """
    if multiple == 1:
        return batch
    inputs, *targets = batch if isinstance(batch, tuple) else (batch,)
    count = len(inputs["token_ids"])
    inputs = {name: fill(array, multiple) for name, array in inputs.items()}
    if not targets:
        return inputs
    targets, weights = targets if len(targets) == 2 else (targets[0], None)
    if not isinstance(targets, dict):
        return inputs, *_fill_labels(targets, weights, count, multiple, apart)
    filled = {
        name: _fill_labels(target, weights and weights[name], count, multiple, apart)
        for name, target in targets.items()
    }
    targets, weights = ({name: each[n] for name, each in filled.items()} for n in range(2))
    return inputs, targets, weights


def _fill_labels(targets, weights, count, multiple, apart):
    """Targets and weights of one output, filled up."""
    weights = fill(np.ones(count, "float32") if weights is None else weights, multiple).copy()
    targets = fill(targets, multiple)
    weights[count:] = 0
    if apart:
        targets = targets.copy()
        targets[count:] = -1 if np.issubdtype(targets.dtype, np.integer) else -2
    return targets, weights


def share_of(batch, process):
    """The rows of a batch that a process reads: the r-th of n equal parts; `process` is r and n."""
    rank, count = process
    if count == 1:
        return batch

    def part(array):
        return array[rank * len(array) // count : (rank + 1) * len(array) // count]

    parts = [
        {name: part(array) for name, array in each.items()}
        if isinstance(each, dict)
        else part(each)
        for each in (batch if isinstance(batch, tuple) else (batch,))
    ]
    return tuple(parts) if isinstance(batch, tuple) else parts[0]


class Reading:
    """The batches that were read since an epoch of `count` batches began.

    `fit` reports the end of an epoch in three situations. It has read all of it, or all of its
    part. Or `steps_per_epoch` has made a pause. Or it has only looked at the first batches, to
    learn their shapes, and begins afterwards; then it has just asked for the number of batches.
    """

    def __init__(self, count):
        self._count, self._indices, self._was_counted = count, [], False

    def counts(self):
        """Notes that the number of batches is asked for."""
        self._was_counted = True

    def reads(self, index):
        """Notes that a batch is read."""
        self._was_counted = False
        self._indices.append(index)

    def ends(self):
        """Returns whether the epoch is really over when `fit` reports its end."""
        if self._is_whole():
            return True
        if self._was_counted:
            self._indices = []
        return False

    def _is_whole(self):
        indices = list(dict.fromkeys(self._indices.copy()))
        if len(indices) >= self._count // _processes():
            return True
        # Process r of n reads the batches r, r + n, ...
        steps = set(np.diff(indices).tolist())
        if len(steps) != 1 or (step := steps.pop()) < 2:
            return False
        return indices[0] < step and len(indices) >= self._count // step


def _processes():
    """Among how many processes Keras divides the batches of an epoch: from 3.16 on."""
    distribution = keras.distribution.distribution()
    if not getattr(distribution, "auto_shard_dataset", False):
        return 1
    return getattr(distribution, "num_data_shards", 1)
