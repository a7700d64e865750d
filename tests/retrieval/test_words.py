"""Search by words, and by words and vectors together, against plain loops."""

import json
import math
import unicodedata

import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.retrieval import (
    LateInteraction,
    SparseEmbedder,
    Vectors,
    open_embedder,
    search,
    search_table,
)
from keras_posenc.retrieval.words import index
from keras_posenc.retrieval.words.index import WordIndex, index_path, places_of, words_of
from keras_posenc.retrieval.words.scoring import Scoring

pytest.importorskip("bm25s")
pytestmark = pytest.mark.once
TEXTS = ["w1 w2. w3 w4.", "w5 w5 w1", "w6 w7 w8. w9", "w10 w2", "w1 w1 w1. w11"]
ROWS = [{"id": f"t{n}", "kind": "ab"[n % 2], "text": text} for n, text in enumerate(TEXTS)]


def bm25(query, passages, k1=1.2, b=0.75):
    """Lucene's BM25 by loops over words, with words split at spaces and full stops."""
    split = [passage.replace(".", " ").split() for passage in passages]
    mean = sum(map(len, split)) / len(split)
    scores = np.zeros(len(split))
    for word in query.split():
        having = sum(word in words for words in split)
        idf = math.log(1 + (len(split) - having + 0.5) / (having + 0.5))
        for number, words in enumerate(split):
            tf = words.count(word)
            scores[number] += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean))
    return scores


def scaled(scores):
    return (scores - scores.min()) / (scores.max() - scores.min())


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_scores_of_words_are_those_of_a_loop():
    queries = ["w1", "w2 w1 w5", "w5 w5", "w99", "w1 w99"]
    index = WordIndex.of(TEXTS)
    for query in queries:
        np.testing.assert_allclose(index.scores(query), bm25(query, TEXTS), rtol=1e-5)
    assert WordIndex.of(["...", "!"]).scores("w1").tolist() == [0, 0]


def test_the_words_of_texts_and_their_places():
    assert words_of("A B-c don't 4,5") == ["a", "b", "c", "don", "t", "4", "5"]
    assert words_of("get_file_name HTTPServer2") == [
        *("get_file_name", "get", "file", "name"),
        *("httpserver2", "http", "server", "2"),
    ]
    assert words_of("Ünïted STRASSE Straße") == ["united", "strasse", "strasse"]
    assert words_of("東京へ go") == ["東", "京", "へ", "go"]
    text = "The getFileName of a FILE"
    assert [text[a:b] for a, b in places_of(text, {"file"})] == ["getFileName", "FILE"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("naïve Café ÉCOLE Ångström", ["naive", "cafe", "ecole", "angstrom"]),
        ("がぎ", ["か", "き"]),
        ("ÜBER_größe", ["uber_grosse", "uber", "grosse"]),
        ("हिन्दी दिन", ["हिनदी", "दिन"]),
        ("ИЙ ёж", ["ии", "еж"]),
        ("❤️ ok", ["ok"]),
    ],
)
def test_words_are_the_same_however_accents_are_written(text, words):
    """As characters of their own, as in files of macOS, or not; vowels of Hindi divide no word."""
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, text)
        assert words_of(written) == words
        places = places_of(written, {words[-1]})
        assert [words_of(written[a:b])[-1] for a, b in places] == [words[-1]]


def test_an_index_of_words_of_an_earlier_version_is_made_again(pretrained, source, monkeypatch):
    path = source.with_name("v.npy")
    embed(pretrained, source, path, verbose=0)
    monkeypatch.setattr(index, "_VERSION", 1)
    monkeypatch.setattr(index, "words_of", str.split)
    search(pretrained, path, "w2.", scoring="words", verbose=0)
    monkeypatch.undo()
    found = search(pretrained, path, "w2", scoring="words", verbose=0)
    assert [row["id"] for row in found] == ["t3", "t0"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("scoring", ["words", "both", "both:0.2", "rrf", "rrf:1", "vectors"])
def test_every_scoring_ranks_as_a_loop_over_passages_does(pretrained, source, scoring, late):
    reading = {"reading": "late:4"} if late else {}
    found = embed(pretrained, source, verbose=0, **reading)
    passages = found.of(TEXTS) if late else TEXTS
    texts = [row["id"] for row in ROWS]
    ids = [texts[n] for n in found.texts] if late else texts
    query = "w1 w2"
    asked = embed(pretrained, [query], verbose=0)[0]
    values = found.vectors if late else found
    vectors = values @ asked / np.linalg.norm(values, axis=1) / np.linalg.norm(asked)
    words = bm25(query, passages)
    weight = 0.2 if scoring == "both:0.2" else Scoring.of("both").number
    if scoring == "words":
        expected = words
    elif scoring == "vectors":
        expected = vectors
    elif scoring.startswith("both"):
        expected = weight * scaled(words) + (1 - weight) * scaled(vectors)
    else:
        constant = 1 if scoring == "rrf:1" else 60
        expected = np.zeros(len(passages))
        for scores in (vectors, words):
            ranked = np.argsort(-scores, kind="stable")
            for rank, number in enumerate(ranked, 1):
                expected[number] += (scores is vectors or words[number] > 0) / (constant + rank)
    options = dict(texts=source, scoring=scoring, top_k=20, verbose=0)
    rows = search(pretrained, found, query, **options)
    order = [n for n in np.argsort(-expected, kind="stable") if scoring != "words" or words[n] > 0]
    np.testing.assert_allclose([row["score"] for row in rows], expected[order], atol=1e-5)
    assert [(row["id"], row["text"]) for row in rows] == [(ids[n], passages[n]) for n in order]
    if scoring == "vectors":
        assert "matches" not in rows[0]
        return
    for row, number in zip(rows, order, strict=True):
        assert row["word_score"] == pytest.approx(words[number], abs=1e-5)
        assert {row["text"][a:b] for a, b in row["matches"]} <= {"w1", "w2"}
        assert bool(row["matches"]) == (words[number] > 0)
        assert scoring == "words" or row["vector_score"] == pytest.approx(vectors[number], abs=1e-5)


@pytest.mark.parametrize("kind", ["multi", "sparse"])
def test_words_beside_other_kinds_of_vectors(request, kind):
    directory = request.getfixturevalue("splade")
    model, texts = SparseEmbedder(directory), TEXTS
    if kind == "multi":
        model = LateInteraction(request.getfixturevalue("colberts") / "pylate")
        texts = ["one two three", "four", "five six"]
    query = texts[0].split()[0]
    found = model.encode_documents(texts, 0)
    vectors = model.similarity(model.encode_queries([query], 0), found)[0]
    expected = 0.25 * scaled(bm25(query, texts)) + 0.75 * scaled(vectors)
    options = dict(texts=texts, scoring="both:0.25", verbose=0)
    for row in search(model, found, query, **options):
        assert row["score"] == pytest.approx(expected[row["id"] - 1], abs=1e-5)


def test_words_alone_open_no_model(pretrained, source, monkeypatch):
    found = embed(pretrained, source, verbose=0)
    monkeypatch.setattr("keras_posenc.retrieval.embedders.Opening.open", None)
    (best,) = search(pretrained, found, "w10", texts=source, scoring="words", verbose=0)
    assert (best["id"], best["text"]) == ("t3", TEXTS[3])


def test_the_index_is_kept_beside_the_vectors(pretrained, source, tmp_path, monkeypatch):
    vectors = tmp_path / "v.npz"
    arguments = (pretrained, vectors, ["w1 w2", "w10"])
    options = {"scoring": "both", "verbose": 0}
    embed(pretrained, source, vectors, reading="late:4", verbose=0)
    first = search(*arguments, **options)
    assert index_path(vectors).is_file()
    with monkeypatch.context() as patched:
        patched.setattr(WordIndex, "of", None)
        assert search(*arguments, **options) == first
    for content in (b"", b"something else"):  # a damaged one is refused, not replaced
        index_path(vectors).write_bytes(content)
        with pytest.raises(ValueError, match="words.npz is refused: this library has not written"):
            search(*arguments, **options)
    index_path(vectors).unlink()
    # Of other texts and vectors under the same name it is made again.
    search(*arguments, **options)
    rows = [{**row, "text": row["text"].replace("w10", "w20")} for row in ROWS]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    embed(pretrained, source, vectors, reading="late:4", verbose=0)
    assert not search(pretrained, vectors, "w10", scoring="words", verbose=0)
    assert search(pretrained, vectors, "w20", scoring="words", verbose=0)
    # Of texts that are given nothing is known, and nothing is kept.
    index_path(vectors).unlink()
    search(*arguments, texts=source, **options)
    assert not index_path(vectors).exists()


def test_an_index_that_does_not_fit_is_made_again(pretrained, source, tmp_path):
    vectors = tmp_path / "v.npy"
    embed(pretrained, source, vectors, verbose=0)
    options = {"scoring": "words", "verbose": 0}
    first = search(pretrained, vectors, "w1", **options)
    good = dict(np.load(index_path(vectors)))
    for name, value in {
        "indices": good["indices"] + 9,
        "indptr": good["indptr"][::-1],
        "data": good["data"] * np.nan,
        "words": good["words"][:3],
        "of": good["of"][::-1],
        "count": np.array(2),
    }.items():
        np.savez(index_path(vectors), **{**good, name: value})
        assert search(pretrained, vectors, "w1", **options) == first


def test_the_index_is_of_the_column_that_is_searched(pretrained, tmp_path):
    rows = [{"text": text, "kind": f"w2{n}"} for n, text in enumerate(TEXTS)]
    source, vectors = tmp_path / "texts.jsonl", tmp_path / "v.npy"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    embed(pretrained, source, vectors, verbose=0)
    loaded = Vectors.load(vectors)
    for stored in (vectors, loaded):
        for column, word, expected in (("text", "w10", 4), ("kind", "w21", 2), ("text", "w10", 4)):
            options = {"text": column, "scoring": "words", "verbose": 0}
            found = search(pretrained, stored, word, **options)
            assert [row["id"] for row in found] == [expected]


@pytest.mark.parametrize("weight", [0, 0.5, 1])
def test_what_is_left_out_has_no_score(weight):
    vectors, words = np.array([[0.1, 0.5, -np.inf], [0, 2, -np.inf]], "float32")
    for found in (
        Scoring.of(f"both:{weight}").fuse(vectors, words),
        Scoring.of(f"both:{weight}").fuse(vectors, np.minimum(words, 0)),  # all score alike
    ):
        assert np.isfinite(found[:2]).all() and found[2] == -np.inf


@pytest.mark.parametrize("scoring", ["vectors", "words", "both", "both:0", "both:1", "rrf"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".jsonl"])
def test_only_some_texts_are_searched(pretrained, source, tmp_path, scoring, suffix):
    late = {"reading": "late:4"} if suffix == ".npz" else {}
    model = open_embedder(pretrained, **late)  # once, for all searches
    embed(model, source, tmp_path / f"v{suffix}", verbose=0)

    def found(**options):
        arguments = (model, tmp_path / f"v{suffix}", ["w1 w5 w10 w6 w2"])
        return search(*arguments, scoring=scoring, top_k=9, verbose=0, **options)

    assert {row["id"] for row in found()} == {f"t{n}" for n in range(5)}
    assert {row["id"] for row in found(only=["t1", "t3"])} == {"t1", "t3"}
    assert {row["id"] for row in found(only={"kind": "b"})} == {"t1", "t3"}
    assert {row["id"] for row in found(only={"kind": ["b"], "id": ["t1", "t2"]})} == {"t1"}
    per = found(per_document=True)
    assert sorted(row["id"] for row in per) == [f"t{n}" for n in range(5)]
    best = {}
    for row in found():
        best.setdefault(row["id"], row["score"])
    assert {row["id"]: row["score"] for row in per} == best
    with pytest.raises(ValueError, match="`only` must leave a text to search. Received: {'kind'"):
        found(only={"kind": "z"})
    with pytest.raises(ValueError, match="`only` must name columns of the texts, .* 'sort'"):
        found(only={"sort": "b"})
    with pytest.raises(TypeError, match="`only` must be a list of ids, or a dict .* Received: str"):
        found(only="t1")
    with pytest.raises(ValueError, match="`only` must have ids of the 5 texts .* Received: 't9'"):
        found(only=["t1", "t9"])


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_values_of_columns_are_as_python_or_a_file_writes_them(pretrained, tmp_path, suffix):
    """The command line has "true" and "2020", and numbers of pandas are 2020.0."""
    columns = {"text": ["w1", "w2", "w3"], "flag": [True, False, None], "year": [2020.0, 2021.5, 7]}
    path = tmp_path / f"texts{suffix}"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(columns), path)
    elif suffix == ".csv":
        path.write_text("text,flag,year\nw1,true,2020\nw2,False,2021.5\nw3,null,7\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = open_embedder(pretrained)
    found = embed(model, path, verbose=0)

    def ids(**only):
        return {row["id"] for row in search(model, found, "w1", texts=path, only=only)}

    assert ids(flag=True) == ids(flag="true") == ids(year=2020) == ids(year="2020") == {1}
    assert ids(year=np.float32(2020), flag=np.True_) == {1}
    assert ids(year=2021.5) == ids(year="2021.5") == ids(flag=False) == {2}
    assert ids(flag=[None, "true"], year=[7, 2020.0]) == {1, 3}


def test_rows_may_be_without_a_column(pretrained, tmp_path):
    """As lines of a .jsonl file may be: they have the value None there."""
    years = [{}, {"year": 2020}, {"year": None}, {}]
    rows = [{"text": f"w{number}", **year} for number, year in enumerate(years)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = embed(pretrained, path, verbose=0)

    def ids(only):
        return {row["id"] for row in search(pretrained, found, "w1", texts=path, only=only)}

    assert ids({"year": 2020}) == {2} and ids({"year": None}) == {1, 3, 4}
    with pytest.raises(ValueError, match=r"columns of the texts, .*'text', 'year'.* Rec.*'sort'"):
        ids({"year": 2020, "sort": 1})


def test_the_best_passage_of_each_of_many_texts(pretrained):
    """Where one text has most of the nearest passages, more passages are looked at."""
    from keras_posenc.retrieval import ChunkVectors

    asked = embed(pretrained, ["w1"], verbose=0)
    rng = np.random.default_rng(0)
    near = asked + rng.normal(size=(200, asked.shape[1])) * 1e-3
    far = rng.normal(size=(3, asked.shape[1]))
    numbers = np.array([0] * 200 + [1, 2, 3])
    places = np.arange(203), np.arange(203) + 1
    vectors = ChunkVectors(np.concatenate([near, far]).astype("float32"), numbers, *places)
    rows = search(pretrained, vectors, "w1", per_document=True, top_k=3, verbose=0)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert len({row["id"] for row in rows}) == 3 and rows[0]["id"] == 1
    rows = search(pretrained, vectors, "w1", only=[2, 4], verbose=0)
    assert {row["id"] for row in rows} == {2, 4}
    with pytest.raises(ValueError, match="`only` must have ids of the 4 texts .* Received: '7'"):
        search(pretrained, vectors, "w1", only=[2, 7], verbose=0)
    with pytest.raises(ValueError, match="`only` of columns needs the texts: give their file as"):
        search(pretrained, vectors, "w1", only={"kind": "a"}, verbose=0)


def test_refused_scorings(pretrained, monkeypatch):
    vectors = Vectors.of(np.eye(16, dtype="float32"))
    for scoring, match in {
        "bm25": "`scoring` must be one of",
        "both:x": "`scoring` must be like 'vectors', 'words', 'both:0.5' or 'rrf:60'. Rec",
        "words:1": "`scoring` must be like",
        "both:1.5": "`scoring both` must be a number of at least 0 and at most 1. Received: 1.5",
        "rrf:0": "`scoring rrf` must be a number of at least 1",
        "words": r"A search by words needs the texts: give them as texts= \(--texts\)",
    }.items():
        with pytest.raises(ValueError, match=match):
            search(pretrained, vectors, "w1", scoring=scoring, verbose=0)
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(ImportError, match="needs bm25s: pip install 'keras_posenc.words.', or"):
        search(pretrained, vectors, "w1", texts=["w1"] * 16, scoring="both", verbose=0)


def test_a_table_says_why():
    row = {"query": "boat", "rank": 1, "score": 0.9, "id": 7, "vector_score": 0.5}
    text = "x" * 200 + " a boat"
    row |= {"word_score": 1.5, "text": text, "matches": [(203, 207)]}
    head, query, line = search_table([row], characters=60).splitlines()
    assert head.split() == ["rank", "score", "id", "vector", "word", "text"]
    assert line.split()[:5] == ["1", "0.9000", "7", "0.5000", "1.5000"]
    assert line.endswith(f"  ...{text[-60:]}")
    assert text in search_table([row], characters=None)
    for characters in (12, 19, 21):  # the word is shown, even where little is
        assert "boa" in search_table([row], characters=characters).splitlines()[-1]
