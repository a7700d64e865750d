"""Texts that are read a part at a time, so that a corpus may be larger than memory."""

import itertools
import os

from keras_posenc.text.documents import is_list, kind_of_all
from keras_posenc.text.file_parts import file_parts, streamed
from keras_posenc.text.files import read_texts

ROWS = 256  # that are read together


class TextStream:
    """Texts of a file or of a list, of which a part is in memory at a time.

    A .txt, .jsonl, .csv, .tsv or .parquet file is read once as a whole to count and check its rows,
    and again for the parts. Other files are read whole, as `read_texts` does.

    `source`: A path, or a sequence of texts that can be sliced: a list, or a column of a data set
    on disk. `text`: Name of the column of texts, or a tuple of names, as in `read_texts`. Raises
    FileNotFoundError, ValueError as `read_texts` does, for any line of the file.
    """

    def __init__(self, source, text=None):
        self._path = None
        if isinstance(source, (str, os.PathLike)):
            self._path, self._column = streamed(source), text
            if self._path is None:
                source = read_texts(source, text=text, label=False).texts
        elif not is_list(source):
            raise TypeError(
                "texts must be a path, or a list or another sequence that can be sliced: their "
                f"number must be known. Received: {type(source).__name__}"
            )
        self._texts = source
        self._count = sum(1 for _ in self._rows()) if self._path else len(source)

    def __len__(self):
        return self._count

    def check(self):
        """Checks the texts of a list, as those of a file were when they were counted."""
        if self._path is None:
            for first in range(0, max(1, self._count), ROWS):
                kind_of_all(list(self._texts[first : first + ROWS]), first)

    def parts(self, size, start=0, stop=None):
        """Yields lists of texts, in their order.

        `size`: int. Texts in a part; the last may have fewer. `start`, `stop`: ints. The first
        text, and the one after the last; None for all.
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
        for part in file_parts(self._path, ROWS):
            yield from read_texts(part, text=self._column, label=False).texts
