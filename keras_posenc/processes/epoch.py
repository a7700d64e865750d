"""What `fit` has read of an epoch, and whether the epoch is over."""

import keras
import numpy as np


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
