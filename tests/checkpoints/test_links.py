"""Links in the folder of a model: one rule for every file and every reader."""

import json
import os
import shutil

import numpy as np
import pytest

from keras_posenc import build_transformer_model
from keras_posenc.files.untrusted import check_inside
from keras_posenc.folders.folder import Folder
from keras_posenc.models.config_file import read_config
from keras_posenc.retrieval import embed
from keras_posenc.text import Tokenizer
from keras_posenc.training import load_finetuned, load_text_model

pytestmark = pytest.mark.once

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
FILES = {
    "modules.json": MODULES,
    "sentence_bert_config.json": {"max_seq_length": 8},
    "config_sentence_transformers.json": {"prompts": {}},
    "tokenizer_config.json": {"do_lower_case": True},
    "special_tokens_map.json": {"pad_token": "[PAD]"},
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
}
WEIGHTS = ("config.json", "vocab.txt", "model.keras")
TEXTS = ["w1 w2", "w3"]


@pytest.fixture
def folder(tmp_path, pretrained):
    """An embedder: a tiny BERT, and the mean of its features."""
    place = tmp_path / "embedder"
    (place / "1_Pooling").mkdir(parents=True)
    for name in WEIGHTS:
        shutil.copy(pretrained / name, place / name)
    for name, content in FILES.items():
        (place / name).write_text(json.dumps(content))
    return place


def moved(path, place):
    """Moves a file or folder into another folder, and leaves a link to it, which is relative."""
    place.mkdir(exist_ok=True)
    target = place / f"{len(list(place.iterdir())):040x}"
    shutil.move(path, target)
    path.symlink_to(os.path.relpath(target, path.parent))
    return target


def test_the_cache_of_hugging_face(tmp_path, folder, monkeypatch):
    wanted = embed(folder, TEXTS, verbose=0)
    cache = tmp_path / "hub" / "models--me--embedder"
    snapshot = cache / "snapshots" / ("0" * 40)
    shutil.copytree(folder, snapshot)
    for name in (*FILES, *WEIGHTS):
        moved(snapshot / name, cache / "blobs")
    (tmp_path / "link").symlink_to(snapshot)
    monkeypatch.chdir(snapshot)
    for path in (snapshot, tmp_path / "link", "."):
        np.testing.assert_array_equal(embed(path, TEXTS, verbose=0), wanted)
        assert Tokenizer(path).encode("w1") == Tokenizer(folder).encode("w1")
        assert read_config(path) == read_config(folder)
    assert Tokenizer(snapshot / "vocab.txt").encode("w1") == Tokenizer(folder).encode("w1")
    # Not out of another model's blobs, nor out of the cache.
    for place in (tmp_path / "hub" / "models--you--secret" / "blobs", tmp_path / "blobs"):
        place.mkdir(parents=True)
        target = place / "secret"
        shutil.copy(folder / "config.json", target)
        (snapshot / "config.json").unlink()
        (snapshot / "config.json").symlink_to(target)
        with pytest.raises(ValueError, match="config.json is refused: it is a link to a file el"):
            embed(snapshot, TEXTS, verbose=0)


@pytest.mark.parametrize("name", [*FILES, *WEIGHTS, "1_Pooling"])
def test_links_within_the_folder_are_followed_and_others_refused(tmp_path, folder, name):
    target = moved(folder / name, folder / "inside")
    assert embed(folder, TEXTS, verbose=0).shape[0] == 2
    (folder / name).unlink()
    shutil.move(target, tmp_path / "secret")
    (folder / name).symlink_to(tmp_path / "secret")
    file = name.replace(".", r"\.")
    with pytest.raises(ValueError, match=f"{file}.* is refused: it is a link to a file elsewhere"):
        embed(folder, TEXTS, verbose=0)
    if name in WEIGHTS:
        with pytest.raises(ValueError, match=f"{file} is refused: it is a link to a file elsewhe"):
            Tokenizer(folder) if name == "vocab.txt" else build_transformer_model(folder)
    if name == "config.json":  # what names a file means it
        assert read_config(folder / name) == read_config(tmp_path / "secret")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.json", "merges.txt", "spiece.model"])
def test_files_of_tokenizers(tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "vocab.json").write_text(json.dumps({"<s>": 0, "</s>": 1, "a": 2}))
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "model" / name
    if name == "spiece.model":
        os.remove(tmp_path / "model" / "vocab.json")
    path.unlink(missing_ok=True)
    path.symlink_to("../secret")
    with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere") as caught:
        Tokenizer(tmp_path / "model")
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["model.keras", "labels.json", "text_model.json", ".results"])
@pytest.mark.parametrize("load", [load_finetuned, load_text_model])
def test_what_a_run_left(tmp_path, name, load):
    secret = tmp_path / "secret"
    secret.mkdir()
    names = ("model.keras", "labels.json", "text_model.json", "tokenizer.json")
    for each in names:
        (secret / each).write_text("{}")
    output = tmp_path / "output"
    shutil.copytree(secret, output)
    (output / name).unlink(missing_ok=True)
    (output / name).symlink_to(secret if name == ".results" else secret / name)
    read = {load_finetuned: "labels.json", load_text_model: "text_model.json"}[load]
    if name in (read, ".results", "model.keras"):
        with pytest.raises(ValueError, match="is refused: it is a link to a file elsewhere"):
            load(output)


def test_links_to_nothing_and_in_circles(tmp_path):
    (tmp_path / "model").mkdir()
    for name, target in {"a": "b", "b": "a", "c": "nothing"}.items():
        (tmp_path / "model" / name).symlink_to(target)
        check_inside(tmp_path / "model" / name, tmp_path / "model")
        folder = Folder.of(tmp_path / "model")
        assert not folder.has(folder.newest(name))
