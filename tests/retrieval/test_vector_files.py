"""Vectors as rows with ids, from a file, a list or a part of either."""

import importlib.util
import json
import sys

import numpy as np
import pytest

from keras_posenc.retrieval import LateSpans, Vectors, embed, search, vector_files
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.retrieval.vector_files import check_output, ids_of, write_vectors

pytestmark = pytest.mark.once

TEXTS = ["w1 w2. w3 w4.", "w5", "w6 w7"]


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_rows_have_the_ids_of_a_file(pretrained, tmp_path):
    source = tmp_path / "texts.tsv"
    source.write_text("text\tid\n" + "".join(f"{t}\tx{n}\n" for n, t in enumerate(TEXTS)))
    found = embed(pretrained, source, tmp_path / "found.jsonl", verbose=0)
    rows = rows_of(tmp_path / "found.jsonl")
    assert [row["id"] for row in rows] == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(np.array([row["vector"] for row in rows], "float32"), found)
    late = dict(reading="late:4", shard="2/2", verbose=0)
    found = embed(pretrained, source, tmp_path / "found.jsonl", **late)
    rows = rows_of(tmp_path / "found.jsonl")
    assert [row["id"] for row in rows] == [["x1", "x2"][text] for text in found.texts]
    assert [(row["start"], row["end"]) for row in rows] == list(
        zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    )
    embed(pretrained, TEXTS, tmp_path / "found.jsonl", shard="2/2", verbose=0)
    assert [row["row"] for row in rows_of(tmp_path / "found.jsonl")] == [2, 3]


def test_an_empty_id_is_refused_before_the_model_is_opened(tmp_path):
    for name, content in {
        "texts.csv": "id,text\na b,w1\n,w2\n",
        "texts.jsonl": '{"id": 1, "text": "w1"}\n{"text": "w2"}\n',
    }.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=f"{name}, line [23]: the 'id' is empty; fill it, or"):
            embed("nowhere", tmp_path / name, tmp_path / "found.jsonl")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".tab"])
@pytest.mark.parametrize("parts", [{}, {"part_size": 2}], ids=["whole", "parts"])
def test_an_id_of_two_rows_is_refused_before_the_model_is_opened(tmp_path, suffix, parts):
    source = tmp_path / f"texts{suffix}"
    ids = [f"x{n}" for n in range(1500)]  # more than are read together
    ids[1400] = "x3"
    write_table(source, ids)
    first = {".jsonl": 4, ".parquet": 4, ".tab": 7}.get(suffix, 5)  # after a header
    expected = f"lines {first} and {first + 1397}: both have the 'id' 'x3'; give each row its own"
    with pytest.raises(ValueError, match=expected):
        embed("nowhere", source, tmp_path / "found.jsonl", **parts)
    with pytest.raises(FileNotFoundError, match="no directory nowhere"):  # which writes no ids
        embed("nowhere", source, tmp_path / "found.npy")


def test_ids_that_are_written_alike_are_the_same(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"id": 1, "text": "w1"}\n{"id": "1", "text": "w2"}\n')
    with pytest.raises(ValueError, match="lines 1 and 2: both have the 'id' '1'"):
        embed("nowhere", tmp_path / "texts.jsonl", tmp_path / "found.jsonl")


def write_table(path, ids):
    """A file of a text per id."""
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({"id": ids, "text": ["w1"] * len(ids)})
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
        return
    if path.suffix == ".jsonl":
        lines = [json.dumps({"id": each, "text": "w1"}) for each in ids]
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        types = ["string\tstring", "meta\tmeta"] if path.suffix == ".tab" else []
        lines = [f"id{mark}text", *types, *(f"{each}{mark}w1" for each in ids)]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("late", [{}, {"reading": "late:4,overlap=1"}])
def test_rows_are_written_part_by_part_and_go_on(pretrained, tmp_path, monkeypatch, late):
    source = tmp_path / "texts.jsonl"
    rows = [{"id": f"x{n}", "text": text} for n, text in enumerate(TEXTS)]
    source.write_text("\n".join(map(json.dumps, rows)))
    embed(pretrained, source, tmp_path / "whole.jsonl", verbose=0, **late)
    options = {"part_size": 2, "verbose": 0, **late}
    written, lines = [], vector_files.json_lines

    def stop(found, ids):
        written.append(list(ids[1]))
        if len(written) == 2:
            raise KeyboardInterrupt
        return lines(found, ids)

    # The package has a function of the name of the module.
    monkeypatch.setattr(sys.modules["keras_posenc.retrieval.embed"], "json_lines", stop)
    with pytest.raises(KeyboardInterrupt):
        embed(pretrained, source, tmp_path / "parts.jsonl", **options)
    assert embed(pretrained, source, tmp_path / "parts.jsonl", **options) == len(TEXTS)
    assert written == [["x0", "x1"], ["x2"], ["x2"]]  # the first part is not computed again
    for found, wanted in zip(
        *map(rows_of, (tmp_path / "parts.jsonl", tmp_path / "whole.jsonl")), strict=True
    ):
        np.testing.assert_allclose(found.pop("vector"), wanted.pop("vector"), atol=1e-6)
        assert found == wanted


def test_parts_need_a_file_that_grows(pretrained, tmp_path):
    with pytest.raises(ValueError, match="`part_size` needs a .jsonl file as `output`"):
        embed(pretrained, TEXTS, tmp_path / "a.npz", part_size=2, reading="late:4")
    with pytest.raises(ValueError, match="`part_size` needs a .npy or .jsonl file as `output`"):
        embed(pretrained, TEXTS, part_size=2)


@pytest.mark.once
def test_spans_go_with_their_parts(pretrained, tmp_path):
    spans = [[(0, 2)], [(0, 2), (3, 5)], [(3, 5)]]
    texts = ["w1 w2", "w3 w4", "w5 w6"]
    whole = embed(pretrained, texts, reading=LateSpans(spans), verbose=0)
    options = {"reading": LateSpans(spans), "part_size": 2, "verbose": 0}
    embed(pretrained, texts, tmp_path / "parts.jsonl", **options)
    found = Vectors.load(tmp_path / "parts.jsonl")
    np.testing.assert_allclose(found.values, whole.vectors, atol=1e-6)
    assert found.ids == [1, 2, 2, 3] and found.places[0].tolist() == [0, 0, 3, 3]


@pytest.mark.parametrize(
    ("found", "second"),
    [
        (MultiVectors(np.eye(3), np.array([0, 1, 3])), {"vectors": np.eye(3)[1:].tolist()}),
        (
            SparseVectors.of(np.array([[0, 2.0, 0], [1, 0, 3]])),
            {"indices": [0, 2], "values": [1.0, 3.0]},
        ),
        (
            ChunkVectors(np.eye(2), np.array([1, 1]), np.array([0, 4]), np.array([3, 9])),
            {"start": 4, "end": 9, "vector": [0.0, 1.0]},
        ),
    ],
    ids=["multi", "sparse", "chunks"],
)
def test_rows_of_every_kind_of_vector(tmp_path, found, second):
    write_vectors(tmp_path / "found.jsonl", found, ("id", ["a", "b"]))
    assert rows_of(tmp_path / "found.jsonl")[1] == {"id": "b", **second}


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "found.parquet"
    vectors = np.array([[0.25, 1.0], [2.0, 3.0]], "float32")
    write_vectors(path, vectors, ids_of(["a", "b"], path))
    assert parquet.read_table(path).to_pydict() == {"row": [1, 2], "vector": vectors.tolist()}


def test_formats_that_cannot_be_written(monkeypatch):
    with pytest.raises(ValueError, match=r"output is a .npy file.*or a .jsonl or .parquet file"):
        check_output("found.txt", ".npy")
    find = importlib.util.find_spec
    without = lambda name: None if name == "pyarrow" else find(name)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(ImportError, match="pip install pyarrow, or give a .jsonl"):
        embed("none", ["a"], "found.parquet")


def test_ids_that_no_encoding_can_write(pretrained, tmp_path):
    ids = ["\ud800", "a\x1b[31m"]
    lines = [json.dumps({"text": "w1", "id": each}) + "\n" for each in ids]
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    embed(pretrained, tmp_path / "texts.jsonl", tmp_path / "found.jsonl", verbose=0)
    assert (tmp_path / "found.jsonl").read_bytes().isascii()
    assert [row["id"] for row in rows_of(tmp_path / "found.jsonl")] == ids


@pytest.mark.parametrize(
    "ids", [["a", 1], [1.0, 1], [True, 1], [10**30, 1], ["\ud800", "c"]], ids=repr
)
def test_ids_of_several_types_are_the_same_in_both_tables(pretrained, tmp_path, ids):
    pytest.importorskip("pyarrow")
    lines = [json.dumps({"text": f"w{n}", "id": each}) + "\n" for n, each in enumerate(ids)]
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    results = []
    for suffix in (".jsonl", ".parquet"):
        path = tmp_path / f"found{suffix}"
        embed(pretrained, tmp_path / "texts.jsonl", path, verbose=0)
        results.append(search(pretrained, path, ["w1"], verbose=0))
    assert [row["id"] for row in results[0]] == [row["id"] for row in results[1]]
    assert sorted(map(repr, (row["id"] for row in results[1]))) == sorted(map(repr, ids))


def test_ids_that_become_one_in_a_column_are_refused_at_once(tmp_path):
    pytest.importorskip("pyarrow")
    lines = [json.dumps({"text": "w1", "id": each}) + "\n" for each in ("\\ud800", "\ud800")]
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    with pytest.raises(ValueError, match="in a .parquet file the ids .* are the same text"):
        embed("nowhere", tmp_path / "texts.jsonl", tmp_path / "found.parquet")
