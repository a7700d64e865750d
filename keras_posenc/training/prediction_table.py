"""Predictions as a table: with a header and the rows' ids, or beside the columns of a file."""

import csv
import io
import json
import os
import pathlib

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import cell, json_line, quote, visible
from keras_posenc.files.writing import check_place, make_folder, write_text
from keras_posenc.processes.together import read_shard
from keras_posenc.text.files import SUFFIXES as TABLES
from keras_posenc.text.files import ids_in, read_rows
from keras_posenc.text.tagged import COLUMNS as WORD_COLUMNS
from keras_posenc.training.finetuning.tag import TagPrediction

FORMATS = ("tsv", "jsonl")
SUFFIXES = (".csv", ".tsv", ".jsonl")
PREFIX = "predicted_"


def predictions_table(predictions, source=None, form="tsv", shard=None):
    """Returns predictions as text with a header and the id of each row, to be read or piped on.

    Args:
        predictions: list. What `predict` returns.
        source: str, path or list. The texts. The ids are those of a column of the file that has a
            usual name, such as id; otherwise the numbers of the rows, from 1.
        form: str. With "tsv", a cell that a spreadsheet would run as a formula is preceded by an
            apostrophe. With "jsonl", there is an object per row with the whole prediction.
        shard: str or None. The `shard` of `predict`.

    Raises:
        FileNotFoundError: if `source` is a path without a file.
        ImportError: if `source` is a .parquet file and pyarrow is missing.

    Example:

    >>> found = [Prediction("b", 0.75, {"a": 0.25, "b": 0.75})]
    >>> predictions_table(found)
    'row\\tlabel\\tprobability\\n1\\tb\\t0.7500'
    """
    checks.choice("form", form, FORMATS)
    _, _, (name, ids) = _table(source, predictions, shard)
    if form == "jsonl":
        pairs = zip(ids, predictions, strict=True)
        return "\n".join(json_line({name: number, **each._asdict()}) for number, each in pairs)
    cells = [[visible(_one_line(number))] for number in ids]
    return _delimited([name], cells, predictions, "\t").rstrip("\n")


def write_predictions(path, predictions, source=None, shard=None):
    """Writes predictions to a file, beside the columns of what was predicted.

    A .csv or .tsv file has the columns of `source` as they are, then those of the predictions, such
    as predicted_label and predicted_probability. Of objects it has all keys that occur; what is no
    str is JSON. A .jsonl file has the objects of `source` with `prediction`, which has all that is
    predicted.

    Args:
        path: the file to write, .csv, .tsv or .jsonl; its folder is created.
        predictions: what `predict` returns.
        source: what was predicted, a path or a list.
        shard: str or None. The `shard` of `predict`.

    Returns:
        The path written, as a `pathlib.Path`.

    Raises:
        FileNotFoundError: if `source` is a path without a file.
        ImportError: if `source` is a .parquet file and pyarrow is missing.

    Example:

    >>> path = write_predictions("found.csv", predict("out", "test.tsv", verbose=0), "test.tsv")
    >>> path.read_text().splitlines()[0]
    'text,label,predicted_label,predicted_probability'
    """
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"path={quote(str(path))}: predictions are written to a file that ends in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    check_place(path, [source])
    columns, rows, _ = _table(source, predictions, shard)
    if path.suffix == ".jsonl":
        _check_free(source, columns, ["prediction"])
        pairs = zip(rows, predictions, strict=True)
        lines = (json_line({**row, "prediction": each._asdict()}) for row, each in pairs)
        text = "".join(f"{line}\n" for line in lines)
    else:
        cells = [[row.get(name, "") for name in columns] for row in rows]
        delimiter = "," if path.suffix == ".csv" else "\t"
        text = _delimited(columns, cells, predictions, delimiter, PREFIX, source)
    make_folder(path.parent)
    write_text(path, text)
    return path


def _table(source, predictions, shard=None):
    """(columns, rows as dicts, the name and the values of their ids) of what was predicted; the
    numbers of its rows if it is no table."""
    count = len(predictions)
    if isinstance(source, (str, os.PathLike)):
        if not _is_table(pathlib.Path(source).suffix.lower(), predictions):
            source = None
        else:
            columns, numbered, _ = read_rows(source)
            rows = [row for _, row in numbered]
    elif source is not None:
        is_pair = all(isinstance(each, tuple) and len(each) == 2 for each in source)
        columns = ["question", "text"] if is_pair else ["text"]
        cells = source if is_pair else [(_words(each),) for each in source]
        rows = [dict(zip(columns, each, strict=True)) for each in cells]
    if source is None:
        columns, rows = ["row"], [{"row": number} for number in range(1, count + 1)]
    name, ids = ids_in(columns, rows)
    if source is not None:
        rows, ids = map(read_shard(shard), (rows, ids))
    if len(rows) != count:
        raise ValueError(
            f"{quote(str(source))} has {len(rows):,} rows, and there are {count:,} predictions: "
            "give what they were predicted for."
        )
    return columns, rows, (name, ids)


def _is_table(suffix, predictions):
    """Whether a file has a row for each text; a tagger reads columns of words in some."""
    if predictions and isinstance(predictions[0], TagPrediction) and suffix in WORD_COLUMNS:
        return suffix == ".txt"  # which has a text per line without tags
    return suffix in TABLES


def _words(text):
    return text if isinstance(text, str) else " ".join(text)


def _delimited(columns, cells, predictions, delimiter, prefix="", source=None):
    """The text of a table. Only the cells of the predictions are guarded against formulas: the
    rest is as the user has it."""
    names = [f"{prefix}{name}" for name in (predictions[0].columns() if predictions else ())]
    _check_free(source, columns, names)
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*map(_one_line, columns), *names])
    for row, prediction in zip(cells, predictions, strict=True):
        given = map(_one_line if delimiter == "\t" else _as_text, row)
        writer.writerow([*given, *map(cell, prediction.cells())])
    return text.getvalue()


def _one_line(value):
    """A cell without what ends it, or a line, in a file with tabs."""
    value = _as_text(value)
    return " ".join(value.split()) if set(value) & set("\t\r\n") else value


def _as_text(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_free(source, columns, names):
    if taken := [name for name in names if name in columns]:
        raise ValueError(
            f"{quote(str(source))} has a column {quote(taken[0])} already: rename it, or write the "
            "predictions beside another file."
        )
