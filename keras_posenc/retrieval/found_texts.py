"""Looks up the texts that a search found, without keeping the others in memory."""

import os

from keras_posenc.files.untrusted import quote
from keras_posenc.text import read_texts
from keras_posenc.text.documents import check_list
from keras_posenc.text.files import ids_in
from keras_posenc.text.ids import id_text, parts_of_file


def found_texts(texts, column, by_row, wanted):
    """Looks up texts by their ids.

    Args:
        texts: list of str, or a path for `read_texts`.
        column: str or tuple. Name of the column of texts in a file; None for a usual one.
        by_row: bool. Whether the ids are numbers of rows, from 1.
        wanted: set of str. Ids, as str.

    Returns:
        dict: id as str -> (id in the file, text).
    """
    found = {}
    for key, each, text in _rows(texts, column, by_row):
        if key in wanted:
            found[key] = (each, text)
            if len(found) == len(wanted):
                return found
    missing = min(wanted - found.keys())
    raise ValueError(
        f"`texts` must be the texts whose vectors are searched: there is no text with the "
        f"{'number' if by_row else 'id'} {quote(missing)}. Received: "
        f"{quote(str(texts)) if _is_path(texts) else f'{len(texts)} texts'}"
    )


def _rows(texts, column, by_row):
    """Yields (key, id, text) of each text."""
    if not _is_path(texts):
        check_list(texts)
        if not by_row:
            raise ValueError(
                "`texts` must be the file that was embedded, because its vectors have the ids of "
                f"that file. Received: a list of {len(texts)} texts"
            )
        yield from ((str(number), number, text) for number, text in enumerate(texts, 1))
        return
    count = 0
    for part in parts_of_file(texts):
        part_texts = read_texts(part, text=column, label=False).texts
        name, ids = ids_in(part.columns, [row for _, row in part.rows])
        if name == "row":
            if not by_row:
                raise ValueError(
                    f"`texts` must have the ids of the vectors, in a column such as id. Received: "
                    f"{quote(str(texts))}"
                )
            ids = range(count + 1, count + len(part_texts) + 1)
        for each, text in zip(ids, part_texts, strict=True):
            count += 1
            yield id_text(count if by_row else each), each, text


def _is_path(texts):
    return isinstance(texts, (str, os.PathLike))
