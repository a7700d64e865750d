"""Lists on disk: texts, labels and line numbers of which nothing stays in memory."""

import collections.abc
import hashlib
import json
import os
import pathlib
import shutil

import numpy as np

from keras_posenc.files.untrusted import read_json
from keras_posenc.files.writing import (
    alone,
    clear_partials,
    make_folder,
    named,
    temporary_folder,
    write_text,
)


class DiskList(collections.abc.Sequence):
    """A list of values that JSON can hold, or of tuples, in two files of a folder.

    `folder`: path of the folder. name: str, as `DiskListWriter` was given it. `order`: int array or
    None. The numbers of the values that are in the list; None for all.
    """

    def __init__(self, folder, name, order=None):
        self.folder, self.order, self._name = pathlib.Path(folder), order, name
        self._ends = np.load(self.folder / f"{name}.npy", mmap_mode="r")
        self._data = np.memmap(self.folder / f"{name}.json", np.uint8, "r")

    def __len__(self):
        return len(self._ends) - 1 if self.order is None else len(self.order)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        number = number if self.order is None else self.order[number]
        start, end = self._ends[number : number + 2]
        content = self._data[start:end].tobytes()
        return json.loads(content, object_hook=lambda entry: tuple(entry["tuple"]))

    def take(self, indices):
        """The list of the values with these numbers, still on disk."""
        indices = np.asarray(indices)
        order = indices if self.order is None else self.order[indices]
        return DiskList(self.folder, self._name, order)


class DiskListWriter:
    """Writes the files of a `DiskList`, as a context.

    `folder`: path of a folder. name: str, of the files.
    """

    def __init__(self, folder, name):
        self._path = pathlib.Path(folder) / f"{name}.json"

    def __enter__(self):
        self._file, self._ends = open(self._path, "wb"), [np.zeros(1, "int64")]
        return self

    def extend(self, values):
        """Appends values."""
        lines = [_encoded(value) for value in values]
        self._file.write(b"".join(lines))
        self._ends.append(self._ends[-1][-1] + np.cumsum([len(line) for line in lines], dtype=int))

    def __exit__(self, *error):
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        np.save(self._path.with_suffix(".npy"), np.concatenate(self._ends))


def take(values, indices):
    """The values with these numbers: a `DiskList` of one, else a list."""
    return values.take(indices) if isinstance(values, DiskList) else [values[i] for i in indices]


def built_once(folder, name, record, build):
    """A folder whose files are written whole or not at all.

    They are written again if the record has changed, or if one of them is not as long as it was.
    `folder`: path of the folder that it lies in, created if missing. `record`: dict that JSON can
    hold: what decides the content. `build`: function of the path of an empty folder, which it
    fills. Other processes wait for it.
    """
    folder = make_folder(folder)
    target = folder / name
    with alone(folder):
        clear_partials(folder)
        if not _is_same(target, record):
            with temporary_folder(folder) as place, named(target):
                made = place / name
                made.mkdir()
                build(made)
                made_of = {"record": record, "sizes": _sizes(made)}
                write_text(made / "record.json", json.dumps(made_of, indent=1))
                shutil.rmtree(target, ignore_errors=True)
                os.rename(made, target)
    return target


def fingerprint_of(value):
    """A short fingerprint of a value that JSON can hold."""
    content = json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


def _is_same(target, record):
    try:
        made_of = read_json(target / "record.json", ("record", "sizes"))
    except (FileNotFoundError, ValueError):
        return False
    sizes = {name: size for name, size in _sizes(target).items() if name != "record.json"}
    same = made_of["record"] == json.loads(json.dumps(record))
    return same and made_of["sizes"] == sizes


def _sizes(folder):
    """The bytes of each file of a folder."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def _encoded(value):
    text = json.dumps(_with_tuples(value), ensure_ascii=False, default=lambda number: number.item())
    return text.encode("utf-8", "surrogatepass")


def _with_tuples(value):
    """A value in which a tuple is {"tuple": list}, since JSON has lists alone."""
    if isinstance(value, (list, tuple)):
        parts = [_with_tuples(part) for part in value]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    return value
