"""What `embed` writes beside a file of vectors: the model, its identity and settings, the texts."""

import base64
import hashlib
import json
import os
import pathlib
import re

import numpy as np

from keras_posenc import backend
from keras_posenc.files import saved_records as e
from keras_posenc.files.side_files import check_file_is_ours, companion, identify, is_identified
from keras_posenc.files.untrusted import check_inside, quote, read_json
from keras_posenc.files.writing import write_text
from keras_posenc.folders.folder import hash_of_all
from keras_posenc.folders.sentence_transformers import read_similarity
from keras_posenc.models.extension import FORMER, former_extension
from keras_posenc.retrieval.nearest import lengths_of
from keras_posenc.text.folders import files_of, is_documents
from keras_posenc.text.truncation import LOGGER

KEYS = ("directory", "model", "vectors", "settings", "first", "texts")
EXPECTED = e.keys(
    {
        "model": e.string,
        "settings": e.by_name(e.anything),
        "first": e.count,
        "texts": e.maybe(e.keys({"path": e.string, "bytes": e.count})),
    },
    # Records before version 0.5 have only the size of the vectors.
    {
        "identity": e.keys({"bytes": e.count, "digest": e.string}),
        "unit": e.one_of((True, False)),
        "precision": e.string,
        "lengths": e.maybe(e.string),
        "run": e.maybe(e.keys({"settings": e.string, "texts": e.string})),
    },
)


def record_path(output):
    """The path of the record of a file of vectors: chunks.npz.json of chunks.npz."""
    return companion(output, ".json")


class EmbeddingRecord:
    """The record of a file of vectors that is going to be written.

    It is made before the texts are read and the model is opened, so that what changes later is seen
    as a change. The vectors count as those of the record only if they have its digest: whatever a
    process that is killed leaves, no settings, arguments of `open_embedder`, are used with other
    vectors. `first` is the number of texts before the first one of the file, as with `shard`.
    """

    def __init__(self, output, opening, settings, texts, column):
        self.output, self.path = pathlib.Path(output), record_path(output)
        self.first, self._unit, self._lengths = 0, None, []
        check_file_is_ours(self.path, _is_record)
        self._facts = {
            "directory": str(opening.directory),
            "model": opening.fingerprint,
            "settings": {name: value for name, value in settings.items() if value is not None},
            "texts": None,
            "precision": backend.inference_dtype(),
        }
        if isinstance(texts, (str, os.PathLike)) and (os.path.isfile(texts) or is_documents(texts)):
            path = pathlib.Path(texts).resolve()
            # In the same folder it is found by its name, wherever the folder is moved.
            shown = path.name if path.parent == self.output.resolve().parent else str(path)
            self._facts["texts"] = {"path": shown, "column": column, **_identify(path)}

    def saw(self, found, before=0):
        """Notes the lengths of vectors that are written, so that no search computes them again; the
        vectors of `before` texts are in the file already."""
        vectors = getattr(found, "vectors", found)
        if not isinstance(vectors, np.ndarray) or hasattr(found, "offsets"):
            return
        if self._unit is None and before:  # those of an interrupted call were not seen
            self._lengths = None
        self._unit = (before == 0 if self._unit is None else self._unit) and is_unit(vectors)
        if self._lengths is not None:
            self._lengths.append(lengths_of(vectors))

    def run(self):
        """What `write` was given as `run`, if the vectors are still those; else None."""
        record = _record_of(self.output) if self.output.is_file() else None
        return record and record.get("run")

    def write(self, identity, run=None):
        """Writes the record, after the vectors that `identify` found; `run` is what a later call
        needs to recognise the result as its own."""
        facts = {"vectors": identity["bytes"], "identity": identity, "first": self.first}
        lengths = None
        if self._lengths and not self._unit:
            lengths = base64.b64encode(np.concatenate(self._lengths).astype("<f4")).decode()
        content = self._facts | facts | {"unit": bool(self._unit), "lengths": lengths, "run": run}
        write_text(self.path, json.dumps(content, indent=1, default=lambda number: number.item()))


def is_unit(vectors):
    """Whether all vectors (N, D) have length 1, as far as float32 holds it."""
    return bool((np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < 1e-5).all())


def read_record(vectors):
    """The record of a file of vectors; None if there is none, or it belongs to another file."""
    record = _record_of(vectors)
    if record is None and record_path(vectors).exists():
        LOGGER.warning(
            f"{record_path(vectors)} is not used, because it belongs to other vectors than those "
            f"in {vectors}: embed the texts again, or delete it."
        )
    return record


def _record_of(vectors):
    path = record_path(vectors)
    if not path.exists():
        return None
    check_inside(path, path.parent)
    record = e.checked(path, read_json(path, KEYS), EXPECTED)
    record["settings"] = _current(record["settings"])
    if "identity" not in record:
        return record if record["vectors"] == os.path.getsize(vectors) else None
    return record if is_identified(vectors, record["identity"]) else None


def _current(settings):
    """The settings of a record, which version 0.4 wrote with the parts of an extension."""
    parts = {name: settings[name] for name in FORMER if name in settings}
    if not parts:
        return settings
    settings = {name: value for name, value in settings.items() if name not in parts}
    return {**settings, "extension": former_extension(parts).get_config()}


def recorded_lengths(record, count):
    """The lengths (N,) of vectors that a record has, or None."""
    if record is None or record.get("lengths") is None:
        return None
    try:
        lengths = np.frombuffer(base64.b64decode(record["lengths"], validate=True), "<f4")
    except ValueError:
        lengths = ()
    if len(lengths) != count or not (np.isfinite(lengths).all() and (lengths >= 0).all()):
        raise ValueError(f"The record of the vectors is damaged: no lengths of {count} vectors.")
    return lengths


def recorded_texts(record, vectors):
    """The file that was embedded and its column, or (None, None) where it is not found.

    A record may come from elsewhere, so it leads to a file in the folder of the vectors only.
    """
    source = record["texts"] if record else None
    if source is None:
        return None, None
    folder = pathlib.Path(vectors).resolve().parent
    path = folder / source["path"]
    there = path.resolve()
    if there.parent != folder and not (is_documents(path) and folder in there.parents):
        reason = "is not in the folder of the vectors"
    elif not _is_unchanged(path, source):
        reason = "is missing or has changed"
    else:
        column = source.get("column")
        return path, tuple(column) if isinstance(column, list) else column
    LOGGER.warning(
        f"The texts are not shown, because {quote(source['path'])} {reason}: give them as texts= "
        "(--texts)."
    )
    return None, None


def _identify(path):
    """As `identify`, of all files of a folder or a pattern together."""
    if not is_documents(path):
        return identify(path)
    folder, files = files_of(path)
    found = [(each.relative_to(folder).as_posix(), identify(each)) for each in files]
    digest = hashlib.sha256(repr([(n, each["digest"]) for n, each in found]).encode()).hexdigest()
    return {"bytes": sum(each["bytes"] for _, each in found), "digest": digest}


def _is_unchanged(path, source):
    if is_documents(path):
        return source == {**source, **_identify(path)}
    if "digest" in source:
        return is_identified(path, source)
    return path.is_file() and path.stat().st_size == source["bytes"]


def _is_record(path):
    try:
        read_json(path, KEYS)
    except ValueError:
        return False
    return True


def check_model(record, vectors, opening):
    """Refuses a model whose weights are not those that made the vectors."""
    folder = opening.directory
    if record is None or not folder.is_directory:  # which opening it refuses
        return
    # Version 0.4 counted all files with weights below the directory.
    known = record["model"]
    if known != opening.fingerprint and known != hash_of_all(folder.path):
        raise ValueError(
            f"`directory` must be the model that made {vectors}, which was "
            f"{quote(record['directory'])}; its weights differ. Embed the texts again, or "
            f"delete {record_path(vectors)} to search all the same. Received: {str(folder)!r}"
        )


# What changes no number, or is part of the others.
LEFT_OUT = ("directory", "folder", "opened_with", "token_budget", "model", "tokenizer", "reading")
NUMBERED = re.compile(r'_\d+"')  # Keras counts the layers of a process in their names


def identity_of(model):
    """A hash, 16 hexadecimal digits, of all that decides the numbers of an `Embedder` or
    `TextModel`: its weights, tokenizer and settings.

    It is the same in every process, for each copy of a directory, and for all ways of opening it to
    the same effect.
    """
    known = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    known = {name: value for name, value in known.items() if name not in LEFT_OUT}
    known["kind"], known["reading"] = type(model).__name__, str(getattr(model, "reading", None))
    known["tokenizer"] = model.tokenizer.fingerprint
    known["architecture"] = _architecture(model.model)
    if similarities := getattr(model, "similarities", None):
        known["similarity"] = read_similarity(model.folder, similarities)
    found = hashlib.sha256(json.dumps(known, sort_keys=True, default=_stated).encode())
    for array in model.model.get_weights():
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def _architecture(model):
    """The layers of a model as text, without the path of the weights that they were loaded from."""
    account = getattr(getattr(model, "transformer", None), "account", None)
    source = str(getattr(account, "source", None) or "")
    text = NUMBERED.sub('"', model.to_json())
    return text.replace(source, "") if source else text


def plain(value):
    """A setting of `open_embedder` as JSON can store it, from which it is read back."""
    if hasattr(value, "get_config"):
        return value.get_config()
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (int, float, str, list, dict)) else str(value)


def _stated(value):
    """What JSON does not know: sets, and the sides of late interaction."""
    return sorted(value) if isinstance(value, (set, frozenset)) else vars(value)
