"""Reading of texts and labels from files, with errors that name the line."""

import dataclasses
import json
import os
import pathlib
import typing

from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.text.decoding import FilePart, decode, existing_text
from keras_posenc.text.documents import check_strs
from keras_posenc.text.file_parts import table_parts
from keras_posenc.text.folders import is_documents, read_documents
from keras_posenc.text.offsets import check_text, check_unicode
from keras_posenc.text.tables import read_tab

SUFFIXES = (".tsv", ".csv", ".jsonl", ".tab", ".parquet", ".txt")
PART = 4096  # rows that are read together
TEXT_NAMES = ("text", "content", "sentence", "document", "body", "review", "quote")
ID_NAMES = ("id", "_id", "ids", "uid", "guid", "doc_id", "document_id", "text_id")
LABEL_NAMES = ("label", "class", "category", "target", "labels", "topic", "sentiment")


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a file, with their labels and line numbers.

    Attributes:
        texts: list of str, or of pairs of str.
        labels: list of str, or None.
        lines: list of the line numbers, from 1.

    Example:

    >>> texts = Texts(texts=["Well done."], labels=["good"], lines=[2])
    >>> len(texts)
    1
    """

    texts: list
    labels: list
    lines: list

    def __len__(self):
        return len(self.texts)


class Cell(typing.NamedTuple):
    """Where a cell stands, in words only once an error needs them: there is one for each row."""

    path: pathlib.Path
    line: int
    column: str
    row: dict  # the columns of which it is one

    def __str__(self):
        path = self.path.path if isinstance(self.path, FilePart) else self.path
        where = self.row["id"] if is_documents(path) else f"line {self.line}"
        return f"{path}, {where}: {quote(self.column)}"


def labels_of(texts):
    """Returns the sorted distinct labels of a `Texts`: the usual `classes`.

    Args:
        texts: `Texts`.

    Returns:
        list of str.

    Example:

    >>> labels_of(Texts(["Well done.", "Oh no."], ["good", "bad"], [1, 2]))
    ['bad', 'good']
    """
    if texts.labels is None:
        raise ValueError("These texts have no labels: name their column, as read_texts(label=).")
    return sorted(set(texts.labels))


def read_texts(path, text=None, label=None):
    """Reads texts, and their labels if there are any, from a file.

    Formats: .tsv and .csv with a header line, .jsonl with one object per line, .parquet (which
    needs pyarrow), Orange's .tab (names, types, flags) and .txt with one text per line. In .tab and
    .tsv a row is one line, and quotes are ordinary characters, except in lines that are exactly as
    csv writes them. Blank lines between rows are skipped, and `lines` keeps the original numbers;
    in .txt, where answers are laid beside lines, they are an error.

    Args:
        path: the file, in UTF-8.
        text: name of the text column; None picks one with a usual name (the one that Orange flags,
            text, content, ..., or the only one besides the label). Two names, ("question",
            "answer"), read pairs.
        label: name of the label column; None picks one with a usual name (the one that Orange
            flags, label, class, category, ...), if there is one; False reads no labels.

    Returns:
        A `Texts`.

    Raises:
        FileNotFoundError: no such file.
        ImportError: a .parquet file without pyarrow.

    Example:

    >>> path = pathlib.Path("two_columns.tsv")
    >>> _ = path.write_text("label\\ttext\\ngood\\tWell done.\\n")
    >>> read_texts(path)
    Texts(texts=['Well done.'], labels=['good'], lines=[2])
    """
    return read_table(path, text, label, _one_label)


def read_long_texts(path, text=None):
    """Reads texts to learn from without labels, as `read_texts(label=False)`, except for a .txt:
    blank lines, as between the paragraphs of a book, are skipped."""
    return read_table(path, text, False, _one_label, paragraphs=True)


def long_texts(source, text=None, name="texts"):
    """The same of a path, a `Texts` or a list, as a list of str whose numbers are in errors."""
    if isinstance(source, (str, os.PathLike)):
        source = read_long_texts(source, text)
    source = source.texts if isinstance(source, Texts) else source
    check_strs(source, name)
    for number, each in enumerate(source):
        check_unicode(f"Text {number}", each)
    return list(source)


def read_table(path, text, label, parse, usual_names=LABEL_NAMES, paragraphs=False):
    """Reads texts and labels of any kind from a file, with the arguments of `read_texts`.

    `path`, `text`, `label`: as in `read_texts`. `parse`: a function from the `Cell` and its content
    to a label. `usual_names`: usual names of the label column, the likeliest first. `paragraphs`:
    as in `file_parts`. Returns a `Texts`.
    """
    columns, rows, flagged = read_rows(path, paragraphs=paragraphs)
    label = label_column(path, label, columns, text, [flagged.get("label"), *usual_names])
    names = text_columns(path, text, columns, label, flagged)
    found = tuples_in(path, rows, names, label, parse)
    if isinstance(text, tuple):
        return found
    return dataclasses.replace(found, texts=[only for (only,) in found.texts])


def tuples_in(path, rows, names, label, parse):
    """`Texts` of tuples from the columns `names`, and their labels if `label` is a column."""
    texts = [tuple(text_in(path, n, row, name) for name in names) for n, row in rows]
    labels = None
    if label:
        labels = [
            parse(Cell(path, n, label, row), value_in(path, n, row, label)) for n, row in rows
        ]
    return Texts(texts, labels, [n for n, _ in rows])


def ids_in(columns, rows):
    """(name, ids): the column with a usual name, such as id; ("row", numbers from 1) if there is
    none."""
    name = usual(columns, ID_NAMES)
    if name is None:
        return "row", range(1, len(rows) + 1)
    return name, [row.get(name, "") for row in rows]


def read_rows(path, suffixes=SUFFIXES, paragraphs=False):
    """(columns, rows, flagged) of a file; of a folder, a row per file.

    `suffixes`: those that are read. `paragraphs`: as in `file_parts`.
    """
    if ".txt" in suffixes:
        if is_documents(path):
            return read_documents(path)
        if isinstance(path, FilePart) and is_documents(path.path):
            return path.columns, path.rows, {}
    path = existing_text(path)
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise ValueError(
            f"{path}: {path.suffix!r} is not one of {', '.join(suffixes)}. Write the texts to one "
            'of these, such as a .jsonl file with {"text": "..."} on each line.'
        )
    if isinstance(path, FilePart):
        return path.columns, path.rows, {}
    if suffix == ".tab":
        columns, rows, flagged = read_tab(path, decode(path))
        if not rows:
            raise ValueError(f"{path} has column names but no rows.")
        return columns, rows, flagged
    parts = list(table_parts(path, PART, paragraphs))
    return parts[-1][0], [row for _, rows in parts for row in rows], {}


def label_column(path, label, columns, text, usual_names):
    """The name of the column of labels: the one that is given, or one with a usual name beside the
    texts; None if there is none, or `label` is False."""
    if label is False:
        return None
    if label is None:
        taken = text if isinstance(text, tuple) else (text,)
        return usual([name for name in columns if name not in taken], usual_names)
    return present(path, label, columns, "label= (--label-column)")


def text_columns(path, text, columns, label, flagged):
    """The names of the columns of texts: those that are given, or the one with a usual name. None
    is that of the labels."""
    if text is not None:
        given = text if isinstance(text, tuple) else (text,)
        names = [present(path, name, columns, "text= (--text-column)") for name in given]
        if label in names:
            raise ValueError(
                f"{path}: the column {quote(label)} cannot have both the texts and the labels; "
                "give another one as text= (--text-column) or label= (--label-column)."
            )
        return names
    columns = [name for name in columns if name != label]
    key = usual(columns, [flagged.get("text"), *TEXT_NAMES])
    if key is None and len(columns) != 1:
        raise ValueError(
            f"{path}: which column has the texts? Give text= (--text-column), one of "
            f"{shorten(columns)}."
        )
    return [key or columns[0]]


def usual(columns, names):
    """The first of the names that is a column, ignoring case, or None."""
    by_lower = {column.lower(): column for column in reversed(columns)}
    there = [by_lower[name.lower()] for name in names if name and name.lower() in by_lower]
    return there[0] if there else None


def present(path, name, columns, option=None):
    """The name of a column; an error has the argument that it is to be given as."""
    if name not in columns:
        remedy = f": give one of them as {option}" if option else ""
        raise ValueError(
            f"{path} has no column {quote(name)}; there are {shorten(columns)}{remedy}."
        )
    return name


def value_in(path, number, row, name):
    if name not in row:
        raise ValueError(f"{path}, line {number}: no {quote(name)}, only {shorten(list(row))}.")
    return row[name]


def text_in(path, number, row, name):
    text = value_in(path, number, row, name)
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ValueError(f"{path}, line {number}: {quote(name)} should be a text, not a {kind}.")
    if not text.strip():
        raise ValueError(f"{path}, line {number}: the text is empty; delete the line or fill it.")
    check_text(Cell(path, number, name, row), text)
    return text


def _one_label(where, label):
    if isinstance(label, (list, dict)):
        raise ValueError(f"{where} should be one label, not a {type(label).__name__}.")
    missing = label is None or label != label  # also NaN
    label = label if isinstance(label, str) or missing else json.dumps(label)
    if missing or not label.strip():
        raise ValueError(
            f"{where.path}, line {where.line}: the label is missing in the column "
            f"{quote(where.column)}; delete the line or fill it, or name another column of labels "
            f"as label= (--label-column), one of {shorten(list(where.row))}."
        )
    return label.strip()
