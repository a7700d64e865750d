"""Texts that are read a part at a time, so that a corpus may be larger than memory."""

import itertools
import os

from keras_posenc.text.files import existing, jsonl_row, read_texts, text_columns, text_in
from keras_posenc.untrusted import check_pointer

# What a line is a row of. Other files are read whole.
STREAMED = (".txt", ".jsonl")


class TextStream:
    """Texts of a file or of a list, of which a part is in memory at a time.

    A .txt or .jsonl file is read line by line: once as a whole to count and check it, and again for
    the parts. Other files are read whole, as `read_texts` does.

    Args:
        source: A path, or a sequence of texts that can be sliced: a list, or a column of a data
            set on disk.
        text: Name of the column of texts, or a tuple of names, as in `read_texts`.

    Raises:
        FileNotFoundError, ValueError: as `read_texts` does, for any line of the file.
        TypeError: if `source` has no length.

    Example:

    >>> with open("lines.txt", "w") as file:
    ...     _ = file.write("One.\\nTwo.\\nThree.\\n")
    >>> texts = TextStream("lines.txt")
    >>> len(texts), list(texts.parts(2))
    (3, [['One.', 'Two.'], ['Three.']])
    """

    def __init__(self, source, text=None):
        self._path = None
        if isinstance(source, (str, os.PathLike)):
            path = existing(source)
            if path.suffix.lower() in STREAMED and not _has_old_lines(path):
                self._path, self._column = path, text
            else:
                source = read_texts(path, text=text, label=False).texts
        elif not hasattr(source, "__len__"):
            raise TypeError(
                "texts must be a path, or a list or another sequence that can be sliced: their "
                f"number must be known. Received: {type(source).__name__}"
            )
        self._texts = source
        self._count = sum(1 for _ in self._rows()) if self._path else len(source)

    def __len__(self):
        return self._count

    def parts(self, size, start=0, stop=None):
        """Yields lists of texts, in their order.

        Args:
            size: int. Texts in a part; the last may have fewer.
            start, stop: ints. The first text, and the one after the last; None for all.
        """
        stop = self._count if stop is None else stop
        if self._path is None:
            for place in range(start, stop, size):
                yield list(self._texts[place : min(place + size, stop)])
            return
        texts = itertools.islice(self._rows(), start, stop)
        while part := list(itertools.islice(texts, size)):
            yield part

    def _rows(self):
        read = _jsonl if self._path.suffix.lower() == ".jsonl" else _txt
        is_empty = True
        for text in read(self._path, self._column):
            is_empty = False
            yield text
        if is_empty:
            raise ValueError(f"{self._path} is empty.")


def _has_old_lines(path):
    """Whether lines may end in carriage returns alone, which no reading by lines finds."""
    with open(path, "rb") as file:
        first = file.readline()
    return b"\r" in first.rstrip(b"\r\n")


def _lines(path):
    """(number from 1, line) of a file in UTF-8; errors name the byte."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                check_pointer(path, line)
                if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError(f"{path}, line 1: this is UTF-16; convert the file to UTF-8.")
            try:
                words = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}, byte {error.start + 1}: 0x{line[error.start]:02x} is "
                    "not UTF-8; convert the file to UTF-8."
                ) from None
            yield number, words.removesuffix("\n").removesuffix("\r").lstrip("\ufeff")


def _txt(path, column):
    text_columns(path, column, ["text"], {})
    blank = []  # lines that are none if nothing follows
    for number, line in _lines(path):
        if not line:
            blank.append(number)
            continue
        for place in blank[:1]:
            text_in(path, place, {"text": ""}, "text")
        texts = text_in(path, number, {"text": line}, "text")
        yield (texts,) if isinstance(column, tuple) else texts


def _jsonl(path, column):
    names = None
    for number, line in _lines(path):
        if not line.strip():
            continue
        row = jsonl_row(path, number, line)
        names = names or text_columns(path, column, list(row), {})
        texts = tuple(text_in(path, number, row, name) for name in names)
        yield texts if isinstance(column, tuple) else texts[0]
