"""Directories that an earlier version saved, as `references/make_saved.py` wrote them."""

import json
import pathlib

import numpy as np
import pytest
from references.make_saved import DATA
from selection import on_all

from keras_posenc.training import load_finetuned, load_text_model, predict

SAVED = pathlib.Path(__file__).parents[1] / "references" / "saved"
EXPECTED = json.loads((SAVED / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("task", on_all(["tag"], DATA))
def test_a_model_that_was_finetuned_before_gives_the_same_outputs(task):
    texts, _ = DATA[task]
    model = load_finetuned(SAVED / task)
    assert (model.task, model.label_names) == (task, EXPECTED[task]["labels"])
    assert (model.max_length, model.token_budget) == (24, 256)
    outputs = model.model.predict_on_batch(model.batches(texts)[0])
    np.testing.assert_allclose(outputs, EXPECTED[task]["outputs"], atol=1e-3, rtol=1e-4)
    assert len(predict(SAVED / task, texts, verbose=0)) == len(texts)


def test_a_text_model_that_was_saved_before_gives_the_same_vectors():
    model = load_text_model(SAVED / "text_model")
    vectors = model.predict(DATA["classify"][0], verbose=0)
    np.testing.assert_allclose(vectors, EXPECTED["text_model"], atol=1e-3)
    assert (model.max_length, model.prompt, model.label_names) == (32, "w1 ", None)


@pytest.mark.once
def test_one_loader_reads_both(tmp_path):
    model = load_text_model(SAVED / "classify", max_length=8)
    assert (model.task, model.max_length) == ("classify", 8)
    texts, _ = DATA["classify"]
    model.save(tmp_path)
    again = load_text_model(tmp_path)
    np.testing.assert_array_equal(again.predict(texts, verbose=0), model.predict(texts, verbose=0))
    settings = json.loads((tmp_path / "labels.json").read_text("utf-8"))
    for key, value in {
        "max_length": 0,
        "token_budget": True,
        "labels": [1],
        "task": ["tag"],
    }.items():
        (tmp_path / "labels.json").write_text(json.dumps(settings | {key: value}))
        with pytest.raises(ValueError, match=f"labels.json is damaged .{key}.* should be "):
            load_text_model(tmp_path)


@pytest.mark.once
def test_the_rows_of_chunks_are_pooled(tmp_path):
    model = load_text_model(SAVED / "text_model", chunks=6)
    model.prompt = ""
    text = "w1 w2 w3 w4 w5 w6"
    parts = model.predict(["w1 w2 w3 w4", "w5 w6"], verbose=0)
    (row,) = model.predict([text], verbose=0)
    np.testing.assert_allclose(row, np.average(parts, axis=0, weights=[6, 4]), atol=1e-6)
