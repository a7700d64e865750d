"""One call opens every kind of retrieval, and all kinds have the same verbs."""

import json

import numpy as np
import pytest

from keras_posenc.folders.folder import Folder
from keras_posenc.retrieval import (
    DenseEmbedder,
    Embedder,
    LateInteraction,
    LateSpans,
    Reranker,
    SparseEmbedder,
    chunk_spans,
    embed,
    mine_hard_negatives,
    open_embedder,
    rerank,
    search,
)
from keras_posenc.retrieval.embedders import kind_of
from keras_posenc.retrieval.readings import reading_of

pytestmark = pytest.mark.once
TEXTS = ["w1 w2. w3 w4.", "w5", "w6 w7"]


def modules(*kinds):
    rows = [{"type": f"sentence_transformers.models.{kind}", "path": ""} for kind in kinds]
    return {"modules.json": rows}


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, DenseEmbedder),
        ({"config.json": {"architectures": ["BertForMaskedLM"]}}, DenseEmbedder),
        (modules("Transformer", "Pooling", "Dense"), DenseEmbedder),
        (modules("Transformer", "SpladePooling"), SparseEmbedder),
        (modules("Transformer", "Dense"), LateInteraction),
        ({"config.json": {"architectures": ["HF_ColBERT"]}}, LateInteraction),
        ({"config_sentence_transformers.json": {"model_type": "CrossEncoder"}}, Reranker),
        ({"config.json": {"sbert_ce_default_activation_function": "x"}}, Reranker),
        (
            {
                "config.json": {
                    "architectures": ["BertForSequenceClassification"],
                    "id2label": {"0": "LABEL_0"},
                }
            },
            Reranker,
        ),
        (
            {
                "config.json": {
                    "architectures": ["BertForSequenceClassification"],
                    "id2label": {"0": "a", "1": "b"},
                }
            },
            DenseEmbedder,
        ),
    ],
)
def test_the_kind_is_read_from_the_directory(tmp_path, files, kind):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert kind_of(Folder.of(tmp_path)) is kind


@pytest.fixture(scope="module")
def cross(tmp_path_factory, pretrained):
    """Directory of a cross-encoder."""
    folder = tmp_path_factory.mktemp("cross") / "model"
    Reranker(pretrained, label_names=["score"]).save(folder)
    return folder


ARGUMENTS = [{}, {"dimension": 2}, {"reading": "late:8"}, {"output": "vectors.npy"}]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_no_vectors_of_a_cross_encoder(cross, arguments):
    words = "is a cross-encoder, .* no vectors of either: order documents with `rerank`"
    with pytest.raises(ValueError, match=words):
        embed(cross, TEXTS, **arguments)
    if not arguments:
        with pytest.raises(ValueError, match=words):
            embed(open_embedder(cross), TEXTS)


@pytest.mark.parametrize("kind", ["pylate", "stanford"])
def test_only_a_cross_encoder_reranks(colberts, pretrained, kind):
    words = f"{kind} is a model of late interaction, not a cross-encoder: open it with LateInterac"
    with pytest.raises(ValueError, match=words):
        rerank(colberts / kind, "w1", TEXTS)
    with pytest.raises(ValueError, match=words):
        mine_hard_negatives(pretrained, [("w1", "w2"), ("w3", "w4")], reranker=colberts / kind)


def test_hard_negatives_need_an_embedder_of_one_vector(colberts, cross):
    pairs = [("w1", "w2"), ("w3", "w4")]
    with pytest.raises(ValueError, match="per text. Received: .*pylate, a model of late interac"):
        mine_hard_negatives(colberts / "pylate", pairs)
    with pytest.raises(
        ValueError, match="Received: .*, a cross-encoder; .* this one as `reranker`"
    ):
        mine_hard_negatives(cross, pairs)


@pytest.mark.parametrize("texts, kind", [([("w1", "w2")], "pair of str"), ([["w1"]], "words")])
def test_a_prompt_precedes_no_pairs(pretrained, texts, kind):
    with pytest.raises(ValueError, match=f"of the kind '{kind}': put it into .*prompt='w3 '"):
        embed(pretrained, texts, prompt="w3 ", verbose=0)
    assert len(embed(pretrained, texts, verbose=0)) == 1


def test_all_kinds_have_the_same_verbs(pretrained, splade, colberts):
    opened = [
        open_embedder(pretrained),
        SparseEmbedder(splade),
        open_embedder(colberts / "pylate"),
        Reranker(pretrained, label_names=["score"]),
    ]
    for model, query in zip(opened, ("w5", "w5", "one", "w5"), strict=True):
        assert isinstance(model, Embedder)
        texts = TEXTS if query == "w5" else ["one two", "three"]
        found = model.rank(query, texts, top_k=2, verbose=0)
        assert [sorted(each) for each in found] == [["corpus_id", "score"]] * 2
        if isinstance(model, Reranker):
            with pytest.raises(ValueError, match="is a cross-encoder, which reads a query and a"):
                model.encode_queries([query])
            continue
        documents = model.encode_documents(texts, verbose=0)
        scores = model.similarity(model.encode_queries([query], verbose=0), documents)
        assert scores.shape == (1, len(texts))
        assert found[0]["score"] == pytest.approx(scores.max(), abs=1e-6)
        assert model.rank(query, documents, top_k=2, verbose=0) == found


def test_a_document_read_late_has_the_score_of_its_best_chunk(pretrained):
    model = open_embedder(pretrained, reading="late:3")
    query = model.encode_queries(["w1 w2."], verbose=0)
    chunks = model.encode_documents(TEXTS, verbose=0)
    assert len(chunks.vectors) > len(TEXTS)  # else the law says nothing
    unit = chunks.vectors / np.linalg.norm(chunks.vectors, axis=1, keepdims=True)
    products = unit @ (query / np.linalg.norm(query))[0]
    expected = [products[chunks.texts == number].max() for number in range(len(TEXTS))]
    found = model.rank("w1 w2.", TEXTS, verbose=0)
    assert [each["corpus_id"] for each in found] == list(np.argsort(expected)[::-1])
    assert found[0]["score"] == pytest.approx(max(expected), abs=1e-6)


def test_overlapping_chunks_count_shared_tokens_twice(pretrained):
    text = " ".join(f"w{n}" for n in range(12))
    apart, shared = (
        embed(pretrained, [text], reading=f"chunks:6{more}", verbose=0)
        for more in ("", ",overlap=2")
    )
    tokenizer = open_embedder(pretrained).tokenizer
    windows = tokenizer.windows(text, 6, stride=2)
    model = DenseEmbedder(pretrained).model
    rows = [model.predict([np.array([x]) for x in window], verbose=0)[0] for window in windows]
    mean = np.average(rows, axis=0, weights=[len(ids) for ids, _ in windows])
    np.testing.assert_allclose(shared[0], mean, atol=1e-5)
    assert np.abs(shared - apart).max() > 1e-3


@pytest.mark.once
def test_a_long_query_is_read_in_chunks_but_not_late(pretrained):
    """A query has one vector: the mean of its chunks, or that of the whole text."""
    text = " ".join(f"w{n}" for n in range(12))
    whole, chunked, late = (
        open_embedder(pretrained, reading=reading).encode_queries([text], verbose=0)
        for reading in (None, "chunks:6", "late:3")
    )
    expected = embed(pretrained, [text], reading="chunks:6", verbose=0)
    np.testing.assert_allclose(chunked, expected, atol=1e-6)
    np.testing.assert_allclose(late, whole, atol=1e-6)
    assert np.abs(chunked - whole).max() > 1e-3


def test_an_embedder_is_saved_as_it_was_read(pretrained, tmp_path):
    model = open_embedder(pretrained, max_length=24, prompt="w3 ", dimension=8)
    assert str(tmp_path / "saved" / "config.json") in model.save(tmp_path / "saved")
    again = open_embedder(tmp_path / "saved", max_length=24)
    long = [" ".join(f"w{n}" for n in range(20)), "w1"]
    np.testing.assert_allclose(
        again.encode_queries(long, verbose=0), model.encode_queries(long, verbose=0), atol=1e-5
    )
    for side in ("document", None):  # a text of neither side has the default prompt
        found, expected = (each.encode(long, side, verbose=0) for each in (again, model))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    plain = open_embedder(pretrained, max_length=24, dimension=8)
    assert np.abs(plain.encode_queries(long, 0) - model.encode_queries(long, 0)).max() > 1e-3


def test_readings(pretrained, tmp_path):
    assert reading_of("whole") is None and reading_of(None) is None
    assert str(reading_of("chunks:256, overlap=32")) == "chunks:256,overlap=32"
    tokenizer = open_embedder(pretrained).tokenizer
    spans = [chunk_spans(text, tokenizer, 3) for text in TEXTS]
    one, other = (
        embed(pretrained, TEXTS, reading=reading, verbose=0)
        for reading in ("late:3", LateSpans(spans))
    )
    np.testing.assert_array_equal(one.vectors, other.vectors)
    # A record has a digest of the spans, and a search shows the passages.
    source, vectors = tmp_path / "texts.txt", tmp_path / "v.npz"
    source.write_text("\n".join(TEXTS))
    embed(pretrained, source, vectors, reading=LateSpans(spans), verbose=0)
    for row in search(pretrained, vectors, TEXTS[0], verbose=0):
        assert row["text"] == TEXTS[row["id"] - 1][row["start"] : row["end"]]
    assert str(LateSpans(spans)) != str(LateSpans(spans[:2])) == str(LateSpans(spans[:2]))
    with pytest.raises(TypeError, match="`reading` must be Chunks, LateChunks, LateSpans, or a"):
        embed(pretrained, TEXTS, reading=256)
    with pytest.raises(ValueError, match="`chunks` must be a positive integer. Received: 0"):
        embed(pretrained, TEXTS, reading="late:0")
