"""Reads the files of vectors that `embed` writes."""

import numpy as np

from keras_posenc.checkpoints.numpy_files import read_npy, read_npz
from keras_posenc.files.untrusted import quote
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.text.decoding import existing
from keras_posenc.text.file_parts import file_parts

SUFFIXES = (".npy", ".npz", ".jsonl", ".parquet")
KINDS = {"vector": "f4", "vectors": "f4", "indices": "i4"}  # of columns, of which a file has one
COLUMNS = (*KINDS, "values", "start", "end")
ROWS = 256  # that are read together
# The class whose fields an .npz file has, by the names of its arrays.
CLASSES = {
    ("ends", "starts", "texts", "vectors"): ChunkVectors,
    ("offsets", "vectors"): MultiVectors,
    ("indices", "offsets", "size", "values"): SparseVectors,
}


def read_vectors(path):
    """Reads what `embed` has written: an array, `ChunkVectors`, `MultiVectors` or `SparseVectors`,
    and (ids, name, places) of a file with a row per vector, else None."""
    if not path.exists() and path.with_name(f"{path.name}.parts").exists():
        raise FileNotFoundError(
            f"{path} is not complete: give the same call of `embed` again, which continues after "
            "its last part."
        )
    path = path if path.is_dir() else existing(path)
    if path.is_dir() or path.suffix not in SUFFIXES:
        raise ValueError(
            f"`vectors` must be a {', '.join(SUFFIXES)} file that `embed` wrote. Received: "
            f"{str(path)!r}"
        )
    if path.suffix in (".jsonl", ".parquet"):
        return _table(path)
    return _arrays(path), None


def _arrays(path):
    """The array of an .npy file, or the object whose fields an .npz file has."""
    try:
        if path.suffix == ".npy":
            return read_npy(path)
        found = read_npz(path)
        kind = CLASSES.get(tuple(sorted(found)))
        if kind is None:
            raise ValueError(f"it has the arrays {', '.join(found)}")
        return kind(**found)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged, or is no file that `embed` wrote ({quote(str(error))}): embed the "
            "texts again."
        ) from None


def _table(path):
    """What `read_vectors` returns of a file with a row per vector."""
    ids, places, columns, has_places = [], [], None, False
    numbers, values, counts = bytearray(), bytearray(), []
    for part in file_parts(path, ROWS):
        for line, row in part.rows:
            if columns is None:
                columns, has_places = _columns(path, part.columns), "start" in part.columns
            name, kind = columns
            try:
                ids.append(row[name])
                found = np.asarray(row[kind], KINDS[kind])
                if found.ndim != (2 if kind == "vectors" else 1) or not np.isfinite(found).all():
                    raise ValueError("no list of numbers")
                counts.append(len(found))
                numbers += found.tobytes()
                if kind == "indices":
                    weights = np.asarray(row["values"], "f4")
                    if weights.shape != found.shape or not np.isfinite(weights).all():
                        raise ValueError("not a finite value per index")
                    values += weights.tobytes()
                if has_places:
                    places.append(_place(row))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {line}: not a row that `embed` wrote ({quote(str(error))})."
                ) from None
    name, kind = columns
    numbers = np.frombuffer(numbers, KINDS[kind])
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=int)])
    if kind != "vector":
        try:
            if kind == "indices":
                vectors = SparseVectors(numbers, np.frombuffer(values, "f4"), offsets, size=None)
            else:
                vectors = MultiVectors(_rows(path, numbers, offsets[-1]), offsets)
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}). Embed the texts again.") from None
    else:
        vectors = _rows(path, numbers, len(ids))
        if len(set(counts)) > 1:
            raise ValueError(f"{path}: the vectors must be of one size. Embed the texts again.")
    return vectors, (ids, name, list(np.array(places).T) if places else None)


def _place(row):
    """Where a chunk begins and ends, in characters of its text."""
    start, end = row["start"], row["end"]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end):
        raise ValueError(f"a chunk from {start!r} to {end!r}")
    return start, end


def _columns(path, columns):
    """The names of the columns of ids and of numbers."""
    names = [name for name in columns if name not in COLUMNS]
    kinds = [name for name in columns if name in KINDS]
    if len(names) != 1 or len(kinds) != 1:
        raise ValueError(
            f"{path} must have the columns that `embed` writes, such as id and vector. Found: "
            f"{quote(', '.join(map(str, columns)))}."
        )
    return names[0], kinds[0]


def _rows(path, numbers, count):
    if not count or len(numbers) % count:
        raise ValueError(f"{path}: the vectors must be of one size. Embed the texts again.")
    return numbers.reshape(count, -1)
