"""Tables, which are read a part at a time, so that they may be larger than memory."""

import itertools
import pathlib

from keras_posenc.files.untrusted import check_pointer, parse_json, shorten
from keras_posenc.text.decoding import FilePart, check_no_utf16, existing_text, not_utf8
from keras_posenc.text.folders import is_documents, matching
from keras_posenc.text.parquet import parquet_parts
from keras_posenc.text.tables import UnendedField, csv_rows, fields_in, named_rows

STREAMED = (".jsonl", ".parquet", ".csv", ".tsv", ".txt")
BLOCK = 4096  # lines of a .csv that are parsed together


def file_parts(source, size, paragraphs=False):
    """Reads a table, or several, a part at a time.

    `source`: a file with one of the suffixes `STREAMED`, or a pattern of several, such as
    "texts/part-*.parquet", which are read in the order of their names. `size`: rows of a part; the
    last one of a file may have fewer. `paragraphs`: whether blank lines of a .txt are left out.
    Yields `FilePart`, which the readers of files take in the place of a path.
    """
    for path in paths_of(source):
        for columns, rows in table_parts(path, size, paragraphs):
            yield FilePart(path, columns, rows)


def paths_of(source):
    """The files that a path, or a pattern of names, stands for."""
    path = pathlib.Path(source)
    paths = [path] if path.exists() else sorted(matching(path)) or [path]
    if path.is_dir() or (paths != [path] and any(each.suffix.lower() == ".txt" for each in paths)):
        raise ValueError(
            f"{path} stands for documents, a text per file, which are read whole: leave `cache` "
            "(--cache) out, or give a table of texts, such as a .jsonl file."
        )
    for path in paths:
        if existing_text(path).suffix.lower() not in STREAMED:
            raise ValueError(
                f"{path} cannot be read in parts, as only files of {', '.join(STREAMED)} can: "
                "convert it."
            )
    return paths


def streamed(path):
    """The path of a table, if it is read in parts, else None."""
    path = None if is_documents(path) else existing_text(path)
    return path if path is not None and path.suffix.lower() in STREAMED else None


def table_parts(path, size, paragraphs=False):
    """Yields (columns, rows) of one file, as `file_parts`; ValueError if it has none."""
    is_empty = True
    for columns, rows in _parts(path, size, paragraphs):
        is_empty = False
        yield columns, rows
    if is_empty:
        what = "has column names but no rows" if path.suffix == ".parquet" else "is empty"
        raise ValueError(f"{path} {what}.")


def _parts(path, size, paragraphs):
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        yield from parquet_parts(path, size)
    elif suffix in (".csv", ".tsv"):
        table = _csv(path) if suffix == ".csv" else _tsv(path)
        for header in itertools.islice(table, 1):
            named_rows(path, header, [])
            first = next(table, None)
            if first is None:
                raise ValueError(f"{path} has column names but no rows.")
            for rows in _chunks(itertools.chain([first], table), size):
                yield named_rows(path, header, rows)
    else:
        columns = {}  # of a .jsonl, those of the rows so far, since its rows may differ
        for chunk in _chunks(_jsonl(path) if suffix == ".jsonl" else _txt(path, paragraphs), size):
            columns |= dict.fromkeys(name for _, row in chunk for name in row)
            yield list(columns), chunk


def _chunks(rows, size):
    while chunk := list(itertools.islice(rows, size)):
        yield chunk


def _lines(path):
    """(number from 1, line with its end) of a file in UTF-8; errors name the byte."""
    with open(path, "rb") as file:
        first = file.readline()
        # Without any newline, lines end in carriage returns.
        lines = [first] if first.endswith(b"\n") else first.splitlines(keepends=True)
        check_pointer(path, first)
        check_no_utf16(path, first)
        for number, line in enumerate(itertools.chain(lines, file), 1):
            try:
                words = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(path, number, error.start + 1, line[error.start]) from None
            yield number, words.lstrip("\ufeff")


def _without_ends(path):
    return ((n, line.removesuffix("\n").removesuffix("\r")) for n, line in _lines(path))


def _txt(path, paragraphs):
    blank = []  # lines that are none if nothing follows
    for number, line in _without_ends(path):
        if line.strip() if paragraphs else line:
            yield from blank
            blank = []
            yield number, {"text": line}
        elif not paragraphs:
            blank = blank or [(number, {"text": ""})]  # the first, which is refused


def _jsonl(path):
    for number, line in _without_ends(path):
        if line.strip():
            yield number, jsonl_row(path, number, line)


def jsonl_row(path, number, line):
    """The object that a line of a .jsonl file is."""
    try:
        row = parse_json(line.encode(), nan=True)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: not JSON ({shorten(error)}).") from None
    if not isinstance(row, dict):
        raise ValueError(f"{path}, line {number}: a {type(row).__name__}, not a JSON object.")
    return row


def _tsv(path):
    columns = None
    for number, line in _without_ends(path):
        if line.strip():
            columns = columns or line.count("\t") + 1
            yield number, fields_in(line, columns)


def _csv(path):
    lines, rest, first, is_last, size = _lines(path), "", 1, False, BLOCK
    while not is_last:
        block = "".join(line for _, line in itertools.islice(lines, size))
        content, is_last, done = rest + block, not block, 0
        size *= 2  # unless a row ends: a field over many blocks is then parsed in linear time
        try:
            for line, fields, end, following in csv_rows(content, ",", first):
                done, first, size = end, following, BLOCK
                if fields:
                    yield line, fields
        except UnendedField as error:  # it may end in the next block
            if is_last:
                raise ValueError(f"{path}, {error}") from None
        except ValueError as error:
            raise ValueError(f"{path}, {error}") from None
        rest = content[done:]
