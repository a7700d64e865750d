"""What is read is not replaced, what is written can be read, and lists are lists."""

import json
import os
import shutil

import numpy as np
import pytest

from keras_posenc import embed, rerank
from keras_posenc.retrieval import (
    LateSpans,
    SparseVectors,
    Vectors,
    mine_hard_negatives,
    open_embedder,
    search,
)
from keras_posenc.retrieval.embedding_record import read_record
from keras_posenc.training import predict

pytestmark = pytest.mark.once
TEXTS = ["w1 w2 w3", "w4 w5", "w6 w7 w8", "w9", "w10 w2"]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_a_file_that_is_read_is_not_replaced(lines, tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(lines)
    before = lines.read_bytes()
    calls = [
        lambda: embed("bert", lines, link),
        lambda: embed("bert", lines, lines, part_size=2),
        lambda: search("bert", lines, ["w1"], lines),
        lambda: rerank("bert", "w1", lines, lines),
        lambda: mine_hard_negatives("bert", lines, lines),
        lambda: predict("bert", str(lines), output=lines, part_size=2),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="jsonl is read and would be replaced: give another"):
            call()
    assert lines.read_bytes() == before


def test_vectors_keep_their_record_until_others_are_in_their_place(
    pretrained, tmp_path, monkeypatch
):
    output = tmp_path / "v.npy"
    embed(pretrained, TEXTS, output, shard="2/2", verbose=0)
    first = read_record(output)["first"]

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopped)
        with pytest.raises(KeyboardInterrupt):
            embed(pretrained, TEXTS[:2], output, verbose=0)
    assert read_record(output)["first"] == first == 2
    embed(pretrained, TEXTS[:2], output, verbose=0)
    assert read_record(output)["first"] == 0


def test_spans_are_of_all_texts(pretrained, tmp_path):
    reading = LateSpans([[(0, 2)]] * 7)
    for more in ({}, {"part_size": 2}, {"shard": "1/2"}):
        with pytest.raises(ValueError, match="one list per text. Received: 7 lists for 5 texts"):
            embed(pretrained, TEXTS, tmp_path / "s.jsonl", reading=reading, **more)


def test_some_of_many_texts_have_no_span(pretrained, tmp_path):
    """A part or a shard of them is empty; spans that are none of any text are refused."""
    spans = [[], [(0, 2)], [], []]
    whole = embed(pretrained, TEXTS[:4], reading=LateSpans(spans), verbose=0)
    options = {"reading": LateSpans(spans), "verbose": 0}
    embed(pretrained, TEXTS[:4], tmp_path / "s.jsonl", part_size=1, **options)
    (row,) = map(json.loads, (tmp_path / "s.jsonl").read_text().splitlines())
    assert (row["row"], row["start"], row["end"]) == (2, 0, 2)
    np.testing.assert_allclose([row["vector"]], whole.vectors, atol=1e-6)
    first, second = (embed(pretrained, TEXTS[:4], shard=f"{n}/2", **options) for n in (1, 2))
    np.testing.assert_allclose(first.vectors, whole.vectors, atol=1e-6)
    assert second.vectors.shape == (0, 16) and second.of(TEXTS[2:4]) == []
    for wrong, error, message in (
        ([[]] * 4, ValueError, "at least one span. Received none"),
        ([[], None, [], []], TypeError, r"`spans\[1\]` must be a list. Received: None"),
    ):
        with pytest.raises(error, match=message):
            embed(pretrained, TEXTS[:4], reading=LateSpans(wrong), verbose=0)


@pytest.mark.parametrize(
    "texts",
    [{"id": [1], "text": ["w1"]}, {"w1", "w2"}, b"w1", np.array("w1")],
    ids=["dict", "set", "bytes", "0-d"],
)
def test_what_has_no_numbers_is_no_list(texts, pretrained, tmp_path):
    with pytest.raises(TypeError, match="must be a list"):
        embed(pretrained, texts, verbose=0)
    with pytest.raises(TypeError, match="must be a path, or a list"):
        embed(pretrained, texts, tmp_path / "v.npy", part_size=2, verbose=0)
    with pytest.raises(TypeError, match="`documents` must be a list"):
        open_embedder(pretrained).rank("w1", texts)


def test_an_empty_text_is_named_by_its_number_in_all_texts(pretrained, tmp_path):
    texts = [*TEXTS[:3], " ", "w1"]
    for more in ({}, {"part_size": 2}, {"shard": "2/2"}):
        with pytest.raises(ValueError, match="Text 3 is empty"):
            embed(pretrained, texts, tmp_path / "v.npy", verbose=0, **more)
    with pytest.raises(ValueError, match="the list is empty"):
        embed(pretrained, [], tmp_path / "v.npy", part_size=2)
    assert not (tmp_path / "v.npy").exists()
    with pytest.raises(ValueError, match=r"Text 1 has no token .* Received: '.{1,2}u200b'"):
        embed(pretrained, ["w1", "\u200b"], reading="late:2", verbose=0)


def test_sparse_vectors_of_a_table_have_no_size_for_an_npz_file(tmp_path):
    places = np.array([0, 1, 2])
    found = SparseVectors(np.array([3, 5]), np.ones(2, "float32"), places, 40)
    Vectors.of(found).save(tmp_path / "a.jsonl")
    vectors = Vectors.load(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=".npz files have the size of vectors, which a table has"):
        vectors.save(tmp_path / "b.npz")
    assert not (tmp_path / "b.npz").exists()


def test_predict_reads_as_the_embedder_was_opened(pretrained):
    model = open_embedder(pretrained, reading="chunks:5")
    text = [" ".join(TEXTS)]
    np.testing.assert_array_equal(
        model.predict(text, verbose=0), model.encode_documents(text, verbose=0)
    )
    whole = open_embedder(pretrained, max_length=5).predict(text, verbose=0)
    assert np.abs(model.predict(text, verbose=0) - whole).max() > 1e-3


def test_a_saved_model_has_the_length_that_was_given(pretrained, tmp_path):
    model, text = open_embedder(pretrained, max_length=7), [" ".join(TEXTS)]
    model.save(tmp_path / "short")
    again = open_embedder(tmp_path / "short")
    assert again.max_length == 7
    np.testing.assert_array_equal(model.predict(text, 0), again.predict(text, 0))
    chunks = open_embedder(pretrained, reading="chunks:5")
    chunks.save(tmp_path / "chunks")
    assert open_embedder(tmp_path / "chunks").max_length == open_embedder(pretrained).max_length


def test_files_that_nothing_reads_make_no_other_model(pretrained, tmp_path):
    model = shutil.copytree(pretrained, tmp_path / "model")
    embed(model, TEXTS, tmp_path / "v.npy", verbose=0)
    (model / "training_args.bin").write_bytes(b"of the Trainer")
    shutil.copytree(pretrained, model / "checkpoint-1")
    assert len(search(model, tmp_path / "v.npy", ["w4"], top_k=1, verbose=0)) == 1
    other = open_embedder(model)
    for weight in other.model.weights:
        weight.assign(weight * 2)
    other.save(model)
    with pytest.raises(ValueError, match="its weights differ"):
        search(model, tmp_path / "v.npy", ["w4"], verbose=0)


def test_vectors_open_the_model_that_made_them(pretrained, tmp_path):
    embed(pretrained, TEXTS, tmp_path / "v.npy", max_length=7, prompt="w1 ", verbose=0)
    vectors = Vectors.load(tmp_path / "v.npy")
    with pytest.raises(ValueError, match="made with prompt='w1 '"):
        vectors.open_embedder(pretrained)
    with pytest.raises(ValueError, match="made with prompt='w1 '"):
        search(open_embedder(pretrained), vectors, ["w4"], verbose=0)
    model = vectors.open_embedder(pretrained, prompt="", token_budget=64)
    assert model.max_length == 7 and model.token_budget == 64
    assert search(model, vectors, ["w4"], top_k=1, verbose=0)[0]["rank"] == 1


def test_an_embedder_of_long_chunks_keeps_its_rows_and_the_length_of_its_directory(
    pretrained, tmp_path
):
    model = open_embedder(pretrained, reading="chunks:60")
    assert model.max_length > open_embedder(pretrained).max_length
    model.save(tmp_path / "saved")
    text = [" ".join(TEXTS * 9)]
    again = open_embedder(tmp_path / "saved", reading="chunks:60")
    np.testing.assert_allclose(model.predict(text, 0), again.predict(text, 0), atol=1e-6)
