"""Truncation, and that it is never silent."""

import contextlib
import contextvars
import functools
import logging

import numpy as np

# A line of the log instead of a warning: `max_length` was requested, or is the default. A program
# that treats warnings as errors should not end because one text of many is long. Without a logging
# setup, Python prints it to stderr.
LOGGER = logging.getLogger("keras_posenc")
_LOGS = contextvars.ContextVar("logs", default=True)


PLACES = "right", "left", "middle"


def truncate(parts, room, truncate_from="right"):
    """Drops tokens from the longer part (the first if equal) until `room` are left.

    `parts`: one or two lists. `room`: maximum number of elements of both together. `truncate_from`:
    where a part is cut: at its end, its beginning or in the middle. Returns the shortened parts.
    """
    lengths = [len(part) for part in parts]
    if sum(lengths) <= room:
        return parts
    if len(parts) == 1:
        keep = [room]
    else:
        half = room // 2
        first = min(lengths[0], max(half, room - lengths[1]))
        keep = [first, room - first]
    last = {"right": 0, "left": 1, "middle": 0.5}[truncate_from]  # share of the tokens at the end
    ends = [int(n * last) if n < len(part) else 0 for part, n in zip(parts, keep, strict=True)]
    return [
        part[: n - end] + part[len(part) - end :]
        for part, n, end in zip(parts, keep, ends, strict=True)
    ]


@contextlib.contextmanager
def unlogged_truncation(condition):
    """Logs no truncation inside, if `condition` holds: the rest of the texts is read elsewhere."""
    before = _LOGS.set(not condition)
    try:
        yield
    finally:
        _LOGS.reset(before)


def tell_truncation(lengths, max_length):
    """Logs how many texts are truncated, and what share of all tokens goes; nothing if none is.

    The same line is logged once in a process, so that what is evaluated after every epoch reports
    it once. `lengths`: (N,) numbers of tokens before truncation. Returns bool, whether a text is
    truncated.
    """
    lengths = np.asarray(lengths)
    cut = 0 if max_length is None else int((lengths > max_length).sum())
    if cut and _LOGS.get():
        share = np.maximum(lengths - max_length, 0).sum() / lengths.sum()
        share = f"{share:.1%}" if share >= 0.0005 else "less than 0.1%"
        _log(
            f"{cut:,} of {len(lengths):,} texts are longer than max_length={max_length}: {share} "
            f"of all tokens are cut off. The longest has {lengths.max():,} tokens. To read all of "
            "a text, raise `max_length`, or read it in chunks: give `chunks` to predict and "
            f'evaluate, reading="chunks:{max_length}" to embed.'
        )
    return cut > 0


@functools.lru_cache(maxsize=1024)
def _log(line):
    LOGGER.warning(line)
