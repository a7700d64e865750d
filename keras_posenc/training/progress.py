"""Lines about where a run stands and how long it will still take."""

import sys
import time

import keras

from keras_posenc import backend

# Seconds between two lines: a file or a pipe keeps all of them.
TO_A_TERMINAL, TO_A_FILE = 5, 60
SHORT = 10  # seconds: predictions that take less report nothing


def printer(verbose, to_errors=False):
    """Returns the function that reports progress: `print`, without a delay, or nothing.

    `to_errors` prints to the standard error, because the output is the result.
    """

    def print_line(words):
        print(words, flush=True, file=sys.stderr if to_errors else sys.stdout)

    return print_line if verbose else lambda words: None


class Progress:
    """Reports the first step of a call, the last of the run, and those between now and then.

    Args:
        total: int, the steps of the whole run.
        done: int, the steps of earlier calls.
        print_line: function of str.
        reports_steps: bool. False beside a bar of Keras, which a line in between would break.
        in_epochs: bool. The last step has no line, because `epoch` reports the end.
        unit: str, what a step is called.
        after: float. Seconds before the first line; a shorter run has none.
        sizes: list with a number per step, to which its time is proportional. Default: all alike.
    """

    def __init__(
        self,
        total,
        done,
        print_line,
        reports_steps=True,
        unit="step",
        after=0,
        sizes=None,
        in_epochs=False,
    ):
        self.in_epochs = in_epochs
        self.unit, self.after, self.sizes = unit, after, [1] * total if sizes is None else sizes
        self.total, self.done = total, done
        self.print_line, self.reports_steps = print_line, reports_steps
        self.every = TO_A_TERMINAL if sys.stdout and sys.stdout.isatty() else TO_A_FILE
        self.started, self.last_report = time.perf_counter(), None
        self.resumed, self.taken, self.last_end = bool(done), 0, self.started
        # Of steps that compile nothing, since the others take no such time again.
        self.seconds = self.measured = 0
        self.compiled, self.compiles = set(), False

    def begin(self):
        """Announces that the next step compiles a program, which may take minutes."""
        size = self.sizes[self.done]
        self.compiles = not backend.TRAITS.eager and size not in self.compiled
        if not self.compiles:
            return
        if not self.compiled:
            self.print_line("compiling the first step")
        elif self.reports_steps:
            self.print_line(f"compiling for batches of {size:,} tokens")

    def step(self, loss=None):
        """Counts one step, and reports it if it is time for a line."""
        now, size = time.perf_counter(), self.sizes[self.done]
        if not self.compiles:
            if self.taken == 1:  # the first step warmed up: it counts only until there is another
                self.seconds = self.measured = 0
            self.seconds, self.measured = self.seconds + now - self.last_end, self.measured + size
        self.compiled.add(size)
        self.done, self.taken, self.last_end = self.done + 1, self.taken + 1, now
        is_last = self.done == self.total
        if self.last_report is None:
            is_due = now - self.started >= self.after
        else:
            is_due = is_last or now - self.last_report >= self.every
        is_due = is_due and not (is_last and self.in_epochs)
        if is_due and self.reports_steps:
            self.last_report = now
            words = "" if loss is None else f"loss {loss:.4f}, "
            self.print_line(f"{self.unit} {self.done:,} of {self.total:,}, {words}{self.times()}")

    def epoch(self, number, epochs, words):
        """Reports the end of an epoch, with `words` about it."""
        self.last_report = time.perf_counter()
        self.print_line(f"epoch {number} of {epochs}: {words}{self.times()}")

    def times(self):
        """How long this call has run, and how long the whole run will still take, if it will."""
        passed = _duration(time.perf_counter() - self.started)
        if self.done == self.total:
            return f"{passed} {'since it was resumed' if self.resumed else 'in all'}"
        if not self.measured:
            return f"{passed} so far"
        left = self.seconds / self.measured * sum(self.sizes[self.done :])
        return f"{passed} so far, about {_duration(left)} left"


class BatchProgress(keras.callbacks.Callback):
    """Reports the batches that a model has predicted: a bar of Keras, or lines on the standard
    error, which the results in the output do not mix with.

    `verbose` 1 and "auto" draw a bar; 2 prints a line per minute, with the time left.
    """

    def __init__(self, batches, verbose):
        super().__init__()
        if verbose == 2:
            options = {"unit": "batch", "after": SHORT, "sizes": batches.batch_tokens}
            print_line = printer(verbose, to_errors=True)
            self.step = Progress(len(batches), 0, print_line, **options).step
        else:
            bar = keras.utils.Progbar(len(batches), verbose=1 if verbose == "auto" else verbose)
            self.step = lambda: bar.add(1)

    def on_predict_batch_end(self, batch, logs=None):
        self.step()

    def on_test_batch_end(self, batch, logs=None):
        self.step()


def _duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
