"""Passages in their documents: marks, the loss, and a run that learns to use the document."""

import json

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG, WORDS
from keras import ops

from keras_posenc import Tokenizer, build_transformer_model, embedder, save_checkpoint
from keras_posenc.analysis import write_report
from keras_posenc.losses import MultipleNegativesRanking, PassageRanking
from keras_posenc.metrics import InBatchAccuracy
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.training import Embed, TextModel, evaluate, finetune
from keras_posenc.training.finetuning import passages
from keras_posenc.training.finetuning.passages import (
    NEGATIVES,
    check_passage,
    encode_passages,
    passage_model,
)

TASK = Embed(document_weight=0.25)
ROW = "w1 w2", "w3 w4 w5 w6 w7 w8 w9 w10 w11", "w6 w7"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random BERT of 40 positions, whose features depend on the other tokens."""
    folder = tmp_path_factory.mktemp("passages")
    config = {**TINY_CONFIG, "max_position_embeddings": 40, "hidden_dropout_prob": 0.0}
    keras.utils.set_random_seed(0)
    model = build_transformer_model(config)
    rng = np.random.default_rng(0)
    model.set_weights([(w == 1) + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()])
    save_checkpoint(model, folder)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder


def rows_of(count, seed=0):
    """Documents whose first word is that of the query, and whose last words are all the same."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        filler = " ".join(f"w{n}" for n in rng.integers(20, 30, 6))
        rows.append((f"w{number} w31", f"w{number} {filler} w32 w33 w34", "w33 w34"))
    return rows


@pytest.mark.once
def test_tokens_of_the_passage_and_of_others_are_marked(small):
    tokenizer = Tokenizer(small)
    (((query, query_marks), (document, marks)),) = encode_passages([ROW], tokenizer, 20)
    assert query == tokenizer.encode(ROW[0])[0] and set(query_marks) == {1}
    assert document == tokenizer.encode(ROW[1])[0]
    # [CLS] w3 | w4 w5 | w6 w7 | w8 w9 | w10 w11 [SEP]
    assert marks == [0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 0]
    # The prompts are in no passage.
    (((prompted, _), (_, behind)),) = encode_passages([ROW], tokenizer, 20, "w12 ", "w13 w14 ")
    assert prompted == tokenizer.encode("w12 w1 w2")[0]
    assert behind == [0, 0, 0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 0]
    # What is cut off has no marks, and a passage that is has no row.
    ((_, (_, cut)),) = encode_passages([ROW], tokenizer, 7)
    assert cut == [0, 0, 2, 2, 1, 1, 0]
    assert encode_passages([ROW], tokenizer, 5) == [None]
    long = ROW[0], " ".join([*["w3 w4"] * 9, "w6", *["w5"] * 20]), "w6"
    ((_, (_, many)),) = encode_passages([long], tokenizer, 60)
    assert set(many) == set(range(2 + NEGATIVES)) and many[19] == 1


def test_passages_have_the_vectors_of_late_chunking(small):
    text_model = TextModel(embedder(small), Tokenizer(small), 40)
    rows = encode_passages([ROW, *rows_of(3)], text_model.tokenizer, 40)
    batches = text_model.batches(rows, apart=True)
    outputs = passage_model(text_model.model).predict(batches, verbose=0)
    vectors = batches.restore_order(outputs)
    assert vectors.shape == (4, 2 + NEGATIVES, 16) and not vectors[0, 5:].any()
    spans = [(ROW[1].index("w6"), ROW[1].index("w7") + 2)]
    late = embed_spans(text_model, [ROW[1]], [spans], verbose=0).vectors[0]
    np.testing.assert_allclose(vectors[0, 1], late, atol=1e-5)
    query = text_model.predict([ROW[0]], verbose=0)[0]
    np.testing.assert_allclose(vectors[0, 0], query, atol=1e-5)


def test_a_query_is_not_computed_at_the_length_of_its_document(small, monkeypatch, caplog):
    text_model = TextModel(embedder(small), Tokenizer(small), 40)
    rows = encode_passages([ROW, *rows_of(3)], text_model.tokenizer, 40)
    ids, marks = (
        np.array([[side[part] + [0] * (12 - len(side[part])) for side in row] for row in rows])
        for part in (0, 1)
    )
    monkeypatch.setattr(passages, "QUERY", 6)
    model = passages.passage_model(text_model.model)
    expected = model.predict_on_batch({"token_ids": ids, "segment_ids": marks})
    ids[:, 0, 6:] = 7
    found = model.predict_on_batch({"token_ids": ids, "segment_ids": marks})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    (((query, _), _),) = encode_passages([("w1 " * 9, *ROW[1:])], text_model.tokenizer, 40)
    assert len(query) == 6 and "1 of 1 queries have more than 6 tokens" in caplog.text
    # Where no text is longer than a query may be, both are computed at once.
    monkeypatch.setattr(passages, "QUERY", 12)
    ids[:, 0, 6:] = 0
    marks[:, 0, 6:] = 0
    at_once = passages.passage_model(embedder(small))
    found = at_once.predict_on_batch({"token_ids": ids, "segment_ids": marks})
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_loss_is_that_of_both_kinds_of_negatives():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3, 4, 5)).astype("float32")
    vectors[1, 3] = 0  # a document with one passage less
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    within = 10 * np.einsum("bd,bkd->bk", unit[:, 0], unit[:, 1:])
    within[1, 2] = -np.inf
    within = np.log(np.exp(within).sum(1)) - within[:, 0]
    across = MultipleNegativesRanking(10.0, reduction=None)(np.arange(3), vectors[:, :2])
    across = ops.convert_to_numpy(across)
    for weight in (0.0, 0.3, 1.0):
        loss = PassageRanking(10.0, weight, reduction=None)
        loss = keras.losses.deserialize(keras.losses.serialize(loss))
        found = ops.convert_to_numpy(loss(np.arange(3), vectors))
        np.testing.assert_allclose(found, weight * within + (1 - weight) * across, atol=1e-5)


@pytest.mark.once
def test_a_run_learns_what_the_document_states_elsewhere(small, tmp_path):
    """The passages are the same in all documents: only their documents tell them apart."""
    rows = rows_of(12)
    settings = dict(task=TASK, max_length=24, epochs=30, optimizer="adamw:3e-3", verbose=0)
    before = finetune(small, rows, tmp_path / "before", test=rows, **{**settings, "epochs": 1})
    metrics = finetune(small, rows, tmp_path / "run", test=rows, **settings)
    assert metrics["labels"] == ["query", "document", "passage"]
    assert metrics["test"]["accuracy"] > max(0.7, before["test"]["accuracy"] + 0.3)
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert recipe["document_weight"] == 0.25
    again = evaluate(tmp_path / "run", rows, verbose=0)
    assert again["test"]["accuracy"] == metrics["test"]["accuracy"]
    page = write_report(tmp_path / "run").read_text("utf-8")
    assert "document_weight=0.25" in page.replace("&#x27;", "'")
    # The directory is an embedder as any other, for late chunking.
    model = open_embedder(tmp_path / "run", max_length=24)
    spans = [[(document.index("w33"), len(document))] for _, document, _ in rows]
    vectors = embed_spans(model, [document for _, document, _ in rows], spans, verbose=0).vectors
    nearest = (model.predict([row[0] for row in rows], verbose=0) @ vectors.T).argmax(1)
    assert (nearest == np.arange(12)).mean() > 0.6


@pytest.mark.once
def test_rows_are_read_from_columns(small, tmp_path):
    head = "passage\tquery\tdocument"
    lines = ["\t".join((row[2], row[0], row[1])) for row in rows_of(6)]
    (tmp_path / "rows.tsv").write_text("\n".join([head, *lines]) + "\n")
    settings = dict(task=TASK, max_length=24, epochs=1, verbose=0)
    one = finetune(small, tmp_path / "rows.tsv", tmp_path / "one", **settings)
    other = finetune(small, rows_of(6), tmp_path / "other", **settings)
    assert one["train"]["steps"] == other["train"]["steps"]
    histories = [(tmp_path / name / "steps.csv").read_text() for name in ("one", "other")]
    assert (
        histories[0].split("\n")[1].split(",")[2:3] == histories[1].split("\n")[1].split(",")[2:3]
    )


@pytest.mark.once
def test_passages_that_are_cut_off_are_not_read(small, tmp_path, caplog):
    """In stages of two lengths, with a metric of the user's and prompts."""
    behind = "w4", " ".join(["w5"] * 12 + ["w9"]), "w9"
    rows = [*rows_of(6), behind]
    task = Embed(document_weight=0.25, query_prompt="w30 ", document_prompt="w31 ")
    settings = dict(task=task, lengths=[(14, 1), (20, 1)], verbose=0)
    metrics = finetune(
        small, rows, tmp_path / "run", test=rows, metrics=[InBatchAccuracy("in_batch")], **settings
    )
    assert "1 of 7 passages begin behind 14 tokens of their documents" in caplog.text
    assert metrics["test"]["documents"] == 7 and "in_batch" in metrics["test"]
    short = evaluate(tmp_path / "run", rows, max_length=14, verbose=0)["test"]
    assert short["documents"] == 7 and short["accuracy"] <= 6 / 7


@pytest.mark.once
def test_what_is_no_passage(small, tmp_path):
    def refused(message, rows, task=TASK, **settings):
        with pytest.raises(ValueError, match=message):
            finetune(small, rows, tmp_path / "out", task=task, **{"verbose": 0, **settings})

    with pytest.raises(ValueError, match="w9.*stands in its document 0 times"):
        check_passage("on line 1", "w1 w2", "w9")
    refused("line 1 of train has the passage 'w1', which .* 2 times", [("w3", "w1 w1", "w1")])
    refused("line 1 of train .*with `document_weight`, give", [("w3", "w1 w2")])
    refused("Every passage begins behind 5 tokens", [ROW] * 4, max_length=5)
    refused("is for groups, and train has passages", [ROW] * 4,
            task=Embed(document_weight=0.2, loss="multiple_negatives_ranking"))  # fmt: skip
    with pytest.raises(ValueError, match="`document_weight` must be .* at most 1"):
        Embed(document_weight=2.0)
    with pytest.raises(ValueError, match="`pooling` must be one of .'mean'"):
        Embed(document_weight=0.2, pooling="cls")
    assert "document_weight" not in Embed().record()


@pytest.mark.once
def test_a_long_query_counts_as_it_is_read(small, tmp_path, monkeypatch):
    """Its first `QUERY` tokens, of a stage that skips what is longer."""
    monkeypatch.setattr(passages, "QUERY", 8)
    rows = rows_of(8)
    rows[0] = (" ".join(["w1"] * 30), *rows[0][1:])
    rows[1] = (rows[1][0], " ".join(["w2"] * 20) + " w5", "w5")
    settings = {"task": TASK, "longer": "skip", "epochs": 1, "max_length": 16, "verbose": 0}
    metrics = finetune(small, rows, tmp_path / "out", **settings)
    assert metrics["train"]["documents"] == 7  # all but that of the long document


@pytest.mark.once
def test_no_other_passage_is_one_of_the_query(small):
    """In the same document, also in copies of both, and wherever the same tokens stand again."""
    tokenizer = Tokenizer(small)
    document = "w3 w4 w5 w6 w7 w8 w9 w10 w11 W6  w7 w12"
    rows = [("w1 w2", document, "w6 w7 w8"), (" W1  w2", document.upper(), "W10 W11")]
    rows += [("w9", document, "w8 w9"), ("w9", document, "w6 w7")]
    marks = [mark[1][1:-1] for _, mark in encode_passages(rows, tokenizer, 20)]
    #                    w3 4  5  6  7  8  9 10 11  6  7 12
    assert marks[0] == [2, 2, 2, 1, 1, 1, 0, 0, 0, 3, 3, 3]
    assert marks[1] == [0, 2, 2, 0, 0, 0, 0, 1, 1, 3, 3, 0]
    assert marks[2] == [0, 2, 2, 0, 0, 1, 1, 3, 3, 0, 0, 0]
    assert marks[3] == [0, 2, 2, 1, 1, 0, 0, 3, 3, 0, 0, 0]
