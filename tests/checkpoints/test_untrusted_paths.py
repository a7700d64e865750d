"""Paths of strangers: pipes, devices, links and indexes that lead elsewhere."""

import json
import os
import re

import numpy as np
import pytest

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.files.untrusted import MOST_JSON
from keras_posenc.folders.folder import open_folder
from keras_posenc.models.config_file import read_config
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once

INDEX = "model.safetensors.index.json"


def index(folder, places, text=None):
    path = folder / INDEX
    path.write_text(text or json.dumps({"weight_map": places}))
    return path


@pytest.mark.parametrize(
    "name", ["model.safetensors", "pytorch_model.bin", INDEX, "x.ckpt.index", "x.keras"]
)
def test_pipes_and_devices_are_not_opened(tmp_path, name):
    os.mkfifo(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=f"{name} is not an ordinary file, but a folder, a p"):
            open_checkpoint(path)
    os.remove(tmp_path / name)
    os.symlink("/dev/zero", tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is not an ordinary file"):
        open_checkpoint(tmp_path)
    os.remove(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is not an ordinary file"):
        open_checkpoint(tmp_path)


def test_pipes_in_place_of_parts(tmp_path):
    os.mkfifo(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"a\.safetensors is not an ordinary file"):
        open_checkpoint(index(tmp_path, {"a": "a.safetensors"}))


OUTSIDE = {
    "a folder above": "../x.safetensors",
    "a folder inside": "inside/x.safetensors",
    "an absolute path": "/x.safetensors",
    "a folder of Windows": "..\\x.safetensors",
    "a drive of Windows": "C:x.safetensors",
    "the folder": ".",
    "the folder above": "..",
    "nothing": "",
    "a zero": "x\0.safetensors",
    "a line": "x\n.safetensors",
    "no Unicode": "\ud800",
    "a name too long": "x" * 1_000_000,
    "itself": INDEX,
    "another index": "other.index.json",
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_index_names_files_in_its_folder(tmp_path, case):
    (tmp_path / "a" / "inside").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a" / "inside"):
        write_safetensors(folder / "x.safetensors", {"a": np.ones(2, "float32")})
    name = OUTSIDE[case].replace("/x", str(tmp_path / "x")) if case == "an absolute path" else None
    path = index(tmp_path / "a", {"a": name or OUTSIDE[case]})
    with pytest.raises(ValueError, match="is refused: it names '.*' as a file beside it") as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


PARTS = {
    "[]": 'is damaged: it should be JSON with a "weight_map"',
    '{"weight_map": ["x"]}': 'is damaged: it should be JSON with a "weight_map"',
    '{"weight_map": {"a": "../x.h5"}}': "is refused: it names '../x.h5' as a file beside it",
    '{"weight_map": {"a": ["x.h5", 3]}}': "is refused: it names '3' as a file beside it",
    '{"weight_map": {"a": [["x.h5"], "y.h5"]}}': "is refused: it names .*x.h5.* as a file beside",
}


def preset_index(folder, text):
    preset = {"registered_name": "keras_hub>BertBackbone", "config": {}}
    (folder / "config.json").write_text(json.dumps(preset))
    (folder / "model.weights.json").write_text(text)
    return folder


@pytest.mark.parametrize("text", PARTS)
def test_an_index_of_a_preset(tmp_path, text):
    with pytest.raises(ValueError, match=f"model.weights.json {PARTS[text]}"):
        open_checkpoint(preset_index(tmp_path, text))


def test_shards_of_a_preset(tmp_path):
    """One that is not there is named with the folder, and each is part of the fingerprint."""
    preset_index(tmp_path, '{"weight_map": {"a": "b.h5", "c": ["c.h5", "b.h5"]}}')
    (tmp_path / "b.h5").write_bytes(b"1")
    with pytest.raises(FileNotFoundError, match=r"weights.json names files that are not beside it"):
        open_checkpoint(tmp_path)
    (tmp_path / "c.h5").write_bytes(b"2")
    before = open_folder(tmp_path).fingerprint
    (tmp_path / "c.h5").write_bytes(b"3")
    assert before != open_folder(tmp_path).fingerprint


def test_links(tmp_path):
    """The files of a snapshot in the cache of Hugging Face are links; others stay in the folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123"
    for folder in (blobs, snapshot, tmp_path / "model"):
        folder.mkdir(parents=True)
    write_safetensors(blobs / "89ab", {"a": np.ones(2, "float32")})
    index(blobs, {"a": "a.safetensors"}).rename(blobs / "cdef")
    (snapshot / "a.safetensors").symlink_to("../../blobs/89ab")
    (snapshot / INDEX).symlink_to("../../blobs/cdef")
    for path in (snapshot, snapshot / INDEX):
        assert open_checkpoint(path)["a"].tolist() == [1, 1]
    (tmp_path / "link").symlink_to(snapshot)
    assert open_checkpoint(tmp_path / "link")["a"].tolist() == [1, 1]
    path = index(tmp_path / "model", {"a": "a.safetensors"})
    (tmp_path / "model" / "a.safetensors").symlink_to("../blobs/89ab")
    with pytest.raises(ValueError, match=r"a\.safetensors is refused: it is a link to a file e"):
        open_checkpoint(path)
    os.remove(tmp_path / "model" / "a.safetensors")
    (tmp_path / "model" / "a.safetensors").symlink_to("a.safetensors")
    with pytest.raises(FileNotFoundError, match=r"not beside it: a\.safetensors"):
        open_checkpoint(path)
    os.remove(tmp_path / "model" / "a.safetensors")
    write_safetensors(tmp_path / "model" / "b", {"a": np.ones(2, "float32")})
    (tmp_path / "model" / "a.safetensors").symlink_to("b")
    assert open_checkpoint(path)["a"].tolist() == [1, 1]


def test_a_part_that_is_no_part(tmp_path, pretrained):
    (tmp_path / "x.keras").write_bytes((pretrained / "model.keras").read_bytes())
    with pytest.raises(ValueError, match=r"x\.keras is a \.keras file, and no part of one"):
        open_checkpoint(index(tmp_path, {"a": "x.keras"}))


DEEP = "[" * 200_000
LONG = " " * (MOST_JSON + 1)


def test_json_of_any_depth_and_length(tmp_path):
    with pytest.raises(ValueError, match='is damaged: it should be JSON with a "weight_map"'):
        open_checkpoint(index(tmp_path, None, DEEP))
    with pytest.raises(ValueError, match='is damaged: it should be JSON with a "weight_map"'):
        open_checkpoint(index(tmp_path, None, '{"weight_map": {"a": "b", "a": "b"}}'))
    with pytest.raises(ValueError, match=f"json is refused: it is longer than {MOST_JSON} bytes"):
        open_checkpoint(index(tmp_path, None, LONG))
    config = tmp_path / "config.json"
    for text, message in (
        (DEEP, "{} (it nests too deeply)"),
        ('{"hidden_size": NaN}', "{} (it has NaN, which is not JSON)"),
        ('{"hidden_size": -Infinity}', "{} (it has -Infinity, which is not JSON)"),
        ('{"hidden_size": 1, "hidden_size": 2}', "{} (it has the key 'hidden_size' twice)"),
        (LONG, f"is refused: it is longer than {MOST_JSON} bytes"),
        (json.dumps(dict.fromkeys(map(str, range(2000)))), "has 2000 keys, more than a config"),
    ):
        config.write_text(text)
        for path, words in ((tmp_path, "is damaged"), (config, "is not JSON")):
            with pytest.raises(ValueError, match=re.escape(f"config.json {message.format(words)}")):
                read_config(path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    (tmp_path / "tokenizer_config.json").write_text(DEEP)
    with pytest.raises(ValueError, match="tokenizer_config.json is damaged .it nests too deeply"):
        Tokenizer(tmp_path)


def test_an_activation_of_a_config_is_a_name(tiny_config):
    layer = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 1}}
    for activation in ([layer], [["gelu"]], layer, [3]):
        with pytest.raises(ValueError, match="`hidden_act` must be a name or a list of names"):
            read_config(tiny_config, hidden_act=activation)
