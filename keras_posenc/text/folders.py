"""A folder of documents as a table: a row per file, whose id is its path."""

import os
import pathlib

from keras_posenc.files.untrusted import SURROGATES, check_name
from keras_posenc.text.decoding import FilePart, decode_any, existing_text
from keras_posenc.text.structure import FORMATS, read_structure

# Texts that are no documents, in a folder with one of these files.
VOCABULARIES = {"vocab.txt", "merges.txt"}
OF_MODELS = ("config.json", "tokenizer_config.json", "recipe.json")
COLUMNS = ["id", "title", "text", "headings"]
MARKS = set("*?[")


def is_documents(path):
    """Whether a path stands for documents, each a file of its own: a folder, a pattern of names, or
    a file with headings, such as a .md."""
    if isinstance(path, FilePart) or not isinstance(path, (str, os.PathLike)):
        return False
    path = pathlib.Path(path)
    if path.is_dir():
        return True
    if path.exists():
        suffix = path.suffix.lower()
        return suffix in FORMATS and suffix != ".txt"
    return any(matching(path))


def files_of(path):
    """The files that a folder, with those below it, or a pattern has, in the order of their paths.

    Files of other formats are left out, the vocabularies of models, and files whose name, or that
    of a folder, begins with a full stop. Returns (folder, list of `pathlib.Path`s).
    """
    path = pathlib.Path(path)
    check_name(path)
    if path.is_file():
        return path.parent, [path]
    if path.is_dir():
        folder, found = path, path.rglob("*")
    else:
        folder, found = _root(path), matching(path)
    files = [
        each
        for each in sorted(found)
        if each.suffix.lower() in FORMATS
        and each.is_file()
        and not any(part.startswith(".") for part in each.relative_to(folder).parts)
        and not (each.name in VOCABULARIES and any((each.parent / n).exists() for n in OF_MODELS))
    ]
    if not files:
        raise ValueError(
            f"{path} must have a file of {', '.join(FORMATS)}: a table of texts, such as a .jsonl "
            "file, is given by itself."
        )
    return folder, files


def read_documents(path):
    """(columns, rows, {}) of a folder, a pattern or a file: id, title, text and headings of each.

    The headings are a list of (start, path of headings). Files without text beside others, such as
    an empty __init__.py or a page that only leads to another, are left out. Raises ImportError if
    the parser of a format is not installed.
    """
    folder, files = files_of(path)
    rows = []
    for number, file in enumerate(files, 1):
        content = decode_any(existing_text(file)).replace("\r\n", "\n")
        name = SURROGATES.sub("\ufffd", file.stem)
        found = read_structure(name, file.suffix.lower(), content)
        if found.text.strip():
            row = {"id": file.relative_to(folder).as_posix(), "title": found.title or name}
            rows.append((number, {**row, "text": found.text, "headings": found.headings}))
    if not rows:
        raise ValueError(f"{path} has no text: leave it out.")
    return COLUMNS, rows, {}


def _root(pattern):
    """The folder above the first part of a pattern that has a mark, and is not itself a folder."""
    folders = [pattern, *pattern.parents]
    return next(each for each in folders if each.is_dir() or not MARKS & set(str(each)))


def matching(pattern):
    """What fits a pattern such as texts/part-*.parquet; nothing fits a path without marks."""
    root = _root(pattern := pathlib.Path(pattern))
    return root.glob(str(pattern.relative_to(root))) if root.is_dir() and root != pattern else ()
