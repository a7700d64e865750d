"""Batches for `model.fit` whose lengths follow a curriculum."""

import keras

from keras_posenc import backend


class CurriculumBatches(keras.utils.PyDataset):
    """Makes the batch of every training step, of the length that a curriculum gives for it.

    Step t, counted over all epochs, trains on make_batch(curriculum(t, seed), (seed, t)). Every
    batch is a function of seed and step alone, so a training stopped after n steps resumes
    unchanged with `start=n`. The sequence of batches is endless and ordered: pass `steps_per_epoch`
    and `shuffle=False` to `fit`, and a new object in each call. This is the way to train with a
    curriculum of steps; `finetune(lengths=...)` has stages of whole epochs instead, and
    `keras_posenc.tasks.curriculum` makes the curricula.

    On JAX and TensorFlow each new shape is compiled: pad batches to a few widths, with weights 0.

    Args:
        make_batch: function. Maps (length, seed) to a batch for `fit`: (inputs, targets) or
            (inputs, targets, sample weights). The seed is a tuple of two ints, as in `Task.sample`.
        curriculum: function. Maps (step, seed) to a length, as `keras_posenc.tasks.curriculum`
            returns it.
        seed: int. Seed of the lengths and the batches.
        start: int. The first step.

    Example:

    >>> task = tasks.get("selective_copy")
    >>> def make_batch(length, seed):
    ...     tokens, targets, mask = task.sample(32, length, seed)
    ...     return task.inputs(tokens), targets, mask
    >>> growing = tasks.curriculum("regular_increase", start=8, every=100)
    >>> batches = CurriculumBatches(make_batch, growing, start=100)
    >>> [array.shape for array in batches[0]]  # 9 tokens to copy, 9 blanks, an end mark, the copy
    [(32, 28), (32, 28), (32, 28)]

    Train with `model.fit(batches, steps_per_epoch=100, epochs=10, shuffle=False)`.

    Reference: [Curriculum learning](https://dl.acm.org/doi/10.1145/1553374.1553380).
    """

    def __init__(self, make_batch, curriculum, seed=0, start=0):
        # One worker keeps the order.
        super().__init__(workers=1, use_multiprocessing=False)
        self.make_batch = make_batch
        self.curriculum = curriculum
        self.seed = seed
        self.start = start
        # Batches that `fit` looks at, and does not train on, to learn which axes vary.
        self._to_show = list(range(backend.TRAITS.batches_before_fit))

    @property
    def num_batches(self):
        # With a known number of batches `fit` would shuffle the steps of an epoch.
        return None

    def __getitem__(self, index):
        step = self.start + index
        if index in self._to_show:
            self._to_show.remove(index)
            step = self.start if index == 0 else self._step_of_another_length()
        return self.make_batch(self.curriculum(step, self.seed), (self.seed, step))

    def _step_of_another_length(self):
        """The first of the steps 1, 2, 4, ... after the start that has another length, or 1."""
        lengths = {k: self.curriculum(self.start + k, self.seed) for k in (0, *_POWERS)}
        return self.start + next((k for k in _POWERS if lengths[k] != lengths[0]), 1)


_POWERS = [2**k for k in range(24)]
