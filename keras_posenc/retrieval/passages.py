"""The passages whose vectors are searched: their ids, texts and words."""

import functools
import json
import os

import numpy as np

from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.retrieval.readings import reading_of
from keras_posenc.retrieval.words.index import WordIndex, digest_of, places_of, words_of
from keras_posenc.text import read_texts
from keras_posenc.text.documents import check_list
from keras_posenc.text.files import ids_in, usual
from keras_posenc.text.ids import TITLE_NAMES, id_text, parts_of_file
from keras_posenc.text.structure import headings_of, title_at, with_title


class PassageTexts:
    """The texts of `stored` vectors, None where they are not known; `unchanged` if they are known
    to be the texts that were embedded."""

    def __init__(self, stored, texts, column, unchanged=False):
        self._titles = _title_column(stored.record)
        self._stored, self._texts, self._unchanged = stored, texts, unchanged
        self._arguments = (texts, column, stored.name == "row")

    @functools.cached_property
    def keys(self):
        """list of str: of each vector, the id of its text."""
        return [id_text(each) for each in self._stored.ids]

    def allowed(self, only):
        """Which of the vectors a search is among, as a bool array (N,).

        `only` is a list of ids, or a dict of columns of the texts, each with a value or a list of
        values.
        """
        if not isinstance(only, (dict, list, tuple, set, range)):
            raise TypeError(
                "`only` must be a list of ids, or a dict of columns and their values. Received: "
                f"{type(only).__name__}"
            )
        if isinstance(only, dict):
            wanted = _with_values(only, *self._arguments)
        else:
            known = self._texts is not None
            chosen = {each: set() if known else {each} for each in map(id_text, only)}
            for key, each, *_ in rows_of(*self._arguments) if known else ():
                chosen.get(id_text(each), set()).add(key)
            keys, wanted = set(self.keys), set().union(*chosen.values())
            if missing := [each for each, of_id in chosen.items() if keys.isdisjoint(of_id)]:
                raise ValueError(
                    f"`only` must have ids of the {len(keys)} texts whose vectors are searched: "
                    f"leave out those of no text. Received: {quote(missing[0])}"
                )
        allowed = np.array([key in wanted for key in self.keys])
        if not allowed.any():
            raise ValueError(f"`only` must leave a text to search. Received: {shorten(only)}")
        return allowed

    def place(self, number):
        """The id of a passage, and for chunks its place."""
        each, places = self._stored.ids[number], self._stored.places
        row = {"id": each.item() if isinstance(each, np.integer) else each}
        if places is not None:
            row |= {"start": int(places[0][number]), "end": int(places[1][number])}
        return row

    def words(self):
        """The `WordIndex` of the passages, which is read if it was kept beside the vectors."""
        stored, record = self._stored, self._stored.record
        if self._texts is None:
            raise ValueError(
                "A search by words needs the texts: give them as texts= (--texts). Received: None"
            )
        digest, stays = None, self._unchanged and "identity" in record
        if stays:
            facts = record["identity"]["digest"], record["texts"].get("digest")
            digest = digest_of(*facts, self._arguments[1])
        elif isinstance(self._texts, list):
            digest = hash(tuple(self._texts))
        if digest is not None and digest in stored.kept:
            return stored.kept[digest]
        index = WordIndex.load(stored.path, digest) if stays else None
        if index is None or index.count != len(stored):
            index = self._index()
            if stays:
                index.save(stored.path, digest)
        stored.kept.clear()
        return stored.kept.setdefault(digest, index)

    def _index(self):
        known = found_texts(*self._arguments, set(self.keys))

        def passage(number):
            row, (_, whole, columns) = self.place(number), known[self.keys[number]]
            return with_title(self._title(row, columns), _cut(row, whole))

        return WordIndex.of(map(passage, range(len(self.keys))))

    def _title(self, row, columns):
        """The title above a passage, or ""."""
        name = self._titles
        if name == "auto":
            name = usual(columns, TITLE_NAMES)
        return title_at(headings_of(columns.get(name), row["id"]), row.get("start", 0))

    def add_texts(self, found, matches):
        """Adds to each result its text, or its chunk, the id that the texts' file has, and, with
        `matches`, where words of the query stand."""
        known = found_texts(*self._arguments, {id_text(row["id"]) for row in found})
        for row in found:
            row["id"], whole, columns = known[id_text(row["id"])]
            if title := self._title(row, columns):
                row["title"] = title
            row["text"] = _cut(row, whole)
            if matches:
                row["matches"] = places_of(row["text"], set(words_of(row["query"])))


def _title_column(record):
    """The column of titles that `embed` read, or None."""
    reading = record["settings"].get("reading") if record else None
    if str(reading).startswith("spans:"):  # which has a digest of the spans
        return None
    return getattr(reading_of(reading), "titles", None)


def _cut(row, whole):
    """The passage of a result, from its text."""
    if row.get("end", 0) > len(whole):
        raise ValueError(
            f"`texts` must be the texts whose vectors are searched: a chunk ends at character "
            f"{row['end']} of the text {quote(row['id'])}, which has {len(whole)}."
        )
    return whole[row["start"] : row["end"]] if "start" in row else whole


def found_texts(texts, column, by_row, wanted):
    """Looks up texts by the ids, as str, in `wanted`, which are numbers of rows, from 1, if
    `by_row`.

    Returns a dict id as str -> (id in the file, text, columns of its row).
    """
    found = {}
    if not wanted:
        return found
    for key, *row in rows_of(texts, column, by_row):
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


def _with_values(only, texts, column, by_row):
    """The keys of the texts that have given values, a value or a list of them, in columns."""
    if texts is None:
        raise ValueError(
            "`only` of columns needs the texts: give their file as texts= (--texts). "
            f"Received: {shorten(only)}"
        )
    lists = {name: v if isinstance(v, (list, tuple, set)) else [v] for name, v in only.items()}
    values = {name: set().union(*map(_forms, many)) for name, many in lists.items()}
    keys, columns = set(), {}
    for key, _, _, row in rows_of(texts, column, by_row):
        columns |= row  # a line of a .jsonl file may be without some of them
        if all(_forms(row.get(name)) & wanted for name, wanted in values.items()):
            keys.add(key)
    if missing := [name for name in values if name not in columns]:
        raise ValueError(
            f"`only` must name columns of the texts, which are {shorten(list(columns))}. "
            f"Received: {quote(missing[0])}"
        )
    return keys


def _forms(value):
    """The ways in which Python, JSON and the numbers of pandas write a value of a column."""
    value = value.item() if isinstance(value, np.generic) else value
    found = {str(value)} if isinstance(value, str) else {str(value), json.dumps(value, default=str)}
    if isinstance(value, float) and value.is_integer():
        found.add(str(int(value)))
    return found


def rows_of(texts, column, by_row):
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
            yield id_text(count if by_row else each), each, text, dict.fromkeys(part.columns) | row


def _is_path(texts):
    return isinstance(texts, (str, os.PathLike))
