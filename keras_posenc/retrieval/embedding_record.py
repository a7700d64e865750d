"""What `embed` writes beside a file of vectors: the model, its settings and the texts."""

import contextlib
import hashlib
import json
import os
import pathlib

from keras_posenc.checkpoints.folder import newest
from keras_posenc.training.saved_models import is_finetuned
from keras_posenc.untrusted import check_inside, quote, read_json
from keras_posenc.writing import write_text

WEIGHTS = (".safetensors", ".bin", ".keras", ".h5")
KEYS = ("directory", "model", "vectors", "settings", "first", "texts")


def record_path(output):
    """The path of the record of a file of vectors: chunks.npz.json of chunks.npz."""
    output = pathlib.Path(output)
    return output.with_name(f"{output.name}.json")


@contextlib.contextmanager
def recorded(output, directory, settings, first, texts, column):
    """A context for writing a file of vectors, at whose end its record is written.

    Args:
        output: str or path of the file of vectors.
        directory: str or path of the model.
        settings: dict. Arguments of `open_embedder` for the queries, and `prompt`.
        first: int. Number of texts before the first one of the file, as with `shard`.
        texts: what `embed` was given.
        column: str or tuple. The column of the texts in a file.
    """
    model = fingerprint(directory)
    yield
    record = {
        "directory": str(directory),
        "model": model,
        "vectors": os.path.getsize(output),
        "settings": {name: value for name, value in settings.items() if value is not None},
        "first": first,
        "texts": None,
    }
    if isinstance(texts, (str, os.PathLike)):
        path = pathlib.Path(texts).resolve()
        record["texts"] = {"path": str(path), "bytes": path.stat().st_size, "column": column}
    content = json.dumps(record, indent=1, default=lambda number: number.item())
    write_text(record_path(output), content)


def read_record(vectors):
    """The record of a file of vectors; None if there is none, or it belongs to another file."""
    path = record_path(vectors)
    if not path.exists():
        return None
    check_inside(path, path.parent)
    record = read_json(path, KEYS)
    sound = isinstance(record["settings"], dict) and type(record["first"]) is int
    sound = sound and isinstance(record["texts"], dict | None) and isinstance(record["model"], str)
    if not sound:
        raise ValueError(f"{path} is damaged. Restore or delete it.")
    return record if record["vectors"] == os.path.getsize(vectors) else None


def check_model(record, vectors, directory):
    """Refuses a model whose weights are not those that made the vectors."""
    if record is None or not os.path.isdir(directory):  # which opening it refuses
        return
    if record["model"] != fingerprint(directory):
        raise ValueError(
            f"`directory` must be the model that made {vectors}, which was "
            f"{quote(record['directory'])}; its weights differ. Embed the texts again, or "
            f"delete {record_path(vectors)} to search all the same. Received: {str(directory)!r}"
        )


def fingerprint(directory):
    """A hash of the weights of a model, which is the same for copies of its folder."""
    directory = pathlib.Path(directory)
    if is_finetuned(directory):
        paths = [newest(directory, "model.keras")]
    else:
        files = (path for path in directory.rglob("*") if path.is_file())
        paths = [path for path in files if path.suffix in WEIGHTS or ".data-" in path.name]
    digests = []
    for path in paths:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]
