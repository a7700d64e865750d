"""`Vectors` are written, read and searched, and the lengths of dense ones are computed once."""

import base64
import json
import tracemalloc

import numpy as np
import pytest

from keras_posenc.retrieval import (
    ChunkVectors,
    MultiVectors,
    Reranker,
    SparseEmbedder,
    SparseVectors,
    Vectors,
    describe_vectors,
    embed,
    open_embedder,
    search,
    vectors,
)
from keras_posenc.retrieval.nearest import ROWS

pytestmark = pytest.mark.once
TEXTS = ["w1 w2", "w3 w4 w5", "w6"]


def stop(*arguments):
    raise AssertionError("the lengths are computed")


def test_lengths_are_computed_when_vectors_are_written(pretrained, tmp_path, monkeypatch):
    path = tmp_path / "v.npy"
    found = embed(pretrained, TEXTS, path, verbose=0)
    lengths = np.linalg.norm(found, axis=1)
    assert np.abs(lengths - 1).max() > 0.1  # else there is nothing to keep
    np.testing.assert_allclose(Vectors.load(path).lengths, lengths, rtol=1e-6)
    expected = search(pretrained, path, "w3", verbose=0)
    monkeypatch.setattr(vectors, "lengths_of", stop)
    assert search(pretrained, path, "w3", verbose=0) == expected
    embed(pretrained, TEXTS, tmp_path / "parts.npy", part_size=2, verbose=0)
    np.testing.assert_allclose(Vectors.load(tmp_path / "parts.npy").lengths, lengths, rtol=1e-5)
    (tmp_path / "v.npy.json").unlink()
    with pytest.raises(AssertionError, match="the lengths are computed"):
        search(pretrained, path, "w3", verbose=0)


def test_lengths_in_memory_are_computed_once(pretrained, monkeypatch):
    model, stored = open_embedder(pretrained), Vectors.of(embed(pretrained, TEXTS, verbose=0))
    first = search(model, stored, "w3", verbose=0)
    monkeypatch.setattr(vectors, "lengths_of", stop)
    assert search(model, stored, "w3", verbose=0) == first


def test_lengths_of_other_vectors_are_refused(pretrained, tmp_path):
    path = tmp_path / "v.npy"
    embed(pretrained, TEXTS, path, verbose=0)
    record = json.loads((tmp_path / "v.npy.json").read_text())
    for lengths in (np.ones(2, "<f4"), np.full(3, np.nan, "<f4"), -np.ones(3, "<f4")):
        record["lengths"] = base64.b64encode(lengths).decode()
        (tmp_path / "v.npy.json").write_text(json.dumps(record))
        with pytest.raises(ValueError, match="is damaged: no lengths of 3 vectors"):
            search(pretrained, path, "w3", verbose=0)


def test_an_array_stays_on_disk(pretrained, tmp_path):
    embed(pretrained, TEXTS, tmp_path / "v.npy", verbose=0)
    values = Vectors.load(tmp_path / "v.npy").values
    while values.base is not None and not isinstance(values, np.memmap):
        values = values.base
    assert isinstance(values, np.memmap) or type(values).__name__ in ("mmap", "memoryview")


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_search_over_a_file_holds_one_block_of_it(tmp_path, dtype, normalize):
    """Only the lengths, one number per vector, are of the size of the file."""
    blocks, width = 8, 16
    shape = (blocks * ROWS, width)
    stored = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", dtype, shape)
    for first in range(0, len(stored), ROWS):
        stored[first : first + ROWS] = np.eye(width)[first // ROWS]
    wanted = [3, 5 * ROWS + 7, len(stored) - 1]  # in the first block, in the middle and at the end
    stored[wanted] = 2 * np.eye(width)[-1]
    del stored
    query = np.eye(width, dtype="float32")[-1:]
    tracemalloc.start()
    found = Vectors.load(tmp_path / "v.npy")
    [(numbers, scores)] = found.search(query, len(wanted), normalize)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers.tolist() == wanted
    np.testing.assert_allclose(scores, 1 if normalize else 2, rtol=1e-6)
    whole = 4 * shape[0] * width  # bytes of all vectors in float32
    assert peak < 2 * whole / blocks + 4 * shape[0] * normalize


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".jsonl", ".parquet"])
def test_what_is_saved_is_loaded(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    kinds = [
        np.eye(3, dtype="float32"),
        ChunkVectors(np.eye(3, dtype="f4"), np.array([0, 0, 1]), np.arange(3), np.arange(3) + 2),
        MultiVectors(np.eye(3, dtype="float32"), np.array([0, 1, 3])),
        SparseVectors.of(np.array([[0, 2.0, 0], [1, 0, 3]])),
    ]
    for number, found in enumerate(kinds):
        path, before = tmp_path / f"{number}{suffix}", Vectors.of(found)
        if suffix == (".npz" if number == 0 else ".npy"):
            with pytest.raises(ValueError, match="output is a .np"):
                before.save(path)
            continue
        before.save(path)
        after = Vectors.load(path)
        assert list(after.ids) == list(before.ids) and len(after) == len(before)
        assert type(after.values) is type(before.values) or isinstance(after.values, np.ndarray)
        for one, other in zip(before.places or [], after.places or [], strict=True):
            np.testing.assert_array_equal(one, other)
    named = Vectors(np.eye(2, dtype="float32"), ["a", "b"], "id")
    if suffix in (".jsonl", ".parquet"):
        named.save(tmp_path / f"named{suffix}")
        again = Vectors.load(tmp_path / f"named{suffix}")
        assert (again.name, list(again.ids)) == ("id", ["a", "b"])
    elif suffix == ".npy":
        with pytest.raises(ValueError, match="holds no ids, and these are not the numbers from 1"):
            named.save(tmp_path / "named.npy")


def test_the_model_must_be_of_the_kind_of_the_vectors(pretrained, splade):
    found = SparseEmbedder(splade).encode_documents(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="were made by a sparse encoder, and .* is open as an emb"):
        search(open_embedder(pretrained), found, "w1")
    assert describe_vectors(found).startswith("3 sparse vectors with ")
    assert search(SparseEmbedder(splade), Vectors.of(found), "w1", verbose=0)[0]["rank"] == 1


def test_a_directory_that_makes_no_such_vectors_is_refused(pretrained, colberts, tmp_path):
    """In memory, vectors have no record of their model, and another one may have their width."""
    Reranker(pretrained, label_names=["score"]).save(tmp_path / "reranker")
    width = open_embedder(pretrained).model.output_shape[-1]
    for directory, title in (
        (tmp_path / "reranker", "a cross-encoder"),
        (colberts / "pylate", "a model of late interaction"),
    ):
        with pytest.raises(ValueError, match=f"is {title}, not an embedder: open it with "):
            search(directory, np.eye(width), "w1", verbose=0)


@pytest.mark.parametrize("kind", [None, "int8"])
def test_what_is_no_query_or_no_choice_of_vectors_is_refused(kind):
    vectors = Vectors.of(np.eye(3)) if kind is None else Vectors.of(np.eye(3)).coded(kind)
    for queries, received in (
        (np.ones(3), r"shape \(3,\), ndarray"),
        ([[1.0, 0.0, 0.0]], r"shape \(1, 3\), list"),
        (MultiVectors(np.eye(3), np.array([0, 3])), r"shape .*, MultiVectors"),
    ):
        for ask in (vectors.search, vectors.scores):
            with pytest.raises(
                ValueError, match=f"`queries` must be an array .* Received: {received}"
            ):
                ask(queries)
    for allowed, received in (
        (np.array([0, 1]), r"\(2,\), int64"),
        (np.array([1, 0, 1]), r"\(3,\), int64"),
        (np.array([True]), r"\(1,\), bool"),
    ):
        with pytest.raises(ValueError, match=f"`allowed` must be a bool .* shape {received}"):
            vectors.search(np.eye(3)[:1], allowed=allowed)
    for allowed in ([False, True, True], np.array([False, True, True])):
        ((numbers, _),) = vectors.search(np.eye(3)[:1], allowed=allowed)
        assert numbers.tolist() == [1, 2]
    ((numbers, scores),) = vectors.search(np.eye(3)[:1], allowed=np.zeros(3, bool))
    assert len(numbers) == len(scores) == 0


@pytest.mark.parametrize("kind, bytes_of_each", [("int8", 28), ("bits", 7)])
def test_codes_find_what_the_exact_vectors_order(kind, bytes_of_each):
    """Among well separated vectors; their scores are the exact cosines."""
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(300, 24)).astype("float32") * 7
    queries = exact[:5] + rng.normal(size=(5, 24)).astype("float32")
    vectors = Vectors.of(exact)
    coded = vectors.coded(kind)
    assert coded.values.nbytes == 300 * bytes_of_each and coded.ids == vectors.ids
    assert coded.values[3:5].shape == (2, 24) and coded.values.shape == exact.shape
    for (numbers, scores), (best, expected) in zip(
        coded.search(queries, 3), vectors.search(queries, 3), strict=True
    ):
        assert numbers[0] == best[0] and scores[0] == pytest.approx(expected[0], abs=1e-5)
        unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
        query = queries[best[0]] / np.linalg.norm(queries[best[0]])
        np.testing.assert_allclose(scores, unit[numbers] @ query, atol=1e-5)
    # float16 has no squares of numbers as large as these.
    half = Vectors.of((exact * 40).astype("float16"))
    for (_, scores), (_, expected) in zip(
        half.coded(kind).search(queries, 1), half.search(queries, 1), strict=True
    ):
        np.testing.assert_allclose(scores, expected, atol=1e-3)
    # Copies of one text, whose code is nearer than its vector, take no place of another.
    near = np.sign(queries[0])
    copies = np.concatenate([np.repeat(near[None], 700, 0), queries[:1], exact]).astype("float32")
    ((numbers, scores),) = Vectors.of(copies).coded(kind).search(queries[:1], 3)
    assert numbers.tolist() == [700, 701, 0] and scores[0] == pytest.approx(1)
    allowed = np.arange(300) > 4
    assert all(min(numbers) > 4 for numbers, _ in coded.search(queries, 3, allowed=allowed))
    # Where all scores are needed, they are the exact ones.
    np.testing.assert_allclose(coded.scores(queries), vectors.scores(queries), atol=1e-5)
    with pytest.raises(ValueError, match="and the directory names dot products as its similarity"):
        coded.search(queries, 3, normalize=False)
    with pytest.raises(ValueError, match="`kind` must be one of"):
        vectors.coded("int4")
    sparse = Vectors.of(SparseVectors.of(np.eye(3)))
    with pytest.raises(ValueError, match="Only dense vectors, .* have codes: .* SparseVectors"):
        sparse.coded("int8")
