"""Chunks in their text, in windows of it, or alone behind their titles, and sums of these."""

import json
import shutil

import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.retrieval import (
    DenseEmbedder,
    LateChunks,
    Passages,
    Vectors,
    open_embedder,
    search,
    search_table,
)
from keras_posenc.retrieval.readings import reading_of
from keras_posenc.text.ids import ROWS, read_titles
from keras_posenc.text.structure import headings_of

pytestmark = pytest.mark.once
TEXTS = ["w1 w2. w3 w4. w5", "w6 w7", "w8 w9. w10 w11."]
TITLES = ["w20 w21", None, [(0, "w22"), (7, "w23")]]
PLACES = [(0, 0, 6), (0, 7, 16), (1, 0, 5), (2, 0, 6), (2, 7, 15)]
OF_CHUNK = ["w20 w21", "w20 w21", "", "w22", "w23"]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [
        {"id": f"t{n}", "title": title, "text": text}
        for n, (title, text) in enumerate(zip(TITLES, TEXTS, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_vector_is_the_sum_of_both(pretrained, source, tmp_path):
    chunks = [TEXTS[n][a:b] for n, a, b in PLACES]
    behind = [f"{t}\n{c}" if t else c for t, c in zip(OF_CHUNK, chunks, strict=True)]
    alone = unit(embed(pretrained, behind, verbose=0))
    plain = embed(pretrained, TEXTS, reading=LateChunks(5, titles=TITLES), verbose=0)
    assert list(zip(plain.texts, plain.starts, plain.ends, strict=True)) == PLACES
    model = open_embedder(pretrained)
    spans = [[(a, b) for n, a, b in PLACES if n == text] for text in range(3)]
    from keras_posenc.retrieval import embed_spans

    late = unit(embed_spans(model, TEXTS, spans, 0).vectors)
    np.testing.assert_allclose(plain.vectors, unit(alone + late), atol=1e-5)
    passages = embed(pretrained, TEXTS, reading=Passages(5, titles=TITLES), verbose=0)
    np.testing.assert_allclose(unit(passages.vectors), alone, atol=1e-5)
    assert passages.starts.tolist() == [a for _, a, _ in PLACES]
    untitled = embed(pretrained, TEXTS, reading="passages:5", verbose=0)
    chunks = untitled.of(TEXTS)
    np.testing.assert_allclose(untitled.vectors, embed(pretrained, chunks, verbose=0), atol=1e-5)
    # From the column of a file, in one call, in parts and in shards.
    for reading in ("late:5,titles=title", "late:5,titles"):
        found = embed(pretrained, source, reading=reading, verbose=0)
        np.testing.assert_allclose(found.vectors, plain.vectors, atol=1e-5)
    options = {"reading": "late:5,titles=title", "verbose": 0}
    embed(pretrained, source, tmp_path / "parts.jsonl", part_size=2, **options)
    rows = [json.loads(line) for line in (tmp_path / "parts.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([row["vector"] for row in rows], plain.vectors, atol=1e-5)
    shard = embed(pretrained, source, shard="2/2", **options)
    np.testing.assert_allclose(shard.vectors, plain.vectors[2:], atol=1e-5)
    embed(pretrained, source, tmp_path / "both.jsonl", shard="2/2", part_size=1, **options)
    rows = [json.loads(line) for line in (tmp_path / "both.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([row["vector"] for row in rows], plain.vectors[2:], atol=1e-5)
    assert embed(pretrained, source, queries=True, **options).shape == (3, 16)


def test_windows_are_summed_with_the_whole_text(pretrained):
    text = " ".join(f"w{n}" for n in range(1, 13))

    def read(**options):
        return unit(embed(pretrained, [text, "w1"], verbose=0, **options).vectors)

    whole, windows = read(reading="late:3"), read(reading="late:3", max_length=6)
    assert np.abs(whole - windows).max() > 0.01
    found = embed(pretrained, [text, "w1"], reading="late:3,windows=6", verbose=0)
    np.testing.assert_allclose(found.vectors, unit(whole + windows), atol=1e-5)
    assert found.of([text, "w1"])[-2:] == ["w10 w11 w12", "w1"]
    # The sum counts as one vector beside that of the title.
    titles = ["w20", None]
    titled = read(reading=LateChunks(3, titles=titles, windows=6))
    alone = read(reading=Passages(3, titles=titles))
    np.testing.assert_allclose(titled, unit(found.vectors + alone), atol=1e-5)
    with pytest.raises(ValueError, match="`windows` must be less than max_length=16, the tokens"):
        read(reading="late:3,windows=16")
    for prompt, least in (("", 5), ("w7 w8 ", 7)):
        given = {"reading": f"late:3,windows={least - 1}", "prompt": prompt}
        error = (
            f"`windows` must be an integer of at least {least}: .* of 3, and {least - 3} special"
        )
        with pytest.raises(ValueError, match=f"{error} .*Received: {least - 1}$"):
            read(**given)
        assert len(read(**given | {"reading": f"late:3,windows={least}"})) == 5


def test_titles_are_shown_and_their_words_found(pretrained, source, tmp_path):
    pytest.importorskip("bm25s")
    vectors = tmp_path / "v.npz"
    embed(pretrained, source, vectors, reading="late:5,titles=title", verbose=0)
    (best,) = search(pretrained, vectors, "w23", scoring="words", verbose=0)
    assert (best["id"], best["start"], best["title"]) == ("t2", 7, "w23")
    assert best["text"] == "w10 w11." and best["matches"] == []
    found = search(pretrained, vectors, "w6", verbose=0)
    titles = {(row["id"], row["start"]): row.get("title") for row in found}
    assert titles[("t1", 0)] is None and titles[("t0", 7)] == "w20 w21"
    assert search_table(found).splitlines()[0].split()[-2:] == ["title", "text"]


def test_a_row_without_a_title_has_none_of_another_column(pretrained, tmp_path):
    """The column is that of the file, also where a line of a .jsonl is without it."""
    pytest.importorskip("bm25s")
    rows = [{"title": "w20", "text": "w1"}, {"name": "w21", "text": "w2"}]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    vectors = tmp_path / "v.npz"
    embed(pretrained, tmp_path / "texts.jsonl", vectors, reading="passages:5,titles", verbose=0)
    assert not search(pretrained, vectors, "w21", scoring="words", verbose=0)
    found = search(pretrained, vectors, "w2", verbose=0)
    assert {row["id"]: row.get("title") for row in found} == {1: "w20", 2: None}


def test_titles_that_change_their_column_are_refused(pretrained, tmp_path):
    """A file is read in parts; a later one may have a column with a more usual name."""
    rows = [{"name": "w20", "text": "w1"}] * ROWS + [{"title": "w21", "text": "w2"}]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match="line 1025: titles are in 'name' before .* in 'title'"):
        embed(pretrained, tmp_path / "texts.jsonl", reading="passages:5,titles", verbose=0)
    found = read_titles(tmp_path / "texts.jsonl", "name")
    assert found == ["w20"] * ROWS + [None]


def test_a_folder_is_embedded_and_searched(pretrained, tmp_path, caplog):
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.html").write_text("<h1>w20</h1><p>w1 w2</p><h2>w21</h2><p>w3 w4</p>")
    (folder / "sub" / "b.py").write_text("class w22:\n    w5 = w6\n")
    vectors = tmp_path / "v.npz"
    embed(pretrained, folder, vectors, reading="late:12,titles", verbose=0)
    found = {row["text"]: row for row in search(pretrained, vectors, "w1", verbose=0)}
    assert found["w21\n\nw3 w4"]["title"] == "w20 > w21"
    assert found["w21\n\nw3 w4"]["id"] == "a.html"
    assert {row["title"] for row in found.values() if row["id"] == "sub/b.py"} == {"b > w22"}
    assert search(pretrained, vectors, "w1", only=["sub/b.py"], verbose=0)[0]["id"] == "sub/b.py"
    embed(pretrained, folder / "*.html", tmp_path / "p.npy", verbose=0)
    assert search(pretrained, tmp_path / "p.npy", "w1", verbose=0)[0]["id"] == "a.html"
    # What changes in it is seen, also a name alone; elsewhere it is not followed.
    (folder / "a.html").rename(folder / "a.htm")
    assert "text" not in search(pretrained, vectors, "w1", verbose=0)[0]
    (folder / "a.htm").rename(folder / "a.html")
    assert "text" in search(pretrained, vectors, "w1", verbose=0)[0]
    (folder / "sub" / "b.py").write_text("class w22:\n    w5 = w7\n")
    assert "text" not in search(pretrained, vectors, "w1", verbose=0)[0]
    assert "is missing or has changed" in caplog.text
    (tmp_path / "other").mkdir()
    for name in ("p.npy", "p.npy.json"):
        shutil.copy(tmp_path / name, tmp_path / "other")
    assert "text" not in search(pretrained, tmp_path / "other" / "p.npy", "w1", verbose=0)[0]


@pytest.mark.parametrize("reading", ["late:4,titles=title", "passages:4,titles=title"])
def test_parts_with_other_titles_are_another_run(
    pretrained, source, tmp_path, monkeypatch, reading
):
    """The texts and the name of the column are the same: only the titles in it are new."""
    output = tmp_path / "v.jsonl"
    run = lambda: embed(pretrained, source, output, reading=reading, part_size=2, verbose=0)  # noqa: E731
    run()
    changed = source.read_text().replace("w20", "w30")
    source.write_text(changed)
    run()
    expected = embed(pretrained, source, reading=reading, verbose=0).vectors
    np.testing.assert_allclose(Vectors.load(output).values, expected, atol=1e-6)
    encode, parts = DenseEmbedder.encode, []

    def killed(self, texts, *arguments, **options):
        parts.append(texts)
        if len(parts) == 2:
            raise KeyboardInterrupt
        return encode(self, texts, *arguments, **options)

    output.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(DenseEmbedder, "encode", killed)
        with pytest.raises(KeyboardInterrupt):
            run()
    source.write_text(changed.replace("w30", "w31"))
    with pytest.raises(ValueError, match="v.jsonl.parts .*reading"):
        run()


def test_readings_with_titles():
    assert reading_of("late:8,titles=name") == LateChunks(8, titles="name")
    assert reading_of("late:8,overlap=2,titles") == LateChunks(8, 2, "auto")
    assert reading_of("passages:8,2") == Passages(8, 2) != LateChunks(8, 2)
    assert str(reading_of("passages:8,overlap=2,titles=a b")) == "passages:8,overlap=2,titles=a b"
    assert str(reading_of("late:8,2,windows=12")) == "late:8,overlap=2,windows=12"
    for wrong in ("late:8,windows=7", "late:8,windows=0"):
        with pytest.raises(ValueError, match="`windows` must be .*a window holds a chunk"):
            reading_of(wrong)
    for titles in (("a", "b"), np.array(["a", "b"])):  # as a list has it
        assert LateChunks(8, titles=titles) == LateChunks(8, titles=["a", "b"])
        assert str(LateChunks(8, titles=titles)) == str(LateChunks(8, titles=["a", "b"]))
    one, other = (str(LateChunks(8, titles=[each])) for each in ("a", "b"))
    assert one != other
    for wrong in (
        *("chunks:8,titles", "late", "late:x", "whole:8", "late:8,at=2"),
        *("passages:8,windows=9", "late:8,windows=x"),
    ):
        with pytest.raises(
            ValueError, match="`reading` must be like 'whole', 'ends', 'chunks:256' or"
        ):
            reading_of(wrong)
    assert headings_of([[5, "b"], [0, "a"]]) == [(0, "a"), (5, "b")]


def test_refused_titles(pretrained, source):
    for titles, error, match in [
        (
            ["a"],
            ValueError,
            "`titles` must have one title per text. Received: 1 titles for",
        ),
        ("name", ValueError, "titles='name' names a column of a file that `embed` reads: give a"),
        ([1, "a", "b"], TypeError, "A title must be a str, or a list of .* for text 0: 1"),
        ([[("a", 1)], "a", "b"], TypeError, "A title must be a str, or a list of"),
    ]:
        with pytest.raises(error, match=match):
            embed(pretrained, TEXTS, reading=LateChunks(5, titles=titles), verbose=0)
    with pytest.raises(ValueError, match="has no column 'name'; there are"):
        embed(pretrained, source, reading="late:5,titles=name", verbose=0)
    with pytest.raises(TypeError, match="`titles` must be a list"):
        LateChunks(5, titles=7)
