"""Opens a checkpoint of any format, recognised by its content and not by its file name."""

import collections.abc
import os
import pathlib
import re

import numpy as np

from keras_posenc.checkpoints.archive import read_archive
from keras_posenc.checkpoints.checkpoint import Checkpoint, mapped
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.checkpoints.keras_hub.reading import read_preset
from keras_posenc.checkpoints.lora_files import merge_lora, read_settings
from keras_posenc.checkpoints.safetensors import read_safetensors
from keras_posenc.checkpoints.tensorflow_file import read_tensorflow
from keras_posenc.checkpoints.torch_file import read_torch
from keras_posenc.files.untrusted import check_file, check_pointer, quote, shorten
from keras_posenc.folders import lora
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.huggingface import read_index, weights_file
from keras_posenc.folders.keras_hub import SHARDS, WEIGHTS

# How files begin that are often found in place of a checkpoint.
STRANGERS = {
    rb"(?i)\s*<(!doctype|html|\?xml)": "a web page, not a checkpoint: the download went wrong",
    rb"\x89HDF\r\n": "an HDF5 file: save it as safetensors or .keras",
    rb"\x1f\x8b": "gzip-compressed: unpack it first",
    rb"(?s).{257}ustar": "a tar archive: unpack it first",
}

PRESETS = (WEIGHTS, SHARDS)  # of KerasHub
ANCHOR = "Embedding-Token/embeddings"
POSITIONS = "Embedding-Position"


def open_checkpoint(path):
    """Opens a checkpoint without reading its numbers.

    Args:
        path: str, path, dict or `Checkpoint`. A file can be a safetensors file, a PyTorch file
            (`.bin`, `.pt`, `.pth`, of which only the tensors are read) or a `.keras` file. It can
            also be the index of a sharded checkpoint (`*.index.json`), or the prefix of a
            TensorFlow checkpoint (`bert_model.ckpt`). A directory must contain one of these. A dict
            holds arrays. A `Checkpoint` is returned unchanged.

    Returns:
        `Checkpoint`, a mapping from names to arrays.

    Raises:
        FileNotFoundError: if there is no such file, or none of these in the directory.

    Example:

    >>> checkpoint = open_checkpoint("all-MiniLM-L6-v2")
    >>> checkpoint.format, len(checkpoint), checkpoint.shape("pooler.dense.weight")
    ('safetensors', 104, (384, 384))
    """
    if isinstance(path, Checkpoint):
        return path
    if isinstance(path, collections.abc.Mapping):
        return Checkpoint({name: np.asarray(path[name]) for name in path}, "mapping")
    folder = Folder.of(path)
    path = folder.file or folder.path
    if folder.is_directory:
        if folder.base is not None:
            return with_lora(folder.base, folder)
        path = weights_file(folder)
    prefix = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", str(path))
    if folder.has_any(f"{pathlib.Path(prefix).name}.index"):
        arrays, sums = read_tensorflow(prefix)
        return Checkpoint(arrays, "tensorflow", prefix, sums)
    if not folder.has_any(path.name):
        raise FileNotFoundError(
            f"There is no checkpoint at {path}: no such file, and no {prefix}.index of a "
            f"TensorFlow checkpoint either.{from_hub(path)}"
        )
    if path.name.endswith(".index.json"):
        return _sharded(path)
    if path.name in PRESETS:
        arrays, backbone = read_preset(folder, path)
        return Checkpoint(arrays, "keras_hub", path, backbone=backbone)
    format, read, buffer = _format(path)
    if format == "keras":
        return _read_keras(path)
    return Checkpoint(read(path, buffer), format, path)


def with_lora(checkpoint, path):
    """Opens a LoRA adapter and merges it into a checkpoint as that is read.

    `checkpoint`: what `open_checkpoint` opens, of the model that the adapter was trained on.
    `path`: directory that PEFT's `save_pretrained` wrote. Returns a `LoraCheckpoint`. Tensors that
    were trained in full replace those of the checkpoint.
    """
    base, folder = open_checkpoint(checkpoint), Folder.of(path)
    settings = read_settings(folder)
    return merge_lora(base, open_checkpoint(lora.weights_file(folder)), settings, folder)


def _sharded(path):
    places, files = read_index(path)
    formats, shards = set(), {}
    for shard, file in files.items():
        format, read, buffer = _format(file)
        if format == "keras":
            raise ValueError(f"{path} is refused: {shard} is a .keras file, and no part of one.")
        formats.add(format)
        shards[shard] = read(file, buffer)
    # Also tensors that the index leaves out, as in transformers.
    arrays = {name: array for shard in shards.values() for name, array in shard.items()}
    for name, at in places.items():
        for shard in at:
            if name not in shards[shard]:
                raise ValueError(
                    f"{path} lists {quote(name)} in {shard}, which does not contain it. Download "
                    "both again."
                )
            arrays[name] = shards[shard][name]
    return Checkpoint(arrays, min(formats), path)


def _format(path):
    """The format of a file by its first bytes, its reader, and its bytes, memory-mapped."""
    check_file(path)
    if not os.path.getsize(path):
        raise ValueError(f"{path} is empty. Download it again.")
    buffer = mapped(path)
    start = buffer[:512].tobytes()
    if start[4:9] == b"\0\0\0\0{":  # first: its length may begin like anything else
        return "safetensors", read_safetensors, buffer
    check_pointer(path, start)
    for pattern, what in STRANGERS.items():
        if re.match(pattern, start):
            raise ValueError(f"{path} is {what}.")
    if start.startswith(b"PK"):
        return *_archive_format(path, buffer), buffer
    if start.startswith(b"\x80"):  # any pickle, so that one that would run code is named as such
        return "torch", read_torch, buffer
    raise ValueError(
        f"{path} is no checkpoint of a kind read here (safetensors, torch, TensorFlow, .keras): "
        f"it begins with {start[:12]!r}."
    )


def _archive_format(path, buffer):
    try:
        entries = read_archive(buffer)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged or truncated ({shorten(error)}). Download it again."
        ) from None
    names = [name.rpartition("/")[2] for name in entries]
    if "data.pkl" in names:
        return "torch", read_torch
    if "model.weights.h5" in names:
        return "keras", _read_keras
    raise ValueError(f"{path} is a zip archive, but neither torch nor Keras made it.")


def _read_keras(path):
    import keras

    from keras_posenc.positions.stretched import stretching_in

    model = load_keras(path)
    token = next((each.path for each in model.weights if each.path.endswith(ANCHOR)), ANCHOR)
    prefix = token.removesuffix(ANCHOR)  # of the layers, or of a model inside the model
    arrays = {
        each.path.removeprefix(prefix): keras.ops.convert_to_numpy(each) for each in model.weights
    }
    name = prefix.rpartition("/")[2] + POSITIONS
    found = (stretching_in(layer) for layer in _layers(model) if layer.name == name)
    return Checkpoint(arrays, "keras", path, stretching=next(found, {}))


def _layers(model):
    """The layers of a model and of the models inside it."""
    for layer in model.layers:
        yield from _layers(layer) if hasattr(layer, "layers") else [layer]
