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
class Passages:
    """A vector per chunk, which is read alone, behind its title if there are titles.

    Args:
        size: int. Maximum number of tokens of a chunk, without special tokens (see `chunk_spans`).
        overlap: int, at most half of `size`. Tokens that neighbouring chunks share.
        titles: str, the column of a file that has the title of each text; "auto" is headings or
            title. Or a list with a title per text: a str, or the headings in the text as a list of
            (start in characters, title), where chunks are cut, too. Default: none.

    Example:

    >>> str(Passages(256, titles="title"))
    'passages:256,titles=title'
    """

    size: int
    overlap: int = 0
    titles: str | list | None = None

    def __post_init__(self):
        checks.whole("chunks", self.size)
        checks.whole("overlap", self.overlap, least=0, most=self.size // 2)
        if self.titles is not None and not isinstance(self.titles, str):
            check_list(self.titles, "titles")
            titles = getattr(self.titles, "tolist", lambda: list(self.titles))()
            object.__setattr__(self, "titles", titles)

    def part(self, rows):
        """The same for some of the texts: those of `rows`, a slice."""
        return dataclasses.replace(self, titles=self.titles[rows])

    def check(self, count):
        """Refuses a list of titles that are not one per text of so many texts."""
        if len(self.titles) != count:
            raise ValueError(
                f"`titles` must have one title per text. Received: {len(self.titles)} titles for "
                f"{count} texts"
            )

    def __str__(self):
        return _short("passages", self)


@dataclasses.dataclass(frozen=True)
class LateChunks(Passages):
    """Late chunking: a vector per chunk, with the whole text as its context.

    With windows, the vector of a chunk is the sum of two, each of length 1, at length 1: that of
    the chunk in its whole text, and that of the chunk in a window of the text. With titles, that of
    the chunk read alone behind its title is added in the same way. The sum is stored and searched
    as any other vector.

    Args:
        size, overlap, titles: as in `Passages`.
        windows: int, less than `max_length` of the embedder, with room for `size`, the special
            tokens and the prompt. Tokens of the windows, such as 512. Default: none.

    Example:

    >>> str(LateChunks(256)), str(LateChunks(256, titles="title", windows=512))
    ('late:256', 'late:256,titles=title,windows=512')

    Reference: [Late chunking](https://arxiv.org/abs/2409.04701).
    """

    windows: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.windows is not None:
            checks.whole("windows", self.windows, least=self.size, why="a window holds a chunk")

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
        for number, of_text in enumerate(self.spans):
            check_list(of_text, f"spans[{number}]")

    def check(self):
        """Refuses spans of all texts that are none; those of a part of them may be."""
        if len(self.spans) and not any(map(len, self.spans)):
            raise ValueError("`spans` must have at least one span. Received none.")

    def part(self, rows):
        """The same for some of the texts: those of `rows`, a slice."""
        return LateSpans(self.spans[rows])

    def __str__(self):
        places = [np.asarray(of_text, int).tolist() for of_text in self.spans]
        return f"spans:{_digest(places)}"


PER_CHUNK = (Passages, LateSpans)  # with a vector per chunk
ENDS = "ends"
WAYS = {"whole": None, ENDS: None, "chunks": Chunks, "late": LateChunks, "passages": Passages}


def reading_of(given):
    """Returns the reading that a value describes, such as "chunks:256" or
    "late:256,overlap=64,windows=512". Up to a maximum length, texts are read whole; of longer ones
    the beginning is read, for None, or half of it and of the end, for "ends"."""
    if given is None or given == ENDS or isinstance(given, (Chunks, *PER_CHUNK)):
        return given
    if not isinstance(given, str):
        raise TypeError(
            "`reading` must be Chunks, LateChunks, LateSpans, or a str such as 'chunks:256' or "
            f"'late:256'. Received: {given!r}"
        )
    name, _, rest = given.partition(":")
    kind = WAYS[checks.choice("reading", name, tuple(WAYS))]
    wrong = (
        "`reading` must be like 'whole', 'ends', 'chunks:256' or 'late:256,overlap=64'. Received: "
        f"{given!r}"
    )
    size, *parts = rest.split(",")
    options = {}
    for part in parts:
        key, equal, value = (each.strip() for each in part.partition("="))
        key, value = (key, value) if equal or key == "titles" else ("overlap", key)
        options[key] = (value or "auto") if key == "titles" else value
    known = set() if kind is None else {each.name for each in dataclasses.fields(kind)} - {"size"}
    if not options.keys() <= known or (kind is None) != (not size):
        raise ValueError(wrong)
    if kind is None:
        return None
    try:
        options |= {key: int(value) for key, value in options.items() if key != "titles"}
        size = int(size)
    except ValueError:
        raise ValueError(wrong) from None
    return kind(size, **options)


def _digest(lists):
    return hashlib.sha256(repr(lists).encode()).hexdigest()[:16]


def _short(name, reading):
    options = {key: getattr(reading, key, None) for key in ("overlap", "titles", "windows")}
    if isinstance(options["titles"], list):
        options["titles"] = _digest(options["titles"])
    given = (f",{key}={value}" for key, value in options.items() if value not in (None, 0))
    return f"{name}:{reading.size}{''.join(given)}"
