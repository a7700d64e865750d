"""Predictions with a header and ids, and beside the columns of a file of each kind."""

import csv
import datetime
import importlib
import json

import pytest

from keras_posenc.cli import programs
from keras_posenc.text import read_texts
from keras_posenc.training import Prediction, prediction_table, predictions_table, write_predictions
from keras_posenc.training.finetuning import answer, embed, multilabel, regress, tag

ENTITY = {"kind": "P", "start": 0, "end": 2, "text": "Jo"}
pytestmark = pytest.mark.once

FOUND = [
    Prediction("a", 0.75, {"a": 0.75, "=b": 0.25}),
    Prediction("=b", 0.5, {"a": 0.5, "=b": 0.5}),
]


def test_rows_have_numbers_or_ids(tmp_path):
    assert predictions_table(FOUND).splitlines() == [
        "row\tlabel\tprobability",
        "1\ta\t0.7500",
        "2\t'=b\t0.5000",
    ]
    path = tmp_path / "texts.csv"
    path.write_text('text,ID\n"one,\ntwo",x7\nthree,x8\n')
    assert [line.split("\t")[0] for line in predictions_table(FOUND, path).splitlines()] == [
        "ID",
        "x7",
        "x8",
    ]
    rows = [json.loads(line) for line in predictions_table(FOUND, path, "jsonl").splitlines()]
    assert rows[1] == {"ID": "x8", **FOUND[1]._asdict()}
    assert predictions_table([], []) == "row"


@pytest.mark.parametrize(
    ("prediction", "names"),
    [
        (answer.AnswerPrediction("x", 1, 2, 0.5), ["answer", "characters", "probability"]),
        (embed.Vector([0.5, 1.0]), ["value_1", "value_2"]),
        (multilabel.MultiPrediction(["a", "b"], {}), ["labels"]),
        (regress.NumberPrediction([0.5]), ["value"]),
        (tag.TagPrediction([], None), ["entities"]),
        (
            tag.TagPrediction([ENTITY] * 2, None),
            ["entities"],
        ),
    ],
)
def test_every_cell_has_a_name(prediction, names):
    assert prediction.columns() == names and len(prediction.cells()) == len(names)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_columns_come_first_and_are_unchanged(tmp_path, suffix):
    source = tmp_path / "texts.csv"
    source.write_text('id,text,label\n7,"=one, ""two""",a\n8,three,b\n')
    path = write_predictions(tmp_path / "new" / f"found{suffix}", FOUND, source)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="," if suffix == ".csv" else "\t"))
    assert [row["text"] for row in rows] == ['=one, "two"', "three"]
    assert [row["id"] for row in rows] == ["7", "8"] and [row["label"] for row in rows] == [
        "a",
        "b",
    ]
    assert [row["predicted_label"] for row in rows] == ["a", "'=b"]
    assert read_texts(path).texts == read_texts(source).texts


def test_objects_keep_what_they_have(tmp_path):
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": "one", "n": 1.5}\n{"text": "two", "tags": ["x"]}\n')
    path = write_predictions(tmp_path / "found.jsonl", FOUND, source)
    one, two = map(json.loads, path.read_text().splitlines())
    assert one == {"text": "one", "n": 1.5, "prediction": FOUND[0]._asdict()}
    assert two["tags"] == ["x"]
    for suffix in (".tsv", ".csv"):
        path = write_predictions(tmp_path / f"found{suffix}", FOUND, source)
        with open(path, newline="") as file:
            rows = list(csv.reader(file, delimiter="\t" if suffix == ".tsv" else ","))
        assert rows[0] == ["text", "n", "tags", "predicted_label", "predicted_probability"]
        assert rows[1][:4] == ["one", "1.5", "", "a"] and rows[2][:4] == ["two", "", '["x"]', "'=b"]


def test_columns_of_words_are_no_table(tmp_path):
    """A tagger reads two texts of it, not three rows of which the first names columns."""
    source, tags = tmp_path / "words.tsv", [tag.TagPrediction([], None)] * 2
    source.write_text("Jo\tB-P\nleft\tO\n\nTwice\tO\n")
    assert predictions_table(tags, source).splitlines()[1:] == ["1\t-", "2\t-"]
    path = write_predictions(tmp_path / "found.csv", tags, source)
    assert path.read_text() == "row,predicted_entities\n1,-\n2,-\n"
    source = source.with_suffix(".txt")
    source.write_text("Jo left\nTwice\n")
    path = write_predictions(tmp_path / "found.csv", tags, source)
    assert path.read_text() == "text,predicted_entities\nJo left,-\nTwice,-\n"


def test_dates_in_objects_of_parquet_are_written(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    day = {"day": datetime.date(2026, 1, 2)}
    table = pyarrow.table({"text": ["one", "two"], "more": [day, {"day": None}]})
    importlib.import_module("pyarrow.parquet").write_table(table, tmp_path / "texts.parquet")
    path = write_predictions(tmp_path / "found.jsonl", FOUND, tmp_path / "texts.parquet")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["more"] for row in rows] == [{"day": "2026-01-02"}, {"day": None}]


def test_texts_of_python_and_files_that_are_no_tables(tmp_path):
    found = [answer.AnswerPrediction("x", 1, 2, 0.5)]
    path = write_predictions(tmp_path / "found.csv", found, [("Which?", "This\none.")])
    with open(path, newline="") as file:
        assert list(csv.reader(file))[1] == ["Which?", "This\none.", "x", "1-2", "0.5000"]
    tags = [tag.TagPrediction([], None)]
    assert predictions_table(tags, [["Jo", "left"]]) == "row\tentities\n1\t-"
    path = write_predictions(tmp_path / "found.csv", tags, "words.conll")
    assert path.read_text() == "row,predicted_entities\n1,-\n"


def test_errors(tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text,predicted_label,prediction\none,a,b\ntwo,b,c\n")
    with pytest.raises(ValueError, match="has a column 'predicted_label' already: rename it"):
        write_predictions(tmp_path / "found.csv", FOUND, source)
    with pytest.raises(ValueError, match="has a column 'prediction' already"):
        write_predictions(tmp_path / "found.jsonl", FOUND, source)
    with pytest.raises(ValueError, match="has 2 rows, and there are 1 predictions"):
        predictions_table(FOUND[:1], source)
    with pytest.raises(ValueError, match=r"found.txt'.*ends in .csv, .tsv or .jsonl"):
        write_predictions(tmp_path / "found.txt", FOUND)
    with pytest.raises(ValueError, match="`form` must be one of"):
        predictions_table(FOUND, form="csv")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]
    assert programs.PREDICTIONS == prediction_table.SUFFIXES


@pytest.mark.once
def test_predictions_do_not_replace_what_was_predicted(tmp_path):
    found = [Prediction("a", 0.5, {"a": 0.5, "b": 0.5})]
    (tmp_path / "new.csv").write_text("text\nw1\n")
    with pytest.raises(
        ValueError, match="new.csv is read and would be replaced: give another path"
    ):
        write_predictions(tmp_path / "new.csv", found, str(tmp_path / "new.csv"))
    with pytest.raises(NotADirectoryError, match="new.csv cannot be created: it, or a folder"):
        write_predictions(tmp_path / "new.csv" / "a.csv", found, ["w1"])
    assert (tmp_path / "new.csv").read_text() == "text\nw1\n"
