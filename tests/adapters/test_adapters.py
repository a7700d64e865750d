"""Adapters to other libraries, each with the real package."""

import asyncio
import contextlib
import pathlib

import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.adapters import Retriever, Sides
from keras_posenc.retrieval import Reranker, SparseEmbedder, open_embedder, search

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]

TEXTS = ["w1 w4 w7", "w2 w3", "w5 w5 w6 w1"]


@pytest.fixture(scope="module")
def expected(pretrained):
    return open_embedder(pretrained).predict(TEXTS, verbose=0)


def test_each_side_has_its_prompt(pretrained):
    plain = open_embedder(pretrained)
    sides = Sides(pretrained, prompt="w9 ")
    prompted = plain.predict([f"w9 {text}" for text in TEXTS], verbose=0)
    np.testing.assert_allclose(sides.encode_queries(TEXTS), prompted, atol=1e-6)
    np.testing.assert_allclose(sides.encode_documents(TEXTS), prompted, atol=1e-6)
    assert np.abs(prompted - plain.predict(TEXTS, verbose=0)).max() > 1e-3
    assert Sides(plain).model is plain


def test_what_gives_no_vector_per_text_is_refused(splade, colberts, pretrained):
    late = next(folder for folder in sorted(colberts.iterdir()) if folder.is_dir())
    error = "`model` must give one vector per text, .* Received: {}, {}$"
    for folder, title in (
        (late, "a model of late interaction"),
        (open_embedder(late), "a model of late interaction"),
        (SparseEmbedder(splade), "a sparse encoder"),
        (Reranker(pretrained, label_names=["score"]), "a cross-encoder"),
    ):
        name = pathlib.Path(getattr(folder, "directory", folder)).name
        with pytest.raises(ValueError, match=error.format(name, title)):
            Sides(folder)


def test_chunks_may_overlap(pretrained):
    sides = Sides(pretrained)
    apart, shared = (sides.encode_chunks(TEXTS, 2, overlap=overlap) for overlap in (0, 1))
    assert apart.of(TEXTS) == ["w1 w4", "w7", "w2 w3", "w5 w5", "w6 w1"]
    assert shared.of(TEXTS) == ["w1 w4", "w4 w7", "w2 w3", "w5 w5", "w5 w6", "w6 w1"]
    assert np.abs(shared.vectors[0] - apart.vectors[0]).max() < 1e-6


def test_langchain(pretrained, expected):
    pytest.importorskip("langchain_core")
    from langchain_core.vectorstores import InMemoryVectorStore

    from keras_posenc.adapters import LangChainEmbeddings

    embeddings = LangChainEmbeddings(pretrained)
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), expected, atol=1e-6)
    assert embeddings.embed_documents([]) == []
    store = InMemoryVectorStore(embeddings)
    store.add_texts(TEXTS)
    assert store.similarity_search(TEXTS[1], k=1)[0].page_content == TEXTS[1]


def test_llama_index(pretrained, expected):
    pytest.importorskip("llama_index.core")
    from keras_posenc.adapters import LlamaIndexEmbedding

    embedding = LlamaIndexEmbedding(pretrained)
    found = embedding.get_text_embedding_batch(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(embedding.get_query_embedding(TEXTS[0]), expected[0], atol=1e-6)
    np.testing.assert_allclose(embedding.get_text_embedding(TEXTS[0]), expected[0], atol=1e-6)


def test_haystack(pretrained, expected):
    haystack = pytest.importorskip("haystack")
    from keras_posenc.adapters import HaystackDocumentEmbedder, HaystackTextEmbedder

    documents = [haystack.Document(content=text, meta={"n": i}) for i, text in enumerate(TEXTS)]
    found = HaystackDocumentEmbedder(str(pretrained)).run(documents)["documents"]
    np.testing.assert_allclose([each.embedding for each in found], expected, atol=1e-6)
    query = HaystackTextEmbedder(str(pretrained)).run(TEXTS[0])["embedding"]
    np.testing.assert_allclose(query, expected[0], atol=1e-6)
    chunks = HaystackDocumentEmbedder(str(pretrained), chunks=2).run(documents)["documents"]
    assert len(chunks) > len(TEXTS)
    for chunk in chunks:
        text = TEXTS[chunk.meta["n"]]
        start, end = chunk.meta["split_idx_start"], chunk.meta["split_idx_end"]
        assert chunk.content == text[start:end]
        assert chunk.meta["source_id"] == documents[chunk.meta["n"]].id
    late = Sides(pretrained).encode_chunks(TEXTS, 2).vectors
    np.testing.assert_allclose([each.embedding for each in chunks], late, atol=1e-6)
    pipeline = haystack.Pipeline()
    pipeline.add_component("embed", HaystackDocumentEmbedder(str(pretrained), chunks=2))
    # Haystack loads classes from modules that it is told of.
    modules = ["keras_posenc.adapters.haystack"]
    again = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=modules)
    assert again.get_component("embed").chunks == 2


def test_sklearn(pretrained):
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    from keras_posenc.adapters import TextClassifier

    rng = np.random.default_rng(0)
    labels = np.array(["b", "a", "c"] * 6)
    texts = [" ".join(rng.choice([f"w{1 + 'abc'.index(y)}", "w7"], 6)) for y in labels]
    classifier = TextClassifier(
        str(pretrained), max_length=12, epochs=30, settings={"optimizer": "adamw:1e-2"}
    )
    pipeline = make_pipeline(FunctionTransformer(list), clone(classifier)).fit(texts, labels)
    proba = pipeline.predict_proba(texts)
    assert list(pipeline.classes_) == ["a", "b", "c"] and proba.shape == (18, 3)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    found = pipeline.predict(texts)
    np.testing.assert_array_equal(found, np.array(["a", "b", "c"])[proba.argmax(1)])
    assert (found == labels).mean() > 0.9  # it has learned them
    assert cross_val_score(classifier, texts, labels, cv=2).shape == (2,)
    more = {"validation": (texts, labels), "class_weight": {"a": 2.0, "b": 1.0, "c": 1.0}}
    clone(classifier).set_params(epochs=1, settings=more).fit(texts, labels)
    with pytest.raises(ValueError, match="`settings` has the label 'd', which is none of the 3"):
        clone(classifier).set_params(settings={"test": (["w1"], ["d"])}).fit(texts, labels)
    # The order of classes is theirs, not that of their numbers as texts, where 10 is before 2.
    many = clone(classifier).set_params(epochs=1).fit(texts[:11], np.arange(11))
    assert list(map(int, many.model_.label_names)) == list(many.classes_) == list(range(11))


def test_mteb_gives_the_scores_of_sentence_transformers(minilm):
    mteb = pytest.importorskip("mteb")
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from benchmarks.retrieval import long_documents, mteb_passages
    from keras_posenc.adapters import MTEBEncoder

    words = "river house law cat music bread stone war ship tree king school".split()
    rng = np.random.default_rng(0)
    texts = {f"text {n}": " ".join(rng.choice(words, 60)) for n in range(4)}
    collection = long_documents.Collection([*texts], [*texts.values()], [])
    for number, text in enumerate(texts.values()):
        for depth in long_documents.DEPTHS:
            start = round(50 * depth)
            query = " ".join(text.split()[start : start + 10])
            collection.queries.append(long_documents.Query(query, number, depth))
    task = mteb_passages.Passages(collection)

    def scores(model):
        found = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
        return {
            name: value
            for name, value in found.task_results[0].scores["test"][0].items()
            if isinstance(value, float)
        }

    theirs = SentenceTransformer(str(minilm), device="cpu")
    theirs.max_seq_length = 32
    expected = scores(theirs)
    assert scores(MTEBEncoder(minilm, max_length=32)) == pytest.approx(
        expected, abs=1e-5, nan_ok=True
    )
    assert 0 < expected["top1_depth_05"] <= 1 and 0.3 < expected["ndcg_at_10"] < 1
    late = scores(MTEBEncoder(minilm, max_length=600, reading="late:16"))
    assert late["ndcg_at_10"] > expected["ndcg_at_10"]  # it has read the rest


def test_late_chunks_are_averaged(minilm):
    text = "Ada is a chemist. She lives by the harbour."
    sides = Sides(minilm, reading="late:4")
    chunks = sides.model.encode_documents([text, "A cat."], verbose=0)
    vectors = sides.encode_documents([text, "A cat."])
    assert (chunks.texts == 0).sum() > 1
    np.testing.assert_allclose(vectors[0], chunks.vectors[chunks.texts == 0].mean(0), atol=1e-6)
    assert sides.encode_documents(["A cat."]).shape == sides.encode_texts(["A cat."]).shape


def test_texts_of_no_side_have_the_prompt_of_all(minilm):
    sides = Sides(minilm)
    sides.model.sides = {"query": "query: ", "document": "passage: "}
    plain = sides.encode_texts(["A cat."])
    np.testing.assert_allclose(plain, sides.model.predict(["A cat."], verbose=0), atol=1e-6)
    assert np.abs(plain - sides.encode_documents(["A cat."])).max() > 1e-3


def test_faiss_finds_the_neighbours_of_search(pretrained):
    faiss = pytest.importorskip("faiss")
    from keras_posenc import embed
    from keras_posenc.retrieval import search

    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(1, 9, 6)) for _ in range(20)]
    vectors = embed(pretrained, texts, verbose=0)
    queries = embed(pretrained, TEXTS, queries=True, verbose=0)
    found = search(pretrained, vectors, TEXTS, verbose=0, top_k=5)
    for each in (vectors, queries):
        faiss.normalize_L2(each)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scores, numbers = index.search(queries, 5)
    assert [row["id"] - 1 for row in found] == numbers.ravel().tolist()
    np.testing.assert_allclose([row["score"] for row in found], scores.ravel(), atol=1e-6)
    assert len({*numbers[:, 0].tolist()}) > 1


PASSAGES = ["w1 w2. w3", "w5 w5 w1", "w6 w7 w8"]


@pytest.fixture
def retriever(pretrained):
    """A function that makes a retriever of three texts, with a limit of two."""
    vectors = embed(pretrained, PASSAGES, reading="late:2", verbose=0)

    def make(kind, **options):
        return kind(pretrained, vectors, texts=PASSAGES, top_k=2, **options)

    return make


def test_a_retriever_searches_as_search_does(pretrained, retriever):
    vectors = embed(pretrained, PASSAGES, reading="late:2", verbose=0)
    rows = search(pretrained, vectors, "w5", texts=PASSAGES, top_k=2, verbose=0)
    found = retriever(Retriever).find("w5")
    assert [(text, meta["id"], meta["start"]) for text, _, meta in found] == [
        (row["text"], row["id"], row["start"]) for row in rows
    ]
    assert len(retriever(Retriever).find("w5", top_k=3, only=None)) == 3
    with pytest.raises(ValueError, match="A retriever needs the texts of its vectors: give them"):
        Retriever(pretrained, vectors).find("w5")


def test_retrievers_of_other_libraries(retriever):
    expected = [(text, score) for text, score, _ in retriever(Retriever).find("w5")]
    libraries = 0
    with contextlib.suppress(ImportError):
        from keras_posenc.adapters import LangChainRetriever

        found = retriever(LangChainRetriever).invoke("w5")
        assert [(each.page_content, each.metadata["score"]) for each in found] == expected
        made = retriever(LangChainRetriever, tags=["mine"])
        assert made.tags == ["mine"] and len(made.batch(["w5", "w1"], top_k=1)[1]) == 1
        assert asyncio.run(made.ainvoke("w5", top_k=1)) == found[:1]
        libraries += 1
    with contextlib.suppress(ImportError):
        from keras_posenc.adapters import LlamaIndexRetriever

        found = retriever(LlamaIndexRetriever).retrieve("w5")
        assert [(each.node.text, each.score) for each in found] == expected
        places = [each.node.metadata for each in found]
        ids = [f"{place['id']}:{place['start']}" for place in places]
        assert [each.node.node_id for each in found] == ids and len(set(ids)) == len(ids)
        from llama_index.core.callbacks import CallbackManager

        manager = CallbackManager()
        made = retriever(LlamaIndexRetriever, callback_manager=manager)
        assert made.callback_manager is manager and asyncio.run(made.aretrieve("w5")) == found
        libraries += 1
    with contextlib.suppress(ImportError):
        from keras_posenc.adapters import HaystackRetriever

        found = retriever(HaystackRetriever).run(query="w5")["documents"]
        assert [(each.content, each.score) for each in found] == expected
        assert len(retriever(HaystackRetriever).run(query="w5", top_k=1)["documents"]) == 1
        stored = HaystackRetriever("model", pathlib.Path("v.npy"), texts=pathlib.Path("t.jsonl"))
        assert stored.to_dict()["init_parameters"] == {
            "model": "model",
            "vectors": "v.npy",
            "texts": "t.jsonl",
        }
        with pytest.raises(ValueError, match="`vectors` must be a path .* Received: ChunkVectors"):
            retriever(HaystackRetriever).to_dict()
        libraries += 1
    if not libraries:
        pytest.skip("none of the libraries is installed")


def test_a_retriever_keeps_the_index_of_words(retriever, monkeypatch):
    pytest.importorskip("bm25s")
    both = retriever(Retriever, scoring="both")
    first = both.find("w6")
    from keras_posenc.retrieval.words.index import WordIndex

    monkeypatch.setattr(WordIndex, "of", None)
    assert both.find("w6") == first and first[0][0].startswith("w6")
    # Fusion takes a passage with other scores in its metadata for another passage.
    assert "id" in first[0][2] and not {"vector_score", "word_score"} & first[0][2].keys()


def test_chunks_of_a_model_that_reads_in_windows_are_refused(pretrained):
    with pytest.raises(ValueError, match="leave out `windows`. Received: chunks=2, reading='late"):
        Sides(pretrained, reading="late:2,windows=8").encode_chunks(TEXTS, 2)
