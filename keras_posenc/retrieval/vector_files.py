"""Files of vectors: NumPy's, and tables with the ids of the texts."""

import dataclasses
import importlib.util
import os
import pathlib

import numpy as np

from keras_posenc.text.ids import read_ids
from keras_posenc.untrusted import json_line, quote
from keras_posenc.writing import replacing

TABLES = (".jsonl", ".parquet")


def check_output(output, suffix):
    """Refuses a file in a format that is not written.

    Args:
        output: str or path.
        suffix: ".npy" or ".npz", NumPy's format for these vectors.

    Raises:
        ImportError: if the format needs a package that is not installed.
        ValueError: if there is no such format.
    """
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


def ids_of(texts, output):
    """(name, ids) of the rows of a table: the numbers of the texts if a file has no ids, or there
    is no file; None where no table is to be written."""
    if output is None or pathlib.Path(output).suffix not in TABLES:
        return None
    if isinstance(texts, (str, os.PathLike)):
        return read_ids(texts)
    return "row", range(1, len(texts) + 1)


def write_vectors(output, found, ids):
    """Writes vectors in the format that the suffix of `output` names.

    Args:
        output: str or path, which `check_output` has passed.
        found: what `embed` returns.
        ids: (name, ids of the texts). Tables need them.
    """
    suffix = pathlib.Path(output).suffix
    with replacing(output) as partial:
        if suffix == ".jsonl":
            with open(partial, "w", encoding="utf-8") as file:
                file.writelines(f"{json_line(row)}\n" for row in _rows(found, ids))
        elif suffix == ".parquet":
            _write_parquet(partial, list(_rows(found, ids)))
        elif dataclasses.is_dataclass(found):
            np.savez(partial, **dataclasses.asdict(found))
        else:
            np.save(partial, found)


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
