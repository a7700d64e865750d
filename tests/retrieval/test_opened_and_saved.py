"""What a model of retrieval was opened with: kept when it is saved, and part of a run."""

import json

import numpy as np
import pytest

from keras_posenc.adapters.sides import Sides
from keras_posenc.retrieval import Reranker, embed, open_embedder
from keras_posenc.training import finetune

pytestmark = pytest.mark.once
LONG = " ".join(f"w{n}" for n in np.random.default_rng(0).integers(0, 33, 60))
TEXTS = [LONG, "w1 w2 w3", "w4 w5"]
PAIRS = [(f"w{n}", f"w{n} w{n + 1} w2") for n in range(8)]
SHORT = dict(max_length=40, epochs=1, verbose=0)


@pytest.fixture(scope="module")
def scorer(pretrained, tmp_path_factory):
    output = tmp_path_factory.mktemp("scorer") / "out"
    scores = [n / 8 for n in range(8)]
    finetune(pretrained, (PAIRS, scores), output, task="regress", **SHORT)
    return output


@pytest.fixture(scope="module")
def trained(pretrained, tmp_path_factory):
    output = tmp_path_factory.mktemp("trained") / "out"
    finetune(pretrained, PAIRS, output, task="embed", **SHORT)
    return output


@pytest.fixture
def prompted(pretrained, tmp_path):
    """A copy of an encoder with a prompt for each side."""
    open_embedder(pretrained).save(tmp_path / "prompted")
    settings = {"prompts": {"query": "w7 w7 ", "document": "w8 w8 "}}
    path = tmp_path / "prompted" / "config_sentence_transformers.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path / "prompted"


@pytest.mark.parametrize("reading", [None, "chunks:12"])
def test_a_trained_reranker_keeps_its_scores_and_its_length(scorer, tmp_path, reading):
    reranker = Reranker(scorer, reading=reading)
    reranker.save(tmp_path / "saved")
    again = Reranker(tmp_path / "saved")
    assert again.max_length == 40 and again.activation == "linear"
    pairs = [("w1", LONG), *PAIRS]
    whole = Reranker(scorer).predict(pairs, verbose=0)
    np.testing.assert_allclose(again.predict(pairs, verbose=0), whole, atol=1e-5)


def test_chunks_of_a_reranker_cut_no_text(pretrained, tmp_path):
    Reranker(pretrained, label_names=["score"]).save(tmp_path / "new")
    reranker = Reranker(tmp_path / "new", reading="chunks:12")
    reranker.save(tmp_path / "saved")
    lengths = {Reranker(tmp_path / name).max_length for name in ("new", "saved")}
    assert len(lengths) == 1
    assert Reranker(tmp_path / "saved", reading="chunks:12").predict(
        [("w1", LONG)], verbose=0
    ) == pytest.approx(reranker.predict([("w1", LONG)], verbose=0), abs=1e-5)


@pytest.mark.parametrize(
    "opening", [{"dimension": 8}, {"prompt": "w9 "}, {"reading": "chunks:12"}], ids=str
)
def test_a_trained_embedder_keeps_what_it_was_opened_with(trained, tmp_path, opening):
    opened = open_embedder(trained, **opening)
    opened.save(tmp_path / "saved")
    reading = {key: opening[key] for key in opening if key == "reading"}
    again = open_embedder(tmp_path / "saved", **reading)
    for side in ("query", "document", None):
        found = [each.encode(TEXTS, side, verbose=0) for each in (opened, again)]
        np.testing.assert_allclose(*found, atol=1e-6)
    assert open_embedder(tmp_path / "saved").max_length == 40


def test_a_head_is_not_saved_with_cut_vectors(scorer, tmp_path):
    with pytest.raises(ValueError, match="of the task 'regress', which is saved with its head"):
        open_embedder(scorer, dimension=8).save(tmp_path / "saved")


def test_late_chunks_have_the_prompt_of_documents(prompted):
    found = Sides(prompted).encode_chunks([LONG[:40]], 6)
    expected = open_embedder(prompted, reading="late:6").encode_documents([LONG[:40]], verbose=0)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)


def test_a_changed_model_is_no_model_of_before(prompted, tmp_path):
    """Neither its weights nor its prompts, in vectors that are written in parts."""
    model, output = open_embedder(prompted), tmp_path / "vectors.npy"

    def vectors():
        return np.array(embed(model, TEXTS, output, part_size=2, verbose=0))

    first = vectors()
    np.testing.assert_array_equal(first, vectors())
    model.sides["document"] = ""
    second = vectors()
    np.testing.assert_allclose(second, embed(model, TEXTS, verbose=0), atol=1e-6)
    model.model.set_weights([weights * 1.1 for weights in model.model.get_weights()])
    third = vectors()
    np.testing.assert_allclose(third, embed(model, TEXTS, verbose=0), atol=1e-6)
    assert not np.allclose(first, second) and not np.allclose(second, third)


@pytest.mark.parametrize("name", ["queries.npy", "queries.jsonl"])
def test_queries_are_read_whole_beside_late_chunks(pretrained, tmp_path, name):
    settings = dict(queries=True, reading="late:6", verbose=0)
    expected = embed(pretrained, TEXTS, queries=True, verbose=0)
    np.testing.assert_array_equal(embed(pretrained, TEXTS, tmp_path / name, **settings), expected)
    assert (tmp_path / name).exists()
    with pytest.raises(ValueError, match="output is a .npy"):
        embed(pretrained, TEXTS, tmp_path / "queries.npz", **settings)
