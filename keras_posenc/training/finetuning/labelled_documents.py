"""Labelled documents for training: reading, validation, splitting."""

import hashlib
import os
import pathlib
import re
import unicodedata
import warnings

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import SURROGATES, quote, shorten
from keras_posenc.text import Texts
from keras_posenc.text.decoding import FilePart
from keras_posenc.text.disk_list import take
from keras_posenc.text.documents import is_list, kind_of
from keras_posenc.text.files import LABEL_NAMES, SUFFIXES, read_rows
from keras_posenc.text.offsets import check_text

TABLES = [suffix for suffix in SUFFIXES if suffix != ".txt"]  # files with named columns
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def open_documents(source, role, read_file, task):
    """Documents of any task from a file or from Python lists; the task checks each label."""
    documents = _opened(source, role, read_file)
    if task.needs_labels:
        _check_labelled(documents, source, role)
    labels = [None] * len(documents.texts) if documents.labels is None else documents.labels
    checked = []
    for line, text, label in zip(documents.lines, documents.texts, labels, strict=True):
        checked.append(task.checked(where := f"on line {line} of {role}", text, label))
        # Here, because their numbers change and the last texts are read when all is trained.
        _check_content(where, text)
    return Texts(documents.texts, checked, documents.lines)


def _check_content(where, text):
    kind_of(name := f"The text {where}", text)
    for part in text if isinstance(text, (tuple, list)) else [text]:
        if isinstance(part, str):
            check_text(name, part)


def _opened(source, role, read_file):
    if isinstance(source, (str, os.PathLike, FilePart)):
        documents = read_file(source)
    elif isinstance(source, Texts):
        documents = source
    else:
        documents = _from_lists(source, role)
    if not documents.texts:
        raise ValueError(f"{role} holds no document.")
    if all(isinstance(text, str) and NUMBER.fullmatch(text) for text in documents.texts):
        warnings.warn(
            f"All texts of {role} are numbers, such as {documents.texts[0]!r}: name the column of "
            "the texts with `text` (--text-column), unless that is meant.",
            stacklevel=4,
        )
    return documents


def _check_labelled(documents, source, role):
    if documents.labels is None:
        raise ValueError(
            f"{role}={quote(str(source))} holds texts without labels{_columns(source)}. Name the "
            "column of the labels with `label` (--label-column), or give a file that has one."
        )
    for line, label in zip(documents.lines, documents.labels, strict=True):
        if is_missing(label):
            raise ValueError(
                f"{role}, line {line}: the text has no label, but {label}; give it one, or leave "
                "the text out."
            )


def is_missing(label):
    """Whether a label is None, NaN, or what else a column of a table has in an empty cell."""
    if label is None or type(label).__name__ == "NAType":  # pandas.NA
        return True
    is_scalar = isinstance(label, (float, np.generic)) or type(label).__name__ == "NaTType"
    return bool(is_scalar and label != label)


def _columns(source):
    """The columns of a file, as words of an error."""
    is_file = isinstance(source, (str, os.PathLike))
    source = pathlib.Path(source) if is_file else source
    if not (is_file or isinstance(source, FilePart)) or source.suffix.lower() not in TABLES:
        return ""
    names = ", ".join(map(quote, read_rows(source)[0]))
    return f": it has the columns {names}, and usual names of labels are {', '.join(LABEL_NAMES)}"


def check_names(labels, lines, role):
    """Refuses what no file can hold and names that differ by mistake; warns of names that look
    alike."""
    first = {}
    for names, line in zip(labels, lines, strict=True):
        for name in names:
            first.setdefault(name, line)
    alike, in_one_form = {}, {}
    for name, line in first.items():
        if SURROGATES.search(name):
            raise ValueError(
                f"{role}, line {line}: the label {quote(name)} has half a surrogate pair, and "
                "cannot be written: it was decoded wrongly; replace it."
            )
        form = unicodedata.normalize("NFC", name)
        in_one_form.setdefault(form, set()).add(name)
        other = alike.setdefault(_meaning(form), name)
        if form != unicodedata.normalize("NFC", other):
            raise ValueError(
                f"{role} has the labels {quote(other)} (line {first[other]}) and {quote(name)} "
                f"(line {line}), which would be two classes: write them the same way, or rename "
                "one if they are two."
            )
    for names in in_one_form.values():
        if len(names) > 1:
            shown = shorten(", ".join(ascii(name) for name in sorted(names)))
            warnings.warn(
                f"{role} has labels that look alike and are {len(names)} classes, in other forms "
                f"of Unicode: {shown}. Normalize them, unless that is meant.",
                stacklevel=4,
            )


def _meaning(name):
    """What is the same for names that differ in case or spaces, and for 1 and 1.0."""
    return float(name) if NUMBER.fullmatch(name) else " ".join(name.lower().split())


def _from_lists(source, role):
    halves = tuple(source) if isinstance(source, (list, tuple)) else ()
    if len(halves) != 2 or not all(map(is_list, halves)):
        raise TypeError(
            f"{role} must be a path, a Texts, or a pair (texts, labels) of lists. Received: "
            f"{quote(source)}"
        )
    texts, labels = halves
    if isinstance(source, list) and all(isinstance(half, tuple) for half in halves):
        raise TypeError(
            f"{role} is a list of two tuples: give a pair (texts, labels) of lists, and not "
            f"(text, label) pairs. Received: {quote(source)}"
        )
    # A column of pyarrow, in contrast to one of pandas, has objects of its own in it.
    texts, labels = (list(getattr(half, "to_pylist", lambda half=half: half)()) for half in halves)
    if len(texts) != len(labels):
        raise ValueError(f"{role} holds {len(texts)} texts but {len(labels)} labels.")
    return Texts(texts, labels, list(range(1, len(texts) + 1)))


def split(documents, share, seed, names_in=lambda label: ()):
    """Splits off the same share of every class, or of all where labels are no classes.

    Returns the rest and the held-out documents, each in the order of `documents`. A class with one
    document stays in the first, and so does a document with a name that no other one of the first
    has.
    """
    checks.number("share", share, above=0, below=1, why="the part of the documents to hold out")
    ids = {}  # of names: strings, which may be on disk, take more memory
    labels = (label if isinstance(label, str) else "" for label in documents.labels)
    labels = np.array([ids.setdefault(name, len(ids)) for name in labels])
    rng = np.random.default_rng(seed)
    is_held_out = np.zeros(len(labels), bool)
    for name in sorted(ids):
        members = rng.permutation(np.flatnonzero(labels == ids[name]))
        is_held_out[members[: min(round(share * len(members)), len(members) - 1)]] = True
    shown = set()
    for index in np.flatnonzero(~is_held_out):
        shown.update(names_in(documents.labels[index]))
    for index in np.flatnonzero(is_held_out):
        names = set(names_in(documents.labels[index]))
        if names - shown:
            is_held_out[index] = False
            shown |= names
    if not is_held_out.any():
        raise ValueError(
            f"A share of {share} holds out none of {len(labels)} documents in {len(ids)} "
            "classes. Raise the share or give a validation file."
        )
    return _take(documents, ~is_held_out), _take(documents, is_held_out)


def _take(documents, chosen):
    chosen = np.flatnonzero(chosen)
    parts = (documents.texts, documents.labels, documents.lines)
    return Texts(*(take(part, chosen) for part in parts))


def check_known_labels(documents, label_names, role, names_in, what="label"):
    """Checks that every name in a label is one of the training's."""
    for line, label in zip(documents.lines, documents.labels, strict=True):
        for name in names_in(label):
            if name not in label_names:
                shown = ", ".join(map(quote, label_names[:10])) + ", ..." * (len(label_names) > 10)
                raise ValueError(
                    f"{role}, line {line}: the {what} {quote(name)} is none of the training's "
                    f"{len(label_names)} {what}s: {shown}."
                )


def digest(documents):
    """A short fingerprint of texts and labels, in order."""
    sha = hashlib.sha256()
    for pair in zip(documents.texts, documents.labels, strict=True):
        sha.update(repr(pair).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()[:16]
