"""Ids of the rows of a file, which lead from a result back to its text."""

from keras_posenc.files.untrusted import SURROGATES, quote, shorten
from keras_posenc.text.decoding import FilePart
from keras_posenc.text.file_parts import file_parts, streamed
from keras_posenc.text.files import ids_in, present, read_rows, usual

TITLE_NAMES = ("headings", "title", "heading", "name")
ROWS = 1024  # that are read together


def read_ids(path):
    """Reads the ids of the rows of a file, with only a part of the file in memory at a time.

    `path`: a file that `read_texts` reads. Returns (name, ids) of the column with a usual name,
    such as id. Without one: ("row", numbers from 1).
    """
    name, ids, lines, count = "row", [], {}, 0
    for part in parts_of_file(path):
        name, found = ids_in(part.columns, [row for _, row in part.rows])
        if name != "row" and len(ids) < count:
            raise ValueError(
                f"{path}, line {part.rows[0][0]}: the column {quote(name)} begins where {count:,} "
                "rows are without it; fill it, or rename it to number the rows."
            )
        count += len(found)
        if name == "row":
            continue
        for (line, _), each in zip(part.rows, found, strict=True):
            if each is None or each == "":
                raise ValueError(
                    f"{path}, line {line}: the {quote(name)} is empty; fill it, or rename the "
                    "column."
                )
            if (first := lines.setdefault(str(each), line)) != line:
                raise ValueError(
                    f"{path}, lines {first} and {line}: both have the {quote(name)} {quote(each)}; "
                    "give each row its own, or rename the column to number the rows."
                )
        ids += found
    return name, range(1, count + 1) if name == "row" else ids


def read_titles(path, name):
    """The titles of the rows of a file.

    `path`: a file that `read_texts` reads. `name`: str, that of their column; "auto" for one with a
    usual name. Returns a list of str, of lists of [start, title], or of None.
    """
    titles, column = [], None
    for part in parts_of_file(path):
        before, column = column, usual(part.columns, TITLE_NAMES)
        if name != "auto":
            column = present(path, name, part.columns, "titles= of `reading` (--reading)")
        elif column is None:
            raise ValueError(
                f"{path} must have a column of titles, such as title, or be a folder of documents: "
                f"name it, as in late:256,titles=NAME. Received: {shorten(part.columns)}"
            )
        elif before not in (None, column):
            raise ValueError(
                f"{path}, line {part.rows[0][0]}: titles are in {quote(before)} before this line "
                f"and in {quote(column)} from here on; name one, as in late:256,titles=NAME."
            )
        titles += [row.get(column) for _, row in part.rows]
    return titles


def id_text(each):
    """The text of an id, which every format can hold: what no encoding can write is escaped."""
    return SURROGATES.sub(lambda found: ascii(found[0])[1:-1], str(each))


def parts_of_file(path):
    """Yields `FilePart`s of a file that `read_texts` reads, with few rows each where possible."""
    if streamed(path):
        yield from file_parts(path, ROWS)
    else:
        columns, rows, _ = read_rows(path)
        yield FilePart(path, columns, rows)
