"""One model of a benchmark: a model trained short and tested long, for many seeds."""

import dataclasses
import json
import statistics
import time

import keras
import numpy as np
from keras import ops

from benchmarks.extrapolation.models import build_model
from benchmarks.extrapolation.settings import lengths_of, splits_of, task_of
from benchmarks.extrapolation.task_batches import (
    TEST,
    TRIAL_TEST,
    VALIDATION,
    evaluation_batches,
    padded,
    places_of,
    train_batch,
    width,
)
from keras_posenc import backend, tasks
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.files import saved_records as e
from keras_posenc.training.schedules import cosine_warmup
from keras_posenc.training.training_state import load_state, save_state

# Steps between two states on disk: what a kill can cost. Also those of one program, where the
# backend takes several.
SEGMENT = 100
# Of a test batch, which is that of the validation too.
MOST_ROWS = 256
MOST_PLACES = 8192
CLIP = 1.0
WARMUP = 0.05
RECORD = e.keys({"step": e.count, "losses": e.every(e.loss)})


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
        self.trained_lengths = spread(self.train_lengths)
        self.wide = max(places_of(self.task, length) for length in self.train_lengths)
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
        self._take = backend.train_steps(self.model)
        # Copies: on torch the arrays are the variables' own memory.
        self.blank = [np.array(ops.convert_to_numpy(v)) for v in self.model.optimizer.variables]

    def begin(self, seed):
        """Draws all weights again, from `seed`, and resets the optimizer."""
        set_random_seed(seed)
        fresh = build_model(*self.arguments)
        for variable, drawn in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(drawn)
        for variable, value in zip(self.model.optimizer.variables, self.blank, strict=True):
            variable.assign(value)

    def steps(self, seed, first, last):
        """Takes the training steps `first` to `last` - 1, at most `SEGMENT`; returns the losses."""
        size, wide = self.settings.batch_size, self.wide
        batches = [
            train_batch(self.task, self.curriculum, size, seed, number, wide)
            for number in range(first, last)
        ]
        # One shape for all segments, so that one program serves them all.
        batches += batches[-1:] * (min(SEGMENT, self.settings.steps) - len(batches))
        batches = tuple(map(np.stack, zip(*batches, strict=True)))
        with self.clock("train", last - first):
            return self._take(batches, last - first)

    def train(self, seed, state, print_line):
        """Trains to the end, from the state in the file `state` if there is one.

        Returns:
            The record: the step it ended at; of every `SEGMENT` steps the mean loss, and the loss
            on fresh samples of the trained lengths; seconds in total and for compilation.
        """
        self.begin(seed)
        record = {"step": 0, "losses": [], "validation": [], "seconds": 0.0, "compiling": 0.0}
        record["settings"] = json.loads(json.dumps(dataclasses.asdict(self.settings)))
        if state.exists():
            found = load_state(state, self.model, RECORD)
            if found.get("settings", record["settings"]) != record["settings"]:
                raise ValueError(
                    f"{state} was trained with other settings: delete it, or give another output."
                )
            record |= found
        while record["step"] < self.settings.steps and not self._on_plateau(record):
            started, compiled = time.perf_counter(), self.clock.compiling()
            first = record["step"]
            last = min(first + SEGMENT, self.settings.steps)
            # torch draws dropout from its global state, which no variable holds.
            set_random_seed((seed * 1_000_003 + first) % 2**32)
            losses = self.steps(seed, first, last)
            record["step"] = last
            record["losses"].append(round(statistics.fmean(losses), 6))
            record["validation"].append(round(self.validate(), 6))
            record["seconds"] += time.perf_counter() - started
            record["compiling"] += max(self.clock.compiling() - compiled, 0.0)
            save_state(state, self.model, record)
            print_line(
                f"step {last:,} of {self.settings.steps:,}, loss {record['validation'][-1]:.4f}"
            )
        return record

    def _on_plateau(self, record):
        patience = self.settings.patience
        return patience is not None and on_plateau(record["validation"], -(-patience // SEGMENT))

    def validate(self):
        """The loss on fresh samples of the trained lengths, the same at every call."""
        losses = []
        for length in self.trained_lengths:
            for logits, targets, mask in self._answers(self.task, length, VALIDATION, scored=0):
                counted = np.ones(mask.shape) if self.task.level else mask
                losses.append((cross_entropy(logits, targets) * counted).sum() / counted.sum())
        return float(np.mean(losses))

    def test(self, stream=TEST):
        """Measures the accuracy of the model on all splits, at the trained and the test lengths.

        Args:
            stream: which samples, `TEST` or `TRIAL_TEST`.

        Returns:
            A dict. `accuracy` maps splits to lengths to floats, and `scored` has the number of
            scored positions. For texts, `by_place` maps splits to lengths to `right` and `scored`:
            counts of positions, one for each span as long as the longest training text. Causal
            language models also have `by_context`, see `losses_by_context`.
        """
        scores = {name: {split: {} for split in self.splits} for name in ("accuracy", "scored")}
        if self.task.is_text:
            scores["by_place"] = {split: {} for split in self.splits}
        for split, task in self.splits.items():
            for length in sorted({*self.trained_lengths, *self.test_lengths}):
                batches = self._answers(task, length, stream, self.settings.test_scored)
                parts = [(logits.argmax(-1), *rest) for logits, *rest in batches]
                answers = tuple(np.concatenate(part) for part in zip(*parts, strict=True))
                scores["accuracy"][split][str(length)] = tasks.accuracy(*answers)
                scores["scored"][split][str(length)] = int(answers[2].sum())
                if task.is_text:
                    right, scored = tasks.right_by_span(*answers, max(self.train_lengths))
                    counts = {"right": right, "scored": scored}
                    scores["by_place"][split][str(length)] = counts
        if self.task.is_text and not self.task.bidirectional:
            scores["by_context"] = {
                split: self.losses_by_context(task, stream) for split, task in self.splits.items()
            }
        return scores

    def losses_by_context(self, task, stream):
        """Mean losses of the same tokens of a text, read with more and more of what precedes them.

        The tokens are the last of each window, a quarter of the longest trained length, so that
        the shortest context is about the longest that the training had.

        Args:
            task: a causal language model.
            stream: as in `test`.

        Returns:
            dict length of the read window -> nats a token: the longest trained length, and the test
            lengths beyond it.
        """
        trained = max(self.train_lengths)
        scored = -(-trained // 4)
        lengths = sorted({trained, *(n for n in self.test_lengths if n > trained)})
        count = max(self.settings.test_samples, -(-self.settings.test_scored // scored))
        tokens, targets, _ = task.sample(count, lengths[-1], (stream, lengths[-1], 0, 2))
        losses = {}
        for length in lengths:
            wide = width(length)
            rows, each = max(1, MOST_PLACES // wide), []
            for first in range(0, count, rows):
                batch = slice(first, first + rows)
                ids, answers = padded(task, tokens[batch, -length:], wide)
                with self.clock("test", ids.shape):
                    logits = self.model.predict_on_batch(ids)
                last = np.asarray(logits[:, answers], "float32")[:, -scored:]
                each.append(cross_entropy(last, targets[batch, -scored:]))
            losses[str(length)] = round(float(np.concatenate(each).mean()), 5)
        return losses

    def _answers(self, task, length, stream, scored):
        """Yields (logits at the answer, targets, mask) of batches of this length."""
        samples, places = self.settings.test_samples, places_of(task, length)
        # As wide as in training where that is wide enough: one program for all these lengths.
        wide = self.wide if places <= self.wide else width(places)
        # At least two batches, so that the time of compiling can be separated.
        rows = -(-max(samples, self.settings.test_scored) // 2)
        rows = max(1, min(rows, MOST_ROWS, MOST_PLACES // wide))
        batches = evaluation_batches(task, length, rows, samples, scored, stream, wide)
        for ids, answers, targets, mask in batches:
            with self.clock("test", ids.shape):
                logits = self.model.predict_on_batch(ids)
            yield np.asarray(logits[:, answers], "float32"), targets, mask

    def cost(self):
        """(seconds of a step; of the whole test; of compiling)."""
        for _ in range(3):
            self.steps(0, 0, 3)
        step = self.clock.steady("train", 3) / 3
        started, compiled = time.perf_counter(), self.clock.compiling()
        self.test(TRIAL_TEST)
        compiling = self.clock.compiling()
        return step, time.perf_counter() - started - (compiling - compiled), compiling


def spread(lengths, most=4):
    """At most `most` of these lengths, evenly spread, with the longest.

    Example:

    >>> spread(range(1, 41))
    [10, 20, 30, 40]
    """
    lengths = sorted(lengths)
    count = min(most, len(lengths))
    return [lengths[(i + 1) * len(lengths) // count - 1] for i in range(count)]


def on_plateau(losses, patience):
    """Whether none of the last `patience` losses is less than those before by over 1% and 0.001.

    Example:

    >>> on_plateau([0.7, 0.5, 0.499, 0.498], patience=2), on_plateau([0.7, 0.5, 0.4], patience=2)
    (True, False)
    """
    before, last = losses[:-patience], losses[-patience:]
    return bool(before) and min(last) >= 0.99 * min(before) - 0.001


def cross_entropy(logits, targets):
    """-log p of the targets (B, O) under logits (B, O, C), in NumPy."""
    logits = logits - logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - chosen


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
