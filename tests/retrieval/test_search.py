"""Search in what `embed` has written, against a loop over all vectors."""

import json
import os
import shutil

import keras
import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.folders.sentence_transformers import MODEL_CONFIG
from keras_posenc.retrieval import (
    LateInteraction,
    SparseEmbedder,
    embedding_record,
    maxsim,
    open_embedder,
    search,
    search_table,
)
from keras_posenc.retrieval.nearest import lengths_of, nearest
from keras_posenc.training import Embed, finetune

DOCUMENTS = [
    "Ada is a chemist. She studied in Vienna. Last year she bought a house by the harbour.",
    "Bruno is a painter. He likes the sea. Last year he sold his boat.",
]
IDS = ["ada", "bruno"]
QUERIES = ["Where does Ada live?", "Who paints?"]
WORDS = ["w1 w2. w3 w4.", "w5", "w6 w7 w8. w9", "w10 w2"]
TABLES = [".jsonl", ".parquet"]


def write_documents(path, texts=DOCUMENTS, ids=IDS):
    rows = [{"id": each, "text": text} for each, text in zip(ids, texts, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.once
def test_chunks_of_a_file_are_found_and_shown(minilm, tmp_path):
    """By one call, without naming the file of the texts again."""
    source = write_documents(tmp_path / "documents.jsonl")
    found = embed(minilm, source, tmp_path / "chunks.npz", reading="late:12", verbose=0)
    vectors = open_embedder(minilm).predict(QUERIES, verbose=0)
    result = search(minilm, tmp_path / "chunks.npz", QUERIES, top_k=3, verbose=0)
    chunks = found.of(DOCUMENTS)
    for number, (query, vector) in enumerate(zip(QUERIES, vectors, strict=True)):
        scores = found.vectors @ vector  # of length 1
        for rank, best in enumerate(sorted(range(4), key=lambda n: -scores[n])[:3], 1):
            row = result[3 * number + rank - 1]
            assert row.pop("score") == pytest.approx(scores[best], abs=1e-5)
            assert row == {
                "query": query,
                "rank": rank,
                "id": IDS[found.texts[best]],
                "start": found.starts[best],
                "end": found.ends[best],
                "text": chunks[best],
            }
    assert result[1]["text"] == "Last year she bought a house by the harbour."
    assert result[3]["text"] == "Bruno is a painter. He likes the sea."


@pytest.mark.once
@pytest.mark.parametrize("late", [{}, {"reading": "late:4"}], ids=["whole", "late"])
@pytest.mark.parametrize("suffix", ["numpy", *TABLES, "parts"])
def test_all_formats_give_the_same(pretrained, tmp_path, suffix, late):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    source = write_documents(tmp_path / "texts.jsonl", WORDS, "abcd")
    wanted = search(
        pretrained,
        embed(pretrained, source, verbose=0, **late),
        ["w3", "w2 w7"],
        texts=source,
        verbose=0,
    )
    options = {"part_size": 3} if suffix == "parts" else {}
    suffix = {"numpy": ".npz" if late else ".npy", "parts": ".jsonl"}.get(suffix, suffix)
    embed(pretrained, source, tmp_path / f"found{suffix}", verbose=0, **late, **options)
    arguments = (pretrained, tmp_path / f"found{suffix}", ["w3", "w2 w7"])
    found = search(*arguments, tmp_path / "new" / "best.jsonl", verbose=0)
    assert len(found) == 2 * (6 if late else 4)
    for one, other in zip(found, wanted, strict=True):
        assert one["text"] in WORDS[ord(one["id"]) - ord("a")]
        assert one == other | {"score": pytest.approx(other["score"], abs=1e-5)}
    lines = (tmp_path / "new" / "best.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == found


@pytest.mark.once
def test_parts_of_an_array_and_of_a_shard(pretrained, tmp_path):
    """Numbers of the texts count from the first text of the file, not of the shard."""
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(WORDS) + "\n")
    for output in ("found.npy", "found.jsonl"):
        whole = dict(part_size=1, shard="2/2", verbose=0)
        embed(pretrained, source, tmp_path / output, **whole)
        (best, other) = search(pretrained, tmp_path / output, WORDS[3], verbose=0)
        assert (best["id"], best["text"], other["id"]) == (4, WORDS[3], 3)
        assert best["score"] == pytest.approx(1, abs=1e-5)
    embed(pretrained, WORDS, tmp_path / "late.npz", reading="late:4", shard="2/2", verbose=0)
    assert search(pretrained, tmp_path / "late.npz", WORDS[3], verbose=0)[0]["id"] == 4


@pytest.mark.once
@pytest.mark.parametrize("suffix", [".npz", *TABLES])
@pytest.mark.parametrize("kind", ["multi", "sparse"])
def test_late_interaction_and_sparse_vectors(request, tmp_path, kind, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    if kind == "multi":
        directory = request.getfixturevalue("colberts") / "pylate"
        model = LateInteraction(directory)
        texts = ["one two three", "four", "five six"]
        expected = maxsim(model.encode_queries(["one"], 0), model.encode_documents(texts, 0))
    else:
        directory, texts = request.getfixturevalue("splade"), WORDS
        model = SparseEmbedder(directory)
        query, documents = model.encode_queries(["one"], 0), model.encode_documents(texts, 0)
        expected = query.products(documents)
    embed(model, texts, tmp_path / f"found{suffix}", verbose=0)
    found = search(directory, tmp_path / f"found{suffix}", "one", texts=texts, top_k=2, verbose=0)
    order = np.argsort(-expected[0], kind="stable")[:2]
    assert [row["id"] for row in found] == (order + 1).tolist()
    assert [row["text"] for row in found] == [texts[number] for number in order]
    np.testing.assert_allclose([row["score"] for row in found], expected[0, order], rtol=1e-5)
    with pytest.raises(ValueError, match="which takes no prompt: leave it out. Received: prompt="):
        search(directory, tmp_path / f"found{suffix}", "one", prompt="query: ")


def test_queries_are_read_as_the_texts_were(pretrained, tmp_path, caplog):
    """With the positions and the size of the vectors, which the file beside them records."""
    text = " ".join(f"w{n % 35}" for n in range(40))
    options = {"max_length": 44, "extension": "tile", "dimension": 8}
    embed(pretrained, [text, "w1"], tmp_path / "found.npy", **options, verbose=0)
    caplog.clear()
    best, _ = search(pretrained, tmp_path / "found.npy", text, texts=[text, "w1"], verbose=0)
    assert best["id"] == 1 and best["score"] == pytest.approx(1, abs=1e-5)
    assert "cut off" not in caplog.text
    (tmp_path / "found.npy.json").unlink()
    match = r"`queries` must be an array \(N, 8\), .* the `dimension` .* Received: shape \(1, 16\)"
    with pytest.raises(ValueError, match=match):
        search(pretrained, tmp_path / "found.npy", text, verbose=0)
    model = open_embedder(pretrained, **options)
    same = search(model, tmp_path / "found.npy", text, verbose=0)
    assert same[0]["score"] == pytest.approx(1, abs=1e-5) and "text" not in same[0]


@pytest.fixture
def prompted(pretrained, tmp_path):
    """A function that writes a model with prompts."""

    def write(name, **config):
        shutil.copytree(pretrained, tmp_path / name)
        (tmp_path / name / MODEL_CONFIG).write_text(json.dumps(config))
        return tmp_path / name

    return write


@pytest.mark.once
def test_settings_may_be_numbers_of_numpy(pretrained, tmp_path):
    """A record holds them as numbers, from which the model is opened again."""
    output, settings = tmp_path / "v.npy", {"max_length": np.int64(5), "dimension": np.int32(8)}
    vectors = embed(pretrained, ["w1 w4 w7", "w2"], output, **settings, verbose=0)
    assert embedding_record.read_record(output)["settings"] == settings
    found = search(pretrained, output, "w2", verbose=0)
    assert vectors.shape == (2, 8) and found[0]["id"] == 2


@pytest.mark.once
def test_the_prompt_of_queries(pretrained, prompted, tmp_path):
    found = embed(pretrained, ["w9 w1"], tmp_path / "found.npy", verbose=0)
    directory = prompted("both", prompts={"query": "w9 ", "document": ""})
    found = embed(directory, ["w9 w1"], verbose=0)
    assert search(directory, found, "w1", verbose=0)[0]["score"] == pytest.approx(1, abs=1e-5)
    assert search(directory, found, "w1", prompt="", verbose=0)[0]["score"] < 0.999
    embed(pretrained, ["w1"], tmp_path / "found.npy", prompt="w9 ", verbose=0)
    with pytest.raises(ValueError, match="`prompt` must be given, because the vectors were made"):
        search(pretrained, tmp_path / "found.npy", "w1")
    best = search(pretrained, tmp_path / "found.npy", "w1", prompt="w9 ", verbose=0)[0]
    assert best["score"] == pytest.approx(1, abs=1e-5)


@pytest.mark.once
def test_the_prompt_of_queries_of_finetune(pretrained, tmp_path):
    task = Embed(query_prompt="w9 ", document_prompt="w8 ")
    pairs = [("w1 w2", "w3 w4"), ("w5", "w6")]
    options = {"task": task, "epochs": 1, "max_length": 16, "verbose": 0}
    finetune(pretrained, pairs, tmp_path / "out", **options)
    found = embed(tmp_path / "out", ["w9 w1"], prompt="", verbose=0)
    best = search(tmp_path / "out", found, "w1", verbose=0)[0]
    assert best["score"] == pytest.approx(1, abs=1e-5)


@pytest.mark.once
def test_scores_are_the_similarity_that_the_directory_names(pretrained, prompted):
    directory = prompted("dot", similarity_fn_name="dot")
    found = embed(directory, ["w1", "w2 w3"], verbose=0)
    (query,) = embed(directory, ["w4"], verbose=0)
    scores = {row["id"]: row["score"] for row in search(directory, found, "w4", verbose=0)}
    np.testing.assert_allclose([scores[1], scores[2]], found @ query, rtol=1e-5)
    unit = [row / np.linalg.norm(row) for row in (*found, query)]
    scores = {row["id"]: row["score"] for row in search(pretrained, found, "w4", verbose=0)}
    np.testing.assert_allclose([scores[1], scores[2]], np.array(unit[:2]) @ unit[2], rtol=1e-5)


@pytest.mark.once
def test_vectors_of_another_model_are_refused(pretrained, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(pretrained, tmp_path / name)
    embed(tmp_path / "one", ["w1"], tmp_path / "found.npy", verbose=0)
    assert search(tmp_path / "two", tmp_path / "found.npy", "w1", verbose=0)  # a copy
    from keras_posenc import build_transformer_model

    keras.utils.set_random_seed(1)
    build_transformer_model(tmp_path / "two" / "config.json").save(tmp_path / "two" / "model.keras")
    with pytest.raises(ValueError, match="must be the model that made .*, which was '.*one'; its"):
        search(tmp_path / "two", tmp_path / "found.npy", "w1")
    with pytest.raises(FileNotFoundError, match="There is no directory .*three"):
        search(tmp_path / "three", tmp_path / "found.npy", "w1")
    # Another file in its place has no record.
    np.save(tmp_path / "found.npy", np.eye(16, dtype="float32"))
    assert len(search(tmp_path / "two", tmp_path / "found.npy", "w1", verbose=0)) == 10
    (tmp_path / "found.npy.json").write_text('{"directory": "x"}')
    with pytest.raises(ValueError, match=r"found.npy.json is damaged \(it lacks model\)"):
        search(tmp_path / "two", tmp_path / "found.npy", "w1")
    keys = dict.fromkeys(("directory", "model", "vectors", "settings", "first", "texts"))
    (tmp_path / "found.npy.json").write_text(json.dumps(keys))
    with pytest.raises(ValueError, match=r"found.npy.json is damaged \(model should be a text"):
        search(tmp_path / "two", tmp_path / "found.npy", "w1")


@pytest.mark.once
@pytest.mark.parametrize("name", ["pretrained", "finetuned"])
def test_an_open_model_is_the_one_that_was_opened(request, tmp_path, name):
    """Not the one whose weights took the place of its own."""
    model = shutil.copytree(request.getfixturevalue(name), tmp_path / "model")
    weights = next(model.glob("model.*"))
    (other := keras.saving.load_model(weights)).save(weights)
    before, late, touched = (open_embedder(model) for _ in range(3))
    embed(before, ["w1"], tmp_path / "first.npy", verbose=0)
    os.utime(weights, (1, 1))  # as a backup does, or a copy over it
    embed(touched, ["w1"], tmp_path / "touched.npy", verbose=0)
    touched = open_embedder(model)
    weights.touch()
    assert search(touched, tmp_path / "touched.npy", "w1", verbose=0)
    content = weights.read_bytes()
    other.set_weights([2 * array for array in other.get_weights()])
    other.save(weights)
    assert weights.stat().st_size == len(content)
    embed(before, ["w1"], tmp_path / "second.npy", verbose=0)
    names = ("first", "second", "touched")
    records = [json.loads((tmp_path / f"{n}.npy.json").read_text()) for n in names]
    assert len({record["model"] for record in records}) == 1
    error = "have changed since the model was opened: open it"
    for changed in (weights.read_bytes(), content + b"0"):
        weights.write_bytes(changed)
        for call in (
            lambda: embed(late, ["w1"], tmp_path / "third.npy", verbose=0),
            lambda: search(late, tmp_path / "first.npy", "w1", verbose=0),
        ):
            with pytest.raises(ValueError, match=error):
                call()


@pytest.mark.once
def test_texts_that_are_not_those_of_the_vectors(pretrained, tmp_path, caplog):
    source = write_documents(tmp_path / "texts.jsonl", WORDS, "abcd")
    late = {"reading": "late:4", "verbose": 0}
    embed(pretrained, source, tmp_path / "found.jsonl", **late)
    embed(pretrained, source, tmp_path / "found.npz", **late)

    def found(name, texts):
        return search(pretrained, tmp_path / name, "w1", texts=texts, verbose=0)

    with pytest.raises(ValueError, match="`texts` must be the file that was embedded, because"):
        found("found.jsonl", WORDS)
    other = write_documents(tmp_path / "other.jsonl", WORDS[:3], "abc")
    with pytest.raises(ValueError, match="whose vectors are searched: .* no text with the id 'd'"):
        found("found.jsonl", other)
    with pytest.raises(ValueError, match="no text with the number '4'. Received: 3 texts"):
        found("found.npz", WORDS[:3])
    with pytest.raises(ValueError, match="a chunk ends at character .* of the text 2, which has 1"):
        found("found.npz", ["w"] * 4)
    (tmp_path / "lines.txt").write_text("\n".join(WORDS))
    with pytest.raises(ValueError, match="must have the ids of the vectors, in a column such as"):
        found("found.jsonl", tmp_path / "lines.txt")
    assert found("found.npz", tmp_path / "lines.txt")[0]["id"] in range(1, 5)
    source.write_text("changed")
    assert "text" not in found("found.npz", None)[0]
    assert "is missing or has changed: give them as texts=" in caplog.text


@pytest.mark.once
def test_files_that_embed_did_not_write(pretrained, tmp_path):
    def refused(name, match, error=ValueError):
        with pytest.raises(error, match=match):
            search(pretrained, tmp_path / name, "w1")

    refused("none.npz", "No file .*none.npz", FileNotFoundError)
    (tmp_path / "half.jsonl.parts").mkdir()
    refused("half.jsonl", "half.jsonl is not complete: give the same call", FileNotFoundError)
    for name in ("a.txt", "a.npy", "a.npz", "row.jsonl", "bad.jsonl", "two.jsonl"):
        (tmp_path / name).write_text("word\n")
    (tmp_path / "folder").mkdir()
    refused("folder", "`vectors` must be a .npy, .*folder'")
    refused("a.txt", "`vectors` must be a .npy, .npz, .jsonl, .parquet file that `embed` wrote")
    refused("a.npy", "a.npy is damaged, or is no file that `embed` wrote")
    refused("a.npz", "a.npz is damaged, or is no file that `embed` wrote")
    np.savez(tmp_path / "b.npz", a=np.zeros(1))
    refused("b.npz", "b.npz is damaged, or is no file .*it has the arrays a")
    np.save(tmp_path / "b.npy", np.zeros(3))
    refused("b.npy", r"must be what `embed` returns or writes, such as floats.* shape \(3,\)")
    (tmp_path / "row.jsonl").write_text('{"text": "w1"}\n')
    refused("row.jsonl", "must have the columns that `embed` writes, such as id and vector")
    for bad, why in (
        ('"vector": [1, "a"]', "could not convert"),
        ('"vector": 1', "no list of numbers"),
        ('"vector": [NaN]', ""),
        ('"indices": [[1]], "values": [[1]]', "no list of numbers"),
        ('"indices": [1], "values": [1, 2]', "not a finite value per index"),
    ):
        (tmp_path / "bad.jsonl").write_text(f'{{"id": 1, {bad}}}\n')
        refused("bad.jsonl", f"bad.jsonl, line 1: not a row that `embed` wrote .*{why}")
    (tmp_path / "two.jsonl").write_text('{"id": 1, "vector": [1]}\n{"id": 2, "vector": [1, 2]}\n')
    refused("two.jsonl", "the vectors must be of one size. Embed the texts again.")
    with pytest.raises(ValueError, match="`output` must be a .jsonl file"):
        search(pretrained, np.eye(16), "w1", "found.csv")
    with pytest.raises(ValueError, match="`top_k` must be"):
        search(pretrained, np.eye(16), "w1", top_k=0)
    with pytest.raises(TypeError, match="`queries` must be a list of str"):
        search(pretrained, np.eye(16), [("w1", "w2")])
    for queries in (None, (each for each in ["w1"])):
        with pytest.raises(TypeError, match="`queries` must be a list. Received: "):
            search(pretrained, np.eye(16), queries)
    for queries, what in (
        (" ", "not be empty"),
        (["w1", ""], "not be empty"),
        (["w1", "\ud800"], "not have half a surrogate pair"),
        ([], "have a text"),
    ):
        with pytest.raises(ValueError, match=f"`queries` must {what}. Received: "):
            search(pretrained, np.eye(16), queries)


@pytest.mark.once
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_the_nearest_over_all_blocks(rows):
    rng = np.random.default_rng(0)
    queries, vectors = rng.normal(size=(5, 4)), rng.normal(size=(30, 4))
    vectors[11] = vectors[4]  # of equal scores, the first number comes first
    excluded = [[], [3], [3, 8, 29], [0], []]
    products = queries @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    for most in (3, 40):
        found = nearest(queries, vectors, most, excluded, lengths=lengths_of(vectors), rows=rows)
        for (numbers, scores), row, hidden in zip(found, products, excluded, strict=True):
            order = [n for n in np.argsort(-row, kind="stable") if n not in hidden][:most]
            assert numbers.tolist() == order
            np.testing.assert_allclose(scores, row[order], rtol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_of_many_equal_scores_the_first_are_found(rows):
    """The best few begin the best of more, wherever the last of them stands."""
    rng = np.random.default_rng(0)
    queries, vectors = (rng.integers(-1, 2, (n, 3)).astype("float32") for n in (5, 30))
    for most in range(1, 31):
        found = nearest(queries, vectors, most, rows=rows)
        for (numbers, _), row in zip(found, queries @ vectors.T, strict=True):
            assert numbers.tolist() == np.argsort(-row, kind="stable")[:most].tolist()


@pytest.mark.once
def test_a_table_has_one_line_per_result():
    row = {"query": "who\x1b[31m\nis it", "rank": 1, "score": -0.5, "id": 7}
    assert search_table([]) == "rank  score  id"
    lines = search_table([row, row | {"rank": 2, "id": "a long id"}]).splitlines()
    assert lines == [
        "rank  score    id",
        "who\\x1b[31m is it",
        "1     -0.5000  7",
        "2     -0.5000  a long id",
    ]
    lines = search_table([row | {"start": 3, "end": 9, "text": "a\n" * 90}]).splitlines()
    assert len(lines) == 3 and lines[2].startswith("1     -0.5000  7   3-9    a a a")


@pytest.mark.once
def test_a_record_of_other_vectors_is_not_used(pretrained, tmp_path, monkeypatch, caplog):
    """As after a full disk or a kill between the vectors and their record."""
    path = tmp_path / "found.npy"
    embed(pretrained, ["w1 w2"], path, prompt="w5 ", verbose=0)
    old = (tmp_path / "found.npy.json").read_text()
    assert embedding_record.read_record(path)["settings"] == {"prompt": "w5 "}

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(embedding_record, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            embed(pretrained, ["w1 w2"], path, prompt="w6 ", verbose=0)
    assert embedding_record.read_record(path) is None
    (tmp_path / "found.npy.json").write_text(old)
    assert embedding_record.read_record(path) is None
    assert "json is not used, because it belongs to other vectors" in caplog.text
    embed(pretrained, ["w1 w2"], path, prompt="w5 ", verbose=0)
    shutil.copy(path, tmp_path / "copy.npy")  # at another time
    shutil.copy(tmp_path / "found.npy.json", tmp_path / "copy.npy.json")
    assert embedding_record.read_record(tmp_path / "copy.npy")["settings"] == {"prompt": "w5 "}


@pytest.mark.once
@pytest.mark.parametrize("place", ["elsewhere", "../elsewhere", "link"])
def test_a_record_leads_only_to_texts_in_its_folder(pretrained, tmp_path, caplog, place):
    (tmp_path / "elsewhere.txt").write_text("w1\nw2\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    source = tmp_path / "elsewhere.txt"
    embed(pretrained, source, folder / "found.npy", verbose=0)
    path = folder / "found.npy.json"
    record = json.loads(path.read_text())
    if place == "link":
        (folder / "texts.txt").symlink_to(source)
        record["texts"]["path"] = "texts.txt"
    elif place.startswith(".."):
        record["texts"]["path"] = "../elsewhere.txt"
    path.write_text(json.dumps(record))
    assert "text" not in search(pretrained, folder / "found.npy", "w1", verbose=0)[0]
    assert "is not in the folder of the vectors: give them as texts=" in caplog.text
    options = {"texts": source, "verbose": 0}
    assert "text" in search(pretrained, folder / "found.npy", "w1", **options)[0]


@pytest.mark.once
def test_texts_are_known_as_they_were_read(pretrained, tmp_path, monkeypatch, caplog):
    """A file that is rewritten during the run, with the same size, has changed."""
    from keras_posenc.training.text_model import TextModel

    source = tmp_path / "texts.txt"
    source.write_text("w1\nw2\n")
    judged = TextModel.judged

    def rewriting(self, *arguments):
        source.write_text("w3\nw4\n")
        return judged(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(TextModel, "judged", rewriting)
        embed(pretrained, source, tmp_path / "found.npy", verbose=0)
    assert "text" not in search(pretrained, tmp_path / "found.npy", "w1", verbose=0)[0]
    assert "is missing or has changed" in caplog.text


@pytest.mark.once
@pytest.mark.parametrize("taken", ["file", "folder", "link"])
def test_the_name_of_a_record_may_be_taken(pretrained, tmp_path, taken):
    path = tmp_path / "found.npy.json"
    if taken == "file":
        path.write_text('{"mine": 1}')
    elif taken == "folder":
        path.mkdir()
    else:
        (tmp_path / "precious").write_text("mine")
        path.symlink_to(tmp_path / "precious")
    what = "this library has not written it" if taken == "file" else "it is a link, a folder or a"
    with pytest.raises(ValueError, match=f"npy.json is refused: {what}"):
        embed(pretrained, ["w1"], tmp_path / "found.npy", verbose=0)
    assert not (tmp_path / "found.npy").exists()
    assert taken != "file" or path.read_text() == '{"mine": 1}'
