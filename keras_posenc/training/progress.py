"""Lines about where a run stands and how long it will still take."""

import sys
import time

# Seconds between two lines: a file or a pipe keeps all of them.
TO_A_TERMINAL, TO_A_FILE = 5, 60


def printer(verbose):
    """Returns the function that reports progress: `print`, without a delay, or nothing."""
    return (lambda words: print(words, flush=True)) if verbose else lambda words: None


class Progress:
    """Reports the first step of a call, the last of the run, and those between now and then.

    Args:
        total: int, the steps of the whole run.
        done: int, the steps of earlier calls.
        print_line: function of str.
        reports_steps: bool. False beside a bar of Keras, which a line in between would break.
        unit: str, what a step is called.
    """

    def __init__(self, total, done, print_line, reports_steps=True, unit="step"):
        self.unit = unit
        self.total, self.done, self.print_line, self.reports_steps = (
            total,
            done,
            print_line,
            reports_steps,
        )
        self.every = TO_A_TERMINAL if sys.stdout and sys.stdout.isatty() else TO_A_FILE
        self.taken, self.started, self.last_report = 0, time.perf_counter(), None

    def step(self, loss=None):
        """Counts one step, and reports it if it is time for a line."""
        self.done, self.taken, now = self.done + 1, self.taken + 1, time.perf_counter()
        if self.taken == 1:
            self.first_ended = now
        is_due = (
            self.last_report is None
            or now - self.last_report >= self.every
            or self.done == self.total
        )
        if is_due and self.reports_steps:
            self.last_report = now
            words = "" if loss is None else f"loss {loss:.4f}, "
            self.print_line(f"{self.unit} {self.done:,} of {self.total:,}, {words}{self.times()}")

    def epoch(self, number, epochs, words):
        """Reports the end of an epoch, with `words` about it."""
        self.print_line(f"epoch {number} of {epochs}: {words}{self.times()}")

    def times(self):
        """How long this call has run, and how long the whole run will still take."""
        now = time.perf_counter()
        left = (now - self.started) / self.taken
        if self.taken > 1:  # the first step has compiled the model
            left = (now - self.first_ended) / (self.taken - 1)
        left *= self.total - self.done
        return f"{_duration(now - self.started)} so far, about {_duration(left)} left"


def _duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
