"""What is given once and needed later: by a saved model, a cache, a report or a second command."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from keras_posenc import build_transformer_model, finetune
from keras_posenc.analysis.run_files import read_curve
from keras_posenc.heads import classifier
from keras_posenc.retrieval import open_embedder
from keras_posenc.text import Tokenizer, shapes
from keras_posenc.training import (
    Embed,
    Optimizer,
    TextModel,
    evaluate,
    load_finetuned,
    load_text_model,
    predict,
)
from keras_posenc.training.runs import IN_MEMORY, whence

pytestmark = pytest.mark.once
DOCUMENT = "w1 w2 w3 w4 w5 w6 w7 w8"
IN_DOCUMENTS = [(f"w{n} w9", DOCUMENT, f"w{n} w{n + 1}") for n in (1, 3, 5, 7)] * 2
SHORT = dict(max_length=16, epochs=1, verbose=0)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    names = ("query", "document", "passage")
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in IN_DOCUMENTS)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_model_without_a_length_is_loaded_again(pretrained, tmp_path):
    model = classifier(build_transformer_model(pretrained), num_classes=2)
    made = TextModel(model, Tokenizer(pretrained), label_names=["a", "b"], task="classify")
    made.save(tmp_path / "saved")
    again = load_text_model(tmp_path / "saved")
    assert again.max_length is None
    np.testing.assert_array_equal(*(m.predict(["w1 w2"], verbose=0) for m in (made, again)))


def test_how_chunks_are_pooled_is_saved(finetuned, tmp_path):
    load_finetuned(finetuned, chunks=16, pool="max").save(tmp_path / "saved")
    pools = [load_finetuned(tmp_path / "saved", pool=pool).pool for pool in (None, "mean", "max")]
    assert pools == ["max", "mean", "max"]
    texts = ["w1 w2 w3 w4 " * 12, "w5 " * 30]
    found = [predict(tmp_path / "saved", texts, pool=pool, verbose=0) for pool in (None, "max")]
    assert found[0] == found[1] != predict(tmp_path / "saved", texts, pool="mean", verbose=0)


def test_passages_in_documents_are_no_triples(pretrained, rows, tmp_path):
    """Neither in a cache nor in an evaluation."""
    task = Embed(document_weight=0.5)
    finetune(pretrained, rows, tmp_path / "a", task=task, cache=tmp_path / "cache", **SHORT)
    found = evaluate(tmp_path / "a", rows, verbose=0)["test"]
    assert found == evaluate(tmp_path / "a", IN_DOCUMENTS, verbose=0)["test"]
    with pytest.raises(ValueError, match="which columns have the texts"):
        finetune(pretrained, rows, tmp_path / "b", task="embed", cache=tmp_path / "cache", **SHORT)


@pytest.mark.parametrize("task", ["embed", "qa"])
def test_callbacks_do_not_wait_for_a_loss_that_is_not_measured(pretrained, tmp_path, task):
    pairs = [(f"w{n} w9", f"w{n} w1 w2") for n in range(8)]
    train = pairs if task == "embed" else (pairs, [[(0, 2)]] * 8)
    with pytest.raises(ValueError, match="EarlyStopping.*val_loss"):
        finetune(
            pretrained, train, tmp_path / "out", task=task, validation=train,
            callbacks=[keras.callbacks.EarlyStopping()], **SHORT,
        )  # fmt: skip


def test_no_texts_are_refused_and_break_nothing(finetuned, tmp_path):
    with pytest.raises(ValueError, match="No texts"):
        predict(finetuned, [], output=tmp_path / "none.jsonl", part_size=2, verbose=0)
    count = predict(finetuned, ["w1", "w2"], output=tmp_path / "a.jsonl", part_size=1, verbose=0)
    assert count == 2


def test_a_metric_of_several_values_is_left_out_of_curves(tmp_path):
    (tmp_path / "history.csv").write_text('epoch,loss,f1\n1,0.5,"[0.0, 0.6]"\n', encoding="utf-8")
    assert read_curve(tmp_path, "history.csv") == [{"epoch": 1.0, "loss": 0.5}]


def test_names_of_columns_are_no_texts():
    assert whence(text=("a", "b"), train=[("a", "b")]) == {"text": ("a", "b"), "train": IN_MEMORY}


def test_no_decay_is_none_of_every_optimizer():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    decays = {}
    for name in ("AdamW", "adamw", "lion", "sgd"):
        optimizer = Optimizer(name, learning_rate=0.1, weight_decay=0).make(model, 10)
        decays[name] = optimizer.weight_decay or 0
    assert set(decays.values()) == {0}


def test_a_prompt_of_all_texts_is_exported(pretrained, tmp_path):
    pairs = [(f"w{n} w9", f"w{n} w1 w2") for n in range(8)]
    finetune(pretrained, pairs, tmp_path / "out", task="embed", **SHORT)
    trained = load_finetuned(tmp_path / "out")
    trained.prompt, trained.prompts = "w7 ", None
    trained.export(tmp_path / "exported")
    found = open_embedder(tmp_path / "exported").encode_documents(["w1 w2"], verbose=0)
    np.testing.assert_allclose(found, trained.predict(["w1 w2"], verbose=0), atol=1e-5)


def test_batches_of_a_training_do_not_depend_on_kept_programs(monkeypatch):
    traits = dataclasses.replace(shapes.backend.TRAITS, shape_price=4096)
    monkeypatch.setattr(shapes.backend, "TRAITS", traits)
    prices = []
    for kept in (False, True):
        monkeypatch.setattr(shapes.backend, "keeps_programs", lambda kept=kept: kept)
        prices.append((shapes.shape_price(training=True), shapes.shape_price()))
    assert prices == [(4096, 4096), (4096, 1024)]
