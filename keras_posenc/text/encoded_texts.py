"""The tokens and labels of all texts as arrays, in memory or mapped from files."""

import contextlib
import dataclasses
import json
import pathlib

import numpy as np

from keras_posenc.files.untrusted import read_json
from keras_posenc.files.writing import write_text
from keras_posenc.processes.together import counted_from
from keras_posenc.text.documents import check_list, encode_apart, encode_rows, kind_of_all

ARRAYS = ("token_ids", "segment_ids", "position_ids", "row_lengths", "text_of", "lengths")


@dataclasses.dataclass(frozen=True)
class EncodedTexts:
    """What `TextBatches` keeps of its texts."""

    token_ids: np.ndarray  # (N,) int32; the rows one after the other
    segment_ids: np.ndarray
    position_ids: np.ndarray | None  # (N,) int32; None if no row has any
    row_lengths: np.ndarray  # (R,) ints; the tokens of each row
    text_of: np.ndarray  # ints; the number of the text of each row; of tuples, of each tuple
    lengths: np.ndarray  # ints; the tokens of each text before truncation
    sides: int | None  # how many texts, and so rows, a tuple has
    entries: object  # what `Labels.encode` returned, or `EntriesOnDisk`
    rows: list | None = None  # `Row`s; None if the labels do not need their offsets


def encode_texts(texts, labels, tokenizer, max_length=None, stride=None, apart=False):
    """Encodes texts of any accepted kind, and their labels.

    `texts`, `tokenizer`, `max_length`, `stride`, `apart`: as in `TextBatches`. Returns
    `EncodedTexts`.
    """
    check_list(texts)
    labels.check_count(len(texts))
    if apart:
        rows, lengths, sides = encode_apart(texts, tokenizer, max_length, stride)
    else:
        encoded = encode_rows(texts, tokenizer, max_length, stride, labels.needs_offsets)
        (rows, lengths), sides = encoded, None
    firsts = rows[:: sides or 1]
    return EncodedTexts(
        np.concatenate([np.asarray(row.token_ids, "int32") for row in rows]),
        np.concatenate([np.asarray(row.segment_ids, "int32") for row in rows]),
        _position_ids(rows),
        np.array([len(row.token_ids) for row in rows]),
        np.array([row.text for row in firsts]),
        lengths,
        sides,
        labels.encode(texts, rows if labels.of_sides else firsts),
        rows if labels.needs_offsets else None,
    )


def _position_ids(rows):
    """The position ids of all rows one after the other, or None if none has any."""
    if all(row.position_ids is None for row in rows):
        return None
    ids = [
        range(len(row.token_ids)) if row.position_ids is None else row.position_ids for row in rows
    ]
    return np.concatenate([np.asarray(each, "int32") for each in ids])


def encode_parts(texts, size, encode, one_kind=True):
    """Encodes a long list a part at a time.

    `size`: texts of a part. `encode`: function of a list of texts and the slice that it is, which
    returns `EncodedTexts`, or None if the part has no tokens. `one_kind`: whether all parts must
    have one kind of texts. Yields what `encode` returns, without None.
    """
    kinds = set()
    for start in range(0, len(texts), size):
        part = slice(start, min(start + size, len(texts)))
        try:
            values = texts[part]
            kinds |= {kind_of_all(values, part.start)} if one_kind else set()
            with counted_from(part.start):
                encoded = encode(values, part)
        except (TypeError, ValueError) as error:
            where = f"texts {part.start:,} to {part.stop - 1:,}"
            raise type(error)(f"Among {where}, numbered from 0: {error}") from None
        if len(kinds) > 1:
            raise TypeError(
                f"Texts of several kinds, {' and '.join(sorted(kinds))}: give one kind."
            )
        if encoded is not None:
            yield encoded


def write_encoded(folder, parts):
    """Writes the arrays of `EncodedTexts`, one after the other, into files of a folder.

    `folder`: path of an empty folder. `parts`: iterable of `EncodedTexts` of one kind.
    """
    texts, sides, is_plain = 0, None, True
    with _ArrayWriter(folder) as writer:
        for part in parts:
            numbered = dataclasses.replace(part, text_of=part.text_of + texts)
            texts, sides = texts + len(part.lengths), part.sides
            for name in ARRAYS:
                if getattr(numbered, name) is not None:
                    writer.append(name, getattr(numbered, name))
            if isinstance(part.entries, np.ndarray):
                writer.append("entries", part.entries)
            elif part.entries is not None:
                is_plain = False
                for number, column in enumerate(zip(*part.entries, strict=True)):
                    if isinstance(column[0], np.ndarray):  # of as many numbers as the row needs
                        writer.append(f"counts{number}", np.array([len(cell) for cell in column]))
                        column = np.concatenate(column)
                    writer.append(f"column{number}", np.asarray(column))
    if not texts:
        raise ValueError("The texts have no tokens to learn from.")
    record = {"arrays": writer.kinds, "sides": sides, "entries": is_plain}
    write_text(pathlib.Path(folder) / "arrays.json", json.dumps(record))


class _ArrayWriter(contextlib.ExitStack):
    """Files of arrays that grow along their first axis, closed at the end."""

    def __init__(self, folder):
        super().__init__()
        self._folder, self._files, self.kinds = pathlib.Path(folder), {}, {}

    def append(self, name, array):
        if name not in self._files:
            self._files[name] = self.enter_context(open(self._folder / f"{name}.bin", "wb"))
            self.kinds[name] = [array.dtype.str, 0, *array.shape[1:]]
        self.kinds[name][1] += len(array)
        self._files[name].write(np.ascontiguousarray(array, self.kinds[name][0]).tobytes())


def open_encoded(folder):
    """`EncodedTexts` of what `write_encoded` wrote: memory maps, of which only
    what is needed is read."""
    found = read_json(folder / "arrays.json", ("arrays", "sides", "entries"))
    arrays = {
        # A plain view: each access to a memmap makes an object of Python.
        name: np.asarray(np.memmap(folder / f"{name}.bin", dtype, "r", shape=tuple(shape)))
        for name, (dtype, *shape) in found["arrays"].items()
    }
    entries = arrays.get("entries")
    if not found["entries"]:
        entries = EntriesOnDisk(arrays)
    return EncodedTexts(*map(arrays.get, ARRAYS), found["sides"], entries)


class EntriesOnDisk:
    """Entries of labels that are tuples, of arrays as long as the row needs or of numbers.

    `arrays`: dict of `column0`, `column1`, ..., and `counts0`, ... where the length differs.
    """

    def __init__(self, arrays):
        names = [name for name in arrays if name.startswith("column")]
        self._columns = [arrays[f"column{number}"] for number in range(len(names))]
        counts = [arrays.get(f"counts{number}") for number in range(len(names))]
        self._ends = [None if each is None else np.append(0, np.cumsum(each)) for each in counts]
        self._count = len(self._columns[0] if counts[0] is None else counts[0])

    def __len__(self):
        return self._count

    def __getitem__(self, row):
        if not 0 <= row < self._count:  # which ends a loop
            raise IndexError(row)
        return tuple(
            column[row] if ends is None else column[ends[row] : ends[row + 1]]
            for column, ends in zip(self._columns, self._ends, strict=True)
        )
