"""Directories that an earlier version saved, as `references/make_saved.py` wrote them."""

import json
import pathlib

import numpy as np
import pytest
from references.make_saved import DATA

from keras_posenc.training import load_finetuned, load_text_model, predict

SAVED = pathlib.Path(__file__).parents[1] / "references" / "saved"
EXPECTED = json.loads((SAVED / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("task", DATA)
def test_a_model_that_was_finetuned_before_gives_the_same_outputs(task):
    texts, _ = DATA[task]
    model = load_finetuned(SAVED / task)
    assert (model.task, model.labels) == (task, EXPECTED[task]["labels"])
    assert (model.max_length, model.token_budget) == (24, 256)
    outputs = model.model.predict_on_batch(model.batches(texts)[0])
    np.testing.assert_allclose(outputs, EXPECTED[task]["outputs"], atol=1e-3, rtol=1e-4)
    assert len(predict(SAVED / task, texts, verbose=0)) == len(texts)


def test_a_text_model_that_was_saved_before_gives_the_same_vectors():
    model = load_text_model(SAVED / "text_model")
    vectors = model.predict(DATA["classify"][0], verbose=0)
    np.testing.assert_allclose(vectors, EXPECTED["text_model"], atol=1e-3)
    assert (model.max_length, model.prompt, model.labels) == (32, "w1 ", None)
