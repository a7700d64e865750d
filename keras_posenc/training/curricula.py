"""Batches for `model.fit` whose length a curriculum chooses."""

import keras


class CurriculumBatches(keras.utils.PyDataset):
    """Asks a curriculum for the length of every step, and a function for a batch of that length.

    Step t of the training, counted over all epochs, gets make_batch(curriculum(t, seed), (seed,
    t)). Every batch follows from seed and step alone, so a training that was stopped after n steps
    goes on as it would have with `start=n`. The batches have no end and keep their order: give
    `fit` its `steps_per_epoch`, `shuffle=False`, and an object of its own.

    On JAX and TensorFlow each new shape is compiled: pad batches to a few widths, with weights 0.

    Args:
        make_batch: function (length, seed) -> what `fit` takes: (inputs, targets) or (inputs,
            targets, sample weights); the seed is a tuple of two ints, as `Task.sample` takes it.
        curriculum: function (step, seed) -> length, such as `keras_posenc.tasks.curriculum` gives.
        seed: int.
        start: int. The first step.

    Example:

    >>> task = tasks.get("selective_copy")
    >>> def make_batch(length, seed):
    ...     tokens, targets, mask = task.sample(32, length, seed)
    ...     return task.inputs(tokens), targets, mask
    >>> growing = tasks.curriculum("regular_increase", start=8, every=100)
    >>> batches = CurriculumBatches(make_batch, growing)
    >>> model.fit(batches, steps_per_epoch=100, epochs=10, shuffle=False)

    Reference: [Curriculum learning](https://dl.acm.org/doi/10.1145/1553374.1553380).
    """

    def __init__(self, make_batch, curriculum, seed=0, start=0):
        # In order, so from one worker.
        super().__init__(workers=1, use_multiprocessing=False)
        self.make_batch = make_batch
        self.curriculum = curriculum
        self.seed = seed
        self.start = start
        # TensorFlow takes the axes that vary from two batches, which it does not train on.
        self._to_show = [0, 1] if keras.backend.backend() == "tensorflow" else []

    @property
    def num_batches(self):
        # With a number of batches `fit` would shuffle the steps of an epoch.
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
