"""Files of vectors: NumPy's, and tables with the ids of the texts."""

import dataclasses
import importlib.util
import os
import pathlib

import numpy as np

from keras_posenc.checkpoints.numpy_files import read_npy, read_npz
from keras_posenc.files.side_files import identify
from keras_posenc.files.untrusted import SURROGATES, json_line, quote
from keras_posenc.files.writing import check_place, make_folder, replacing
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.text.decoding import existing
from keras_posenc.text.file_parts import file_parts
from keras_posenc.text.ids import id_text, read_ids

TABLES = (".jsonl", ".parquet")


def check_output(output, suffix, inputs=()):
    """Refuses a file in a format that is not written; `suffix` is the one of NumPy files."""
    found = pathlib.Path(output).suffix
    if found not in (suffix, *TABLES):
        raise ValueError(
            f"output is a {suffix} file, which NumPy reads, or a {' or '.join(TABLES)} file with "
            f"ids. Received: {quote(str(output))}"
        )
    if found == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ImportError(
            f"output={quote(str(output))} needs pyarrow: pip install pyarrow, or give a .jsonl "
            "file."
        )
    check_place(output, inputs)


def ids_of(texts, output):
    """(name, ids) of the rows of a table: the numbers of the texts if a file has no ids, or there
    is no file; None where no table is to be written.

    A column of a .parquet file has one type, so ids of several types, or that it cannot hold,
    become text, as in `id_text`.
    """
    suffix = None if output is None else pathlib.Path(output).suffix
    if suffix not in TABLES:
        return None
    if not isinstance(texts, (str, os.PathLike)):
        return "row", range(1, len(texts) + 1)
    name, ids = read_ids(texts)
    if suffix == ".jsonl" or isinstance(ids, range) or _fit_a_column(ids):
        return name, ids
    shown = {}
    for each in ids:
        other = shown.setdefault(id_text(each), each)
        if other is not each:
            raise ValueError(
                f"{texts}: in a .parquet file the ids {quote(other)} and {quote(each)} are the "
                "same text. Give a .jsonl file as output, or other ids."
            )
    return name, list(shown)


def _fit_a_column(ids):
    """Whether a column of a .parquet file holds these ids as they are."""
    kinds = set(map(type, ids))
    if kinds == {int}:
        return -(2**63) <= min(ids) and max(ids) < 2**63
    if kinds == {str}:
        return not any(map(SURROGATES.search, ids))
    return kinds in ({float}, {bool})


def write_vectors(output, found, ids, record=None):
    """Writes vectors, and their record, in the format that the suffix of `output` names.

    `ids` is (name, ids of the texts), which tables need.
    """
    make_folder(pathlib.Path(output).parent)
    with replacing(output) as partial:
        if partial.suffix == ".jsonl":
            with open(partial, "w", encoding="utf-8") as file:
                file.writelines(f"{json_line(row)}\n" for row in _rows(found, ids))
        elif partial.suffix == ".parquet":
            _write_parquet(partial, list(_rows(found, ids)))
        elif dataclasses.is_dataclass(found):
            _write_arrays(partial, dataclasses.asdict(found))
        else:
            np.save(partial, found)
        if record is not None:
            identity = identify(partial)
    # Until then the old record is of other vectors, as its digest shows.
    if record is not None:
        record.write(identity)


def _write_arrays(path, arrays):
    unknown = [name for name, array in arrays.items() if array is None]
    if unknown:
        raise ValueError(
            f"{path.suffix} files have the {unknown[0]} of vectors, which a table has not: give a "
            ".jsonl or .parquet file."
        )
    np.savez(path, **arrays)


def json_lines(found, ids):
    """The lines of a .jsonl file of vectors, as one text; arguments as of `write_vectors`."""
    return "".join(f"{json_line(row)}\n" for row in _rows(found, ids))


def _rows(found, ids):
    """A dict per text, or per chunk."""
    name, ids = ids
    if hasattr(found, "starts"):
        columns = (found.texts, found.starts, found.ends, found.vectors)
        for text, start, end, vector in zip(*columns, strict=True):
            yield {name: ids[text], "start": int(start), "end": int(end), "vector": vector.tolist()}
        return
    for number, key in enumerate(ids):
        yield {name: key, **_numbers(found, number)}


def _numbers(found, number):
    if hasattr(found, "indices"):
        part = slice(*found.offsets[number : number + 2])
        return {"indices": found.indices[part].tolist(), "values": found.values[part].tolist()}
    if hasattr(found, "offsets"):
        return {"vectors": found[number].tolist()}
    return {"vector": found[number].tolist()}


def _write_parquet(path, rows):
    """Vectors as lists of float32, as vector databases import them."""
    import pyarrow
    import pyarrow.parquet

    reals = pyarrow.list_(pyarrow.float32())
    types = {"vector": reals, "values": reals, "vectors": pyarrow.list_(reals)}
    columns = {
        name: pyarrow.array([row[name] for row in rows], type=types.get(name))
        for name in (rows[0] if rows else ())
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


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
                vectors = MultiVectors(_table_rows(path, numbers, offsets[-1]), offsets)
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}). Embed the texts again.") from None
    else:
        vectors = _table_rows(path, numbers, len(ids))
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


def _table_rows(path, numbers, count):
    if not count or len(numbers) % count:
        raise ValueError(f"{path}: the vectors must be of one size. Embed the texts again.")
    return numbers.reshape(count, -1)
