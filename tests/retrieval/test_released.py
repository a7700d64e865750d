"""Files that earlier releases wrote are read, and give what they gave."""

import json
import pathlib

import numpy as np
import pytest
from selection import on_all

from keras_posenc import embed, load_finetuned, search
from keras_posenc.retrieval import Vectors, open_embedder

FOLDER = pathlib.Path(__file__).parents[1] / "references" / "released"
VERSIONS = ("0.2.0", "0.3.0", "0.4.0")
# The weights of the oldest are read on every backend; records and settings are read without one.
over_versions = pytest.mark.parametrize("version", on_all(VERSIONS[:1], VERSIONS))
# As in references/released/make.py.
TEXTS = ["one two three", "four five six seven one two three four five six", "seven"]
LATE = {"reading": "late:3", "max_length": 12, "extension": "hierarchical:0.3"}


@over_versions
def test_vectors_of_a_release_are_those_of_today(version):
    folder = FOLDER / version
    found = embed(folder / "encoder", TEXTS, verbose=0)
    np.testing.assert_allclose(found, np.load(folder / "whole.npy"), atol=1e-5)
    found = embed(folder / "encoder", TEXTS, reading="chunks:6", verbose=0)
    np.testing.assert_allclose(found, Vectors.load(folder / "mean.jsonl").values, atol=1e-5)
    found = embed(folder / "encoder", TEXTS, **LATE, verbose=0)
    stored = Vectors.load(folder / "late.npz")
    np.testing.assert_allclose(found.vectors, stored.values, atol=1e-5)
    np.testing.assert_array_equal(found.texts + 1, stored.ids)


@over_versions
def test_vectors_of_a_release_are_searched(version):
    folder = FOLDER / version
    model = open_embedder(folder / "encoder", max_length=12, extension="hierarchical:0.3")
    for name in ("whole.npy", "mean.jsonl"):
        best, *_ = search(folder / "encoder", folder / name, TEXTS[2], texts=TEXTS, verbose=0)
        assert (best["id"], best["text"]) == (3, "seven"), name
    best, *_ = search(model, folder / "late.npz", "seven", texts=TEXTS, verbose=0)
    assert best["text"] == "seven"


@pytest.mark.once
def test_the_settings_of_a_record_of_version_4():
    vectors = Vectors.load(FOLDER / "0.4.0" / "late.npz")
    assert vectors.settings["max_length"] == 12
    assert vectors.settings["extension"] == {
        "table": "hierarchical",
        "alpha": 0.3,
        "kept_rows": 0,
    }
    best, *_ = search(FOLDER / "0.4.0" / "encoder", vectors, "seven", texts=TEXTS, verbose=0)
    assert best["text"] == "seven" and best["score"] == pytest.approx(1, abs=1e-5)


@over_versions
def test_runs_of_a_release_are_loaded(version):
    folder = FOLDER / version
    model = load_finetuned(folder / "run")
    assert model.label_names == ["a", "b"] and model.max_length == 12
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), np.load(folder / "run.npy"), atol=1e-5
    )
    assert open_embedder(folder / "run").encode_documents(TEXTS, verbose=0).shape == (3, 4)
    assert json.loads((folder / "run" / "recipe.json").read_text())["lengths"] == [[12, 1]]
