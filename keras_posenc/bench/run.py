"""One contender of a benchmark: a model trained short and tested long, for many seeds."""

import statistics
import time

import keras
import numpy as np
from keras import ops

from keras_posenc import tasks
from keras_posenc.bench.batches import evaluation_batches, train_batch
from keras_posenc.bench.models import build_model
from keras_posenc.bench.settings import lengths_of, splits_of, task_of
from keras_posenc.training.schedules import cosine_warmup
from keras_posenc.training.state import load_state, save_state

# Steps between two states on disk: what a kill can cost.
SEGMENT = 100
CLIP = 1.0
WARMUP = 0.05


class Contender:
    """A model, compiled once for all seeds and lengths.

    Args:
        name: a task in the benchmark's notation.
        settings: `Settings`.
        model, encodings, positions: as in `build_model`.
    """

    def __init__(self, name, settings, model, encodings, positions):
        self.task, self.settings = task_of(name, settings.corpus), settings
        self.splits = splits_of(name, settings.corpus)
        self.arguments = self.task, settings, model, encodings, positions
        self.train_lengths, self.test_lengths = lengths_of(self.task, settings)
        self.curriculum = tasks.curriculum("uniform", lengths=self.train_lengths)
        self.clock = Clock()
        self.model = build_model(*self.arguments)
        warmup = int(WARMUP * settings.steps)
        rate = cosine_warmup(settings.learning_rate, settings.steps, warmup)
        self.model.compile(
            keras.optimizers.Adam(rate, global_clipnorm=CLIP),
            # The mean over what counts, whether or not a mask of the padding comes with the logits.
            keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            ),
        )
        self.model.optimizer.build(self.model.trainable_variables)
        # Copies: on torch the arrays are the variables' own memory.
        self.blank = [np.array(ops.convert_to_numpy(v)) for v in self.model.optimizer.variables]

    def begin(self, seed):
        """Draws all weights again, from `seed`, and resets the optimizer."""
        keras.utils.set_random_seed(seed)
        fresh = build_model(*self.arguments)
        for variable, drawn in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(drawn)
        for variable, value in zip(self.model.optimizer.variables, self.blank, strict=True):
            variable.assign(value)

    def step(self, seed, number):
        """Takes one training step and returns the loss."""
        batch = train_batch(self.task, self.curriculum, self.settings.batch_size, seed, number)
        with self.clock("train", batch[0].shape):
            return float(np.ravel(self.model.train_on_batch(*batch))[0])

    def train(self, seed, state, tell):
        """Trains to the end, from the state in the file `state` if there is one.

        Returns:
            The record: mean losses of every `SEGMENT` steps, seconds in total and for compilation.
        """
        self.begin(seed)
        record = {"step": 0, "losses": [], "seconds": 0.0, "compiling": 0.0}
        if state.exists():
            record = load_state(state, self.model)
        while record["step"] < self.settings.steps:
            started, compiled = time.perf_counter(), self.clock.compiling()
            first = record["step"]
            last = min(first + SEGMENT, self.settings.steps)
            # torch draws dropout from its global state, which no variable holds.
            keras.utils.set_random_seed((seed * 1_000_003 + first) % 2**32)
            losses = [self.step(seed, number) for number in range(first, last)]
            record["step"] = last
            record["losses"].append(round(statistics.fmean(losses), 6))
            record["seconds"] += time.perf_counter() - started
            record["compiling"] += max(self.clock.compiling() - compiled, 0.0)
            save_state(state, self.model, record)
            tell(f"step {last:,} of {self.settings.steps:,}, loss {record['losses'][-1]:.4f}")
        return record

    def test(self):
        """Measures the accuracy of the model on all splits and test lengths.

        Returns:
            A dict: `accuracy`, dict split -> dict length -> float; and for texts `by_place`, dict
            split -> dict length -> `right` and `scored`: counts of positions, one for each span as
            long as the longest training text.
        """
        scores = {"accuracy": {split: {} for split in self.splits}}
        if self.task.is_text:
            scores["by_place"] = {split: {} for split in self.splits}
        for split, task in self.splits.items():
            for length in self.test_lengths:
                answers = self._answers(task, length)
                scores["accuracy"][split][str(length)] = tasks.accuracy(*answers)
                if task.is_text:
                    right, scored = tasks.right_by_span(*answers, max(self.train_lengths))
                    counts = {"right": right, "scored": scored}
                    scores["by_place"][split][str(length)] = counts
        return scores

    def _answers(self, task, length):
        """(predictions, targets, mask) of all samples of this length."""
        samples, rows = self.settings.test_samples, self.test_rows
        batches = []
        for ids, answers, targets, mask in evaluation_batches(task, length, samples, rows):
            with self.clock("test", ids.shape):
                logits = self.model.predict_on_batch(ids)
            batches.append((logits[:, answers].argmax(-1), targets, mask))
        return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))

    @property
    def test_rows(self):
        """Rows of a test batch: at least two batches, so that the clock can tell compiling."""
        return min(self.settings.batch_size, -(-self.settings.test_samples // 2))

    def cost(self):
        """(seconds of a step, on average over the lengths; of the whole test; of compiling)."""
        numbers, widths = range(200), {}
        for number in numbers:
            ids, _, _ = train_batch(self.task, self.curriculum, 1, 0, number)
            widths.setdefault(ids.shape[1], []).append(number)
        step = 0.0
        for places, members in widths.items():
            for _ in range(3):
                self.step(0, members[0])
            shape = self.settings.batch_size, places
            step += len(members) / len(numbers) * self.clock.steady("train", shape)
        started, compiled = time.perf_counter(), self.clock.compiling()
        self.test()
        compiling = self.clock.compiling()
        return step, time.perf_counter() - started - (compiling - compiled), compiling


class Clock:
    """Times calls by shape; the first of each shape includes any compilation."""

    def __init__(self):
        self.times = {}

    def __call__(self, what, shape):
        return _Timed(self.times.setdefault((what, shape), []))

    def steady(self, what, shape):
        """Median of all calls of this shape except the first."""
        return statistics.median(self.times[what, shape][1:])

    def compiling(self):
        """Seconds by which the first calls exceed the median of the later ones."""
        known = [times for times in self.times.values() if times[1:]]
        return sum(max(times[0] - statistics.median(times[1:]), 0.0) for times in known)


class _Timed:
    def __init__(self, times):
        self.times = times

    def __enter__(self):
        self.started = time.perf_counter()

    def __exit__(self, *error):
        self.times.append(time.perf_counter() - self.started)
