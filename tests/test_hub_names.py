"""A name on the Hugging Face Hub in the place of a path: the error has the download."""

import pathlib

import pytest

import keras_posenc
from keras_posenc.analysis import inspect_checkpoint
from keras_posenc.cli import main
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once

NAME = "sentence-transformers/all-MiniLM-L6-v2"
COMMAND = f"hf download {NAME} --local-dir all-MiniLM-L6-v2"

OPENERS = {
    "build_transformer_model": keras_posenc.build_transformer_model,
    "open_checkpoint": keras_posenc.checkpoints.open_checkpoint,
    "read_config": keras_posenc.read_config,
    "Tokenizer": Tokenizer,
    "embedder": keras_posenc.embedder,
    "open_embedder": keras_posenc.retrieval.open_embedder,
    "embed": lambda name: keras_posenc.embed(name, ["a text"]),
    "load_finetuned": keras_posenc.load_finetuned,
    "inspect_checkpoint": inspect_checkpoint,
    "stretch": lambda name: keras_posenc.stretch(name, ["a text"], "out", length=1024),
    "finetune": lambda name: keras_posenc.finetune(name, (["a", "b"], ["c", "d"]), "out"),
    "pretrain": lambda name: keras_posenc.pretrain(name, ["a text"], "out"),
}


@pytest.mark.parametrize("kind", [str, pathlib.Path])
@pytest.mark.parametrize("opener", OPENERS)
def test_a_name_on_the_hub_is_answered_by_its_download(opener, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=COMMAND):
        OPENERS[opener](kind(NAME))


def test_the_command_line_answers_as_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", NAME]) == 2
    assert COMMAND in capsys.readouterr().err


@pytest.mark.parametrize("path", ["nowhere", "/no/where", "a/b/c", "here/file", "../a"])
def test_other_paths_are_not_taken_for_names(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(FileNotFoundError) as error:
        keras_posenc.checkpoints.open_checkpoint(path)
    assert "hf download" not in str(error.value)
