"""Opening a path: what is found in a directory, and what is said of files that are none."""

import json
import pickle
import re
import zipfile

import numpy as np
import pytest

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors

pytestmark = pytest.mark.once

TWO = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones(4, "float16")}


def test_checkpoint_is_a_mapping(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", TWO)
    checkpoint = open_checkpoint(tmp_path)
    assert list(checkpoint) == ["a", "b"]
    assert len(checkpoint) == 2
    assert "a" in checkpoint and "c" not in checkpoint
    assert checkpoint.shape("a") == (2, 3)
    assert checkpoint.dtype("b") == np.float16
    assert checkpoint.path == str(tmp_path / "model.safetensors")
    assert "safetensors, 2 tensors" in repr(checkpoint)
    np.testing.assert_array_equal(checkpoint["a"], TWO["a"])
    assert open_checkpoint(checkpoint) is checkpoint
    with pytest.raises(KeyError, match="no tensor 'c' among its 2"):
        checkpoint["c"]


def test_dict_of_arrays():
    checkpoint = open_checkpoint({"a": [[1.0, 2.0]]})
    assert (checkpoint.format, checkpoint.path, str(checkpoint)) == (
        "mapping",
        None,
        "a dict of arrays",
    )
    assert checkpoint.shape("a") == (1, 2)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint at .*absent: no such file, and no"):
        open_checkpoint(tmp_path / "absent")


def test_directory_without_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Looked for model\.safetensors.*there is nothing"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"bert_model\.ckpt\.index.*there is config\.json"):
        open_checkpoint(tmp_path)


def test_directory_with_several(tmp_path):
    for name in ("one.safetensors", "two.safetensors"):
        write_safetensors(tmp_path / name, TWO)
    with pytest.raises(
        ValueError, match=r"several checkpoints.*one\.safetensors, two\.safetensors"
    ):
        open_checkpoint(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", TWO)
    assert open_checkpoint(tmp_path).path.endswith("model.safetensors")


STRANGERS = {
    "is empty": b"",
    "git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4400\n",
    "a web page": b"\n<!DOCTYPE html><html><head><title>404</title>",
    "web page, not a checkpoint": b"<html lang='en'>",
    "HDF5": b"\x89HDF\r\n\x1a\n" + b"\0" * 600,
    "gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\0" * 600,
    "a tar archive": b"\0" * 257 + b"ustar" + b"\0" * 600,
    r"no checkpoint of a kind read here.*b'hello, world'": b"hello, world, this is text",
    r"begins with b'\\x00\\x00": b"\0" * 1000,
}


@pytest.mark.parametrize("message", STRANGERS)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_files_that_are_no_checkpoints(tmp_path, name, message):
    (tmp_path / name).write_bytes(STRANGERS[message])
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=message):
            open_checkpoint(path)


def test_archives_that_are_no_checkpoints(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.bin", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match="neither torch nor Keras made it"):
        open_checkpoint(tmp_path / "model.bin")
    whole = (tmp_path / "model.bin").read_bytes()
    (tmp_path / "model.bin").write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="damaged or truncated.*Download it again"):
        open_checkpoint(tmp_path / "model.bin")


def test_keras_file_that_is_broken(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", "{")
        archive.writestr("metadata.json", "{}")
        archive.writestr("model.weights.h5", "")
    with pytest.raises(ValueError, match=r"model\.keras is damaged \(.*Download it again"):
        open_checkpoint(tmp_path)


def test_content_decides_not_the_name(tmp_path):
    write_safetensors(tmp_path / "pytorch_model.bin", TWO)
    assert open_checkpoint(tmp_path).format == "safetensors"


def index(path, places):
    path = path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": places}))
    return path


def test_shards(tmp_path):
    for name, array in TWO.items():
        write_safetensors(tmp_path / f"{name}.safetensors", {name: array})
    places = {name: f"{name}.safetensors" for name in TWO}
    checkpoint = open_checkpoint(index(tmp_path, places))
    np.testing.assert_array_equal(checkpoint["a"], TWO["a"])
    with pytest.raises(ValueError, match=r"lists 'c' in a\.safetensors, which does not contain it"):
        open_checkpoint(index(tmp_path, places | {"c": "a.safetensors"}))
    message = f"not beside it: c.safetensors, d.safetensors. Download them again into {tmp_path}."
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        open_checkpoint(index(tmp_path, {"c": "c.safetensors", "d": "d.safetensors"}))
    write_safetensors(tmp_path / "a.safetensors", TWO)  # of which the index lists one
    assert [*open_checkpoint(index(tmp_path, {"a": "a.safetensors"}))] == [*TWO]
    damaged = (tmp_path / "b.safetensors").read_bytes()[:-1]
    (tmp_path / "b.safetensors").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"b\.safetensors is truncated"):
        open_checkpoint(index(tmp_path, places))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": []}}', '{"weight_map": {}}'],
)
def test_index_that_is_broken(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r'is damaged: it should be JSON with a "weight_map"'):
        open_checkpoint(path)


def test_plain_pickles_are_not_read(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps({"a": 1.0}, 2))
    with pytest.raises(ValueError, match="is a pickle, but torch did not make it"):
        open_checkpoint(path)
    path.write_bytes(pickle.dumps(TWO, 2))
    with pytest.raises(ValueError, match=r"is refused: reading it would run numpy"):
        open_checkpoint(path)
    path.write_bytes(pickle.dumps(TWO))
    with pytest.raises(ValueError, match=r"is refused: it is a pickle of protocol 4, and torch"):
        open_checkpoint(path)
