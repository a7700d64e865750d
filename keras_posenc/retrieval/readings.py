"""How a long text is read: whole, in chunks, or in chunks that know the rest of the text."""

import dataclasses
import hashlib

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.text.documents import check_list


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Reads all of a text, in chunks that are encoded apart from each other.

    The vector of a text is the mean of those of its chunks, weighted by their tokens. A
    cross-encoder reads the query before each chunk, and the score is the maximum over the chunks.

    Args:
        size: int. Tokens of a chunk, special tokens and the query included.
        overlap: int. Tokens that neighbouring chunks share.

    Example:

    >>> str(Chunks(256, overlap=32))
    'chunks:256,overlap=32'
    """

    size: int
    overlap: int = 0

    def __post_init__(self):
        checks.whole("chunks", self.size)
        checks.whole("overlap", self.overlap, least=0, most=self.size - 1)

    def __str__(self):
        return _short("chunks", self)


@dataclasses.dataclass(frozen=True)
class LateChunks:
    """Late chunking: a vector per chunk, with the whole text as its context.

    Args:
        size: int. Maximum number of tokens of a chunk, without special tokens (see `chunk_spans`).
        overlap: int, at most half of `size`. Tokens that neighbouring chunks share.

    Example:

    >>> str(LateChunks(256))
    'late:256'

    Reference: [Late chunking](https://arxiv.org/abs/2409.04701).
    """

    size: int
    overlap: int = 0

    def __post_init__(self):
        checks.whole("chunks", self.size)
        checks.whole("overlap", self.overlap, least=0, most=self.size // 2)

    def __str__(self):
        return _short("late", self)


@dataclasses.dataclass(frozen=True, eq=False)
class LateSpans:
    """Late chunking of spans that you choose, such as sentences.

    Args:
        spans: list with one list of (start, end) per text, in characters.

    Example:

    >>> reading = LateSpans([[(0, 17), (18, 43)]])
    >>> len(reading.part(slice(0, 1)).spans)
    1
    """

    spans: list

    def __post_init__(self):
        check_list(self.spans, "spans")

    def part(self, rows):
        """The same for some of the texts.

        Args:
            rows: slice.
        """
        return LateSpans(self.spans[rows])

    def __str__(self):
        places = [np.asarray(of_text, int).tolist() for of_text in self.spans]
        return f"spans:{hashlib.sha256(repr(places).encode()).hexdigest()[:16]}"


LATE = (LateChunks, LateSpans)
WAYS = {"whole": None, "chunks": Chunks, "late": LateChunks}


def reading_of(given):
    """Returns the reading that a value describes.

    Args:
        given: None or "whole"; `Chunks`, `LateChunks` or `LateSpans`; or a str such as
            "chunks:256", "late:256" or "late:256,overlap=64".

    Returns:
        `Chunks`, `LateChunks`, `LateSpans`, or None for texts read whole, up to a maximum length.
    """
    if given is None or isinstance(given, (Chunks, *LATE)):
        return given
    if not isinstance(given, str):
        raise TypeError(
            "`reading` must be Chunks, LateChunks, LateSpans, or a str such as 'chunks:256' or "
            f"'late:256'. Received: {given!r}"
        )
    name, _, rest = given.partition(":")
    kind = WAYS[checks.choice("reading", name, tuple(WAYS))]
    numbers, wrong = [], f"like 'whole', 'chunks:256' or 'late:256,overlap=64'. Received: {given!r}"
    try:
        numbers = [int(part) for part in rest.replace("overlap=", "", 1).split(",") if rest]
    except ValueError:
        raise ValueError(f"`reading` must be {wrong}") from None
    if len(numbers) not in ((0,) if kind is None else (1, 2)):
        raise ValueError(f"`reading` must be {wrong}")
    return None if kind is None else kind(*numbers)


def is_late(reading):
    """Whether a reading gives a vector per chunk."""
    return isinstance(reading, LATE)


def _short(name, reading):
    overlap = f",overlap={reading.overlap}" if reading.overlap else ""
    return f"{name}:{reading.size}{overlap}"
