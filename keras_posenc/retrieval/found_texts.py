"""Looks up the texts that a search found, without keeping the others in memory."""

import os

import numpy as np

from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.text import read_texts
from keras_posenc.text.documents import check_list
from keras_posenc.text.files import ids_in
from keras_posenc.text.ids import id_text, parts_of_file


def found_texts(texts, column, by_row, wanted):
    """Looks up texts by the ids, as str, in `wanted`, which are numbers of rows, from 1, if
    `by_row`.

    Returns a dict id as str -> (id in the file, text, columns of its row).
    """
    found = {}
    if not wanted:
        return found
    for key, *row in _rows(texts, column, by_row):
        if key in wanted:
            found[key] = row
            if len(found) == len(wanted):
                return found
    missing = min(wanted - found.keys())
    raise ValueError(
        f"`texts` must be the texts whose vectors are searched: there is no text with the "
        f"{'number' if by_row else 'id'} {quote(missing)}. Received: "
        f"{quote(str(texts)) if _is_path(texts) else f'{len(texts)} texts'}"
    )


def allowed_by(only, keys, texts, column, by_row):
    """Which of the vectors, whose ids are `keys`, a search is among, as a bool array (N,).

    `only` is a list of ids, or a dict of columns of `texts`, each with a value or a list of values.
    """
    if not isinstance(only, (dict, list, tuple, set, range)):
        raise TypeError(
            "`only` must be a list of ids, or a dict of columns and their values. Received: "
            f"{type(only).__name__}"
        )
    if texts is None:
        if isinstance(only, dict):
            raise ValueError(
                "`only` of columns needs the texts: give their file as texts= (--texts). "
                f"Received: {shorten(only)}"
            )
        chosen = {id_text(each) for each in only}
    else:
        chosen = set()
        values = {} if isinstance(only, dict) else {id_text(each) for each in only}
        if isinstance(only, dict):
            for name, given in only.items():
                many = isinstance(given, (list, tuple, set))
                values[name] = {str(each) for each in (given if many else [given])}
        for key, each, _, row in _rows(texts, column, by_row):
            if not isinstance(only, dict):
                chosen |= {key} if id_text(each) in values else set()
                continue
            if missing := [name for name in values if name not in row]:
                raise ValueError(
                    f"`only` must name columns of the texts, which are {shorten(list(row))}. "
                    f"Received: {quote(missing[0])}"
                )
            if all(str(row[name]) in wanted for name, wanted in values.items()):
                chosen.add(key)
    allowed = np.array([key in chosen for key in keys])
    if not allowed.any():
        raise ValueError(f"`only` must leave a text to search. Received: {shorten(only)}")
    return allowed


def _rows(texts, column, by_row):
    """Yields (key, id, text, columns) of each text."""
    if not _is_path(texts):
        check_list(texts)
        if not by_row:
            raise ValueError(
                "`texts` must be the file that was embedded, because its vectors have the ids of "
                f"that file. Received: a list of {len(texts)} texts"
            )
        yield from ((str(number), number, text, {}) for number, text in enumerate(texts, 1))
        return
    count = 0
    for part in parts_of_file(texts):
        part_texts = read_texts(part, text=column, label=False).texts
        rows = [row for _, row in part.rows]
        name, ids = ids_in(part.columns, rows)
        if name == "row":
            if not by_row:
                raise ValueError(
                    f"`texts` must have the ids of the vectors, in a column such as id. Received: "
                    f"{quote(str(texts))}"
                )
            ids = range(count + 1, count + len(part_texts) + 1)
        for each, text, row in zip(ids, part_texts, rows, strict=True):
            count += 1
            yield id_text(count if by_row else each), each, text, row


def _is_path(texts):
    return isinstance(texts, (str, os.PathLike))
