"""Adapters to other libraries, each with the real package."""

import numpy as np
import pytest

from keras_posenc.adapters import Sides
from keras_posenc.retrieval import open_embedder

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


def test_ray_batches(pretrained, expected):
    from keras_posenc.adapters import RayEmbedder

    batch = RayEmbedder(pretrained)({"id": np.arange(3), "text": np.array(TEXTS)})
    np.testing.assert_allclose(batch["vector"], expected, atol=1e-6)
    np.testing.assert_array_equal(batch["id"], np.arange(3))
