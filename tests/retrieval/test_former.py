"""Arguments of version 0.4 work as before, with one warning that prints the new call."""

import numpy as np
import pytest

from keras_posenc import embed, rerank, search
from keras_posenc.retrieval import (
    LateInteraction,
    Reranker,
    SparseEmbedder,
    embed_spans,
    open_embedder,
)

pytestmark = pytest.mark.once
TEXTS = ["w1 w2 w3 w4 w5", "w6 w7"]
SPANS = [[(0, 5)], [(0, 2), (3, 5)]]


def vectors(found):
    return getattr(found, "vectors", found)


@pytest.mark.parametrize(
    ("former", "remedy", "new"),
    [
        ({"chunks": 4}, "reading='chunks:4'", {"reading": "chunks:4"}),
        (
            {"chunks": 4, "late": True, "overlap": 1, "max_length": 9},
            "reading='late:4,overlap=1'",
            {"reading": "late:4,overlap=1", "max_length": 9},
        ),
        (
            {"alpha": 0.2, "max_length": 30},
            "extension='hierarchical:0.2'",
            {"extension": "hierarchical:0.2", "max_length": 30},
        ),
        ({"late": False, "chunks": None, "multi": False}, "nothing", {}),
    ],
)
def test_embed(pretrained, former, remedy, new):
    with pytest.warns(DeprecationWarning) as warned:
        found = embed(pretrained, TEXTS, **former, verbose=0)
    # Keras' variables warn, too.
    (message,) = (str(w.message) for w in warned if "works until version 0.7" in str(w.message))
    assert f"embed: give {remedy} in place of" in message
    expected = embed(pretrained, TEXTS, **new, verbose=0)
    np.testing.assert_array_equal(vectors(found), vectors(expected))


def test_what_belongs_to_opening(pretrained, splade, tmp_path):
    opened = r"call embed\(open_embedder\(directory, token_budget=64\), ...\)"
    with pytest.warns(DeprecationWarning, match=opened):
        found = embed(pretrained, TEXTS, token_budget=64, verbose=0)
    model = open_embedder(pretrained, token_budget=64)
    np.testing.assert_array_equal(found, embed(model, TEXTS, verbose=0))
    with pytest.warns(DeprecationWarning, match=r"embed\(SparseEmbedder\(directory\), ...\)"):
        found = embed(splade, TEXTS, sparse=True, verbose=0)
    expected = SparseEmbedder(splade).encode_documents(TEXTS, 0)
    np.testing.assert_array_equal(found.dense(), expected.dense())
    embed(pretrained, TEXTS, tmp_path / "v.npy", dimension=8, verbose=0)
    with pytest.warns(DeprecationWarning, match=r"search\(open_embedder\(directory, max_length=5"):
        best, _ = search(pretrained, tmp_path / "v.npy", TEXTS[1], max_length=5, verbose=0)
    assert best["id"] == 2  # with the dimension of the record
    with pytest.raises(ValueError, match="`multi` and `sparse` are for models of two kinds"):
        embed(pretrained, TEXTS, multi=True, sparse=True)


def test_spans(pretrained):
    with pytest.warns(DeprecationWarning, match=r"embed: give reading=LateSpans\(spans"):
        found = embed(pretrained, TEXTS, spans=SPANS, verbose=0)
    expected = embed_spans(open_embedder(pretrained), TEXTS, SPANS, verbose=0)
    np.testing.assert_array_equal(found.vectors, expected.vectors)


def test_rerank(pretrained):
    with pytest.warns(DeprecationWarning, match="reading='chunks:8,overlap=1'"):
        reranker = Reranker(pretrained, label_names=["a"], chunks=8, overlap=1)
    assert str(reranker.reading) == "chunks:8,overlap=1"
    with pytest.warns(DeprecationWarning, match=r"rerank\(Reranker\(directory, token_budget=8\)"):
        with pytest.raises(ValueError, match="missing"):  # there is no head
            rerank(pretrained, "w1", TEXTS, token_budget=8)


def test_the_length_of_late_interaction(colberts):
    with pytest.warns(DeprecationWarning, match="LateInteraction: give max_length=9 in place of"):
        assert LateInteraction(colberts / "pylate", document_length=9).document.length == 9


@pytest.mark.parametrize(
    ("former", "match"),
    [
        ({"late": True}, "`late` and `overlap` need the size of chunks"),
        ({"overlap": 2}, "`late` and `overlap` need the size of chunks"),
        ({"chunks": 4, "spans": SPANS}, "`spans` are the chunks of each text: leave `chunks`"),
        ({"chunks": 4, "late": True, "overlap": 3}, "`overlap` must be an integer from 0 to 2"),
    ],
)
def test_what_never_went_together(pretrained, former, match):
    with pytest.raises(ValueError, match=match):
        embed(pretrained, TEXTS, **former)


def test_both_spellings_are_refused(pretrained):
    with pytest.raises(TypeError, match="`reading` of embed has what `chunks` had: give it alone"):
        embed(pretrained, TEXTS, chunks=4, reading="chunks:4")
