"""`finetune(freeze="encoder")`: a linear head to convergence on vectors that are computed once."""

import csv
import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG
from selection import on_all

from keras_posenc import build_transformer_model
from keras_posenc.analysis import write_report
from keras_posenc.models.model import model_on
from keras_posenc.training import (
    Classify,
    TextModel,
    evaluate,
    finetune,
    load_finetuned,
    predict,
)
from keras_posenc.training.finetuning.linear import LINKS, PENALTIES, fit_linear

RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c"]
CLASSES = RNG.integers(0, 3, 36)
TEXTS = [
    " ".join(RNG.choice([f"w{1 + c}", f"w{4 + c}", "w9"], 5 + 4 * (n % 5)))
    for n, c in enumerate(CLASSES)
]
LABELS = {
    "classify": [NAMES[c] for c in CLASSES],
    "multilabel": [[NAMES[c], "long"] if n % 5 > 2 else [NAMES[c]] for n, c in enumerate(CLASSES)],
    "regress": [float(c) for c in CLASSES],
}


def vectors_of(finetuned, texts, **changes):
    """What the last layer reads, by the saved model itself."""
    model = finetuned.model
    last = model.layers[-1]
    vectors = model_on(model, last.input, "vectors")
    options = {"max_length": finetuned.max_length, "chunks": finetuned.chunks, **changes}
    return TextModel(vectors, finetuned.tokenizer, **options).predict(texts, verbose=0), last


@pytest.mark.once
def test_texts_that_are_cut_are_another_run(pretrained, tmp_path):
    (folder := tmp_path / "bert").mkdir()
    shutil.copy(pretrained / "vocab.txt", folder)
    config = {**TINY_CONFIG, "max_position_embeddings": 512, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    build_transformer_model(config).save(folder / "model.keras")
    documents = (TEXTS, LABELS["classify"])
    arguments, fixed = (folder, documents), {"freeze": "encoder", "verbose": 0}
    fixed["test"] = TEXTS[:1], ["b"]
    finetune(*arguments, tmp_path / "whole", **fixed)
    with pytest.raises(ValueError, match="other settings|lengths"):
        finetune(*arguments, tmp_path / "whole", max_length=512, **fixed)
    finetune(*arguments, tmp_path / "cut", max_length=512, **fixed)
    pages = {}
    for name in ("whole", "cut"):
        pages[name] = pathlib.Path(write_report(tmp_path / name)).read_text("utf-8")
        assert "epochs=" not in pages[name]
    assert "all, in chunks of 512 tokens" in pages["whole"] and "the first" not in pages["whole"]
    assert "the first 512 tokens" in pages["cut"] and "chunks of" not in pages["cut"]
    for page in pages.values():
        assert "Train all weights, without freeze" in page and "longer, or" not in page
    assert "max_length=512" in pages["cut"] and "freeze=&quot;encoder&quot;" in pages["cut"]
    assert "max_length=" not in pages["whole"] and "encoder:512" in pages["whole"]
    again = finetune(*arguments, tmp_path / "whole", **fixed | {"freeze": "encoder:512"})
    assert again == finetune(*arguments, tmp_path / "whole", **fixed)  # it is the same run


# The minimum is found in NumPy, so that the backend only reads the texts: whole, and cut.
HEADS = [(task, how) for task in LABELS for how in ({}, {"max_length": 12})]
ON_ALL = [("classify", {}), ("multilabel", {"max_length": 12})]


@pytest.mark.parametrize(("task", "how"), on_all(ON_ALL, HEADS))
def test_the_head_is_the_minimum_on_vectors_of_whole_texts(task, how, pretrained, tmp_path):
    documents = (TEXTS, LABELS[task])
    metrics = finetune(
        pretrained,
        documents,
        tmp_path,
        task=task,
        test=documents,
        freeze="encoder",
        verbose=0,
        **how,
    )
    finetuned = load_finetuned(tmp_path)
    assert (finetuned.chunks, finetuned.max_length) == ((None, 12) if how else (16, 16))
    vectors, last = vectors_of(finetuned, TEXTS)
    kernel, bias = (keras.ops.convert_to_numpy(each).astype("float64") for each in last.weights)
    outputs = vectors @ kernel + bias
    link = LINKS[finetuned.kind.problem_type]
    found = finetuned.predict(TEXTS, verbose=0)
    expected = link.mean(outputs) if task == "multilabel" else outputs
    np.testing.assert_allclose(found, expected, atol=1e-4)  # what was trained is what predicts
    if task == "classify":
        targets = np.eye(3)[CLASSES]
    elif task == "multilabel":
        targets = np.array(
            [[n in each for n in finetuned.label_names] for each in LABELS[task]], float
        )
    else:
        targets = CLASSES[:, None].astype("float64")
    # The bias is not penalised: at the minimum the errors of each output cancel.
    assert np.abs((link.mean(outputs) - targets).mean(0)).max() < 1e-3
    assert metrics["train"]["penalty"] in PENALTIES
    assert metrics["train"]["trainable_weights"] == kernel.size + bias.size
    before = keras.saving.load_model(pretrained / "model.keras").get_weights()
    for one, other in zip(before, finetuned.model.get_weights(), strict=False):
        np.testing.assert_array_equal(one, other)
    again = evaluate(tmp_path, documents, verbose=0)["test"]
    assert again["loss"] == pytest.approx(metrics["test"]["loss"], rel=1e-6)
    first = next(iter(metrics["scores"]))
    assert metrics["test"][first] > (0.8 if task != "regress" else 0.6)
    assert len(predict(tmp_path, TEXTS[:3], verbose=0)) == 3
    with open(tmp_path / "history.csv") as file:
        (row,) = csv.DictReader(file)
    assert float(row["loss"]) == pytest.approx(float(link.loss(outputs, targets).mean()), rel=1e-3)


@pytest.mark.once
@pytest.mark.parametrize("freeze", ["encoder:8", ["encoder:8"], ("encoder:8",)])
def test_the_size_of_the_chunks_can_be_given(pretrained, tmp_path, freeze):
    documents = (TEXTS, LABELS["classify"])
    finetune(pretrained, documents, tmp_path, freeze=freeze, verbose=0)
    assert (load_finetuned(tmp_path).chunks, load_finetuned(tmp_path).pool) == (8, "logits")
    means = vectors_of(load_finetuned(tmp_path), TEXTS)[0]
    whole = vectors_of(load_finetuned(tmp_path), TEXTS, chunks=None, max_length=8)[0]
    assert np.abs(means - whole).max() > 1e-3
    # It exports as any other, and is read back.
    paths = load_finetuned(tmp_path).export(tmp_path / "exported")
    assert all(path for path in paths)
    weights = finetune(
        pretrained,
        documents,
        tmp_path / "weighted",
        task=Classify(class_weight={"a": 100.0}),
        freeze="encoder:8",
        verbose=0,
    )
    assert weights["train"]["documents"] == 36


@pytest.mark.once
def test_pairs_whose_first_text_fills_a_chunk(pretrained, tmp_path, capsys):
    pairs = [(text, "w1") for text in TEXTS]  # of 5 to 21 tokens
    error = (
        "Text 2: its first text has 13 tokens, and a window or chunk has room for 13, so that none "
        "is left for its second text: make them longer, or cut both texts by `max_length` in place"
    )
    documents = pairs, LABELS["classify"]
    with pytest.raises(ValueError, match=error):
        finetune(pretrained, documents, tmp_path, freeze="encoder", verbose=0)
    short = [pair[::-1] for pair in pairs]
    for role in ("validation", "test"):
        with pytest.raises(ValueError, match=error):
            given = (short, LABELS["classify"]), tmp_path / role
            finetune(pretrained, *given, freeze="encoder", verbose=2, **{role: documents})
    assert "linear head trained" not in "".join(capsys.readouterr())
    finetune(pretrained, documents, tmp_path, freeze="encoder", max_length=16, verbose=0)
    with pytest.raises(ValueError, match=error):
        predict(tmp_path, pairs, chunks=16, verbose=0)
    assert len(predict(tmp_path, short, chunks=16, verbose=0)) == 36


@pytest.mark.once
@pytest.mark.parametrize(
    "given, error",
    [
        ({"epochs": 2}, "takes no epochs: leave them out"),
        ({"lora_rank": 2, "epochs": 1}, "takes no epochs and no lora_rank"),
        ({"optimizer": "lion"}, "takes no optimizer"),
        ({"dropout_rate": 0.5}, "takes no dropout_rate"),
        ({"lengths": [(8, 1), (16, 1)]}, "takes no lengths"),
        ({"longer": "skip"}, "takes no longer"),
        ({"task": "tag"}, "for task classify, multilabel or regress. Received: task='tag'"),
        ({"freeze": ["encoder", "embeddings"], "max_length": 16}, "'encoder', which matches none"),
        ({"freeze": "encoder:8", "max_length": 8}, "give one of them. Received: max_length=8"),
        ({"freeze": "encoder:2"}, "`freeze` must be an integer of at least 3: two tokens"),
    ],
)
def test_what_belongs_to_epochs_is_refused(given, error, pretrained, tmp_path):
    documents = (TEXTS, LABELS["classify"])
    if given.get("task") == "tag":
        documents = [["w1"]] * 2, [["O"], ["X"]]
    with pytest.raises(ValueError, match=error):
        finetune(pretrained, documents, tmp_path, **{"freeze": "encoder", "verbose": 0, **given})


@pytest.mark.once
def test_few_texts_have_more_epochs_and_are_told_of_a_head(
    pretrained, tmp_path, capsys, monkeypatch
):
    documents = (TEXTS, LABELS["classify"])
    run = {"max_length": 12, "verbose": 2}
    found = finetune(pretrained, documents, tmp_path / "all", **run)
    advice = "36 texts are few for training all weights, here in 10 epochs: freeze="
    assert capsys.readouterr().out.count(advice) == 1 and found["train"]["epochs"] == 10
    for name, given in (
        ("two", {"epochs": 2}),
        ("stages", {"lengths": [(12, 2)], "max_length": None}),
    ):
        found = finetune(pretrained, documents, tmp_path / name, **{**run, **given})
        assert found["train"]["epochs"] == 2 and "here in 2 epochs" in capsys.readouterr().out
    # More texts, and tasks that were not measured, have 3.
    monkeypatch.setattr("keras_posenc.training.finetuning.recipe.FEW", 35)
    assert finetune(pretrained, documents, tmp_path / "more", **run)["train"]["epochs"] == 3
    finetune(pretrained, documents, tmp_path / "frozen", freeze="encoder", **run)
    printed = capsys.readouterr().out
    assert advice not in printed and "vectors of 36 texts in" in printed


@pytest.mark.once
@pytest.mark.parametrize("rows", [40, 400])
def test_the_minimum_is_that_of_scikit_learn(rows):
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, 60)) * rng.uniform(0.1, 5, 60) + 3
    classes = (features[:, :3] + rng.normal(size=(rows, 3)) * 3).argmax(-1)
    found = fit_linear(features, np.eye(3)[classes], "single_label_classification")
    centred = features - features.mean(0)
    same = []
    for scale in (np.full(60, np.sqrt(np.square(centred).mean())), features.std(0)):
        model = linear_model.LogisticRegression(
            C=1 / (found.penalty * rows), max_iter=9999, tol=1e-9
        )
        model.fit(centred / scale, classes)
        same.append(np.abs(model.coef_.T / scale[:, None] - found.kernel).max())
    assert min(same) < 2e-3
    numbers = features[:, :2] * 100 + 7
    assert fit_linear(features, numbers, "regression").loss < 0.5
    alone = fit_linear(features[:3], np.eye(3), "single_label_classification")
    assert alone.loss is None and alone.penalty == pytest.approx(0.01)
