"""Opens a checkpoint of any format: what the file holds decides, not what it is called."""

import collections.abc
import functools
import json
import os
import pathlib

import numpy as np

from keras_posenc.checkpoints.checkpoint import Checkpoint, Tensor
from keras_posenc.checkpoints.safetensors import read_safetensors

# What is looked for in a directory, in this order; a pattern must match one file only.
IN_A_DIRECTORY = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "bert_model.ckpt.index",
    "model.keras",
    "*.safetensors",
    "*.ckpt*.index",
    "*.bin",
    "*.keras",
)


def open_checkpoint(path):
    """Opens a checkpoint without reading its numbers.

    Args:
        path: one of: a safetensors file; a torch file (`.bin`, `.pt`, `.pth`), of which tensors
            only are read; the index of a sharded one (`*.index.json`); the prefix of a TensorFlow
            checkpoint (`bert_model.ckpt`); a `.keras` file; a directory that holds one of these;
            a dict of arrays; a `Checkpoint`, which is returned as it is.

    Returns:
        `Checkpoint`, a mapping from names to arrays.

    Raises:
        FileNotFoundError: there is no such file, or none of these in the directory.
        ValueError: the file is damaged, or of a format that is not read.

    Example:

    ```python
    checkpoint = open_checkpoint("bert-base-uncased/model.safetensors")
    for name in checkpoint:
        print(name, checkpoint.shape(name), checkpoint.dtype(name))
    ```
    """
    if isinstance(path, Checkpoint):
        return path
    if isinstance(path, collections.abc.Mapping):
        return _from_mapping(path)
    path = pathlib.Path(path)
    if path.is_dir():
        path = _in_directory(path)
    if path.name.endswith(".index.json"):
        return _sharded(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint at {path}.")
    format, read = _format(path)
    return Checkpoint(read(path), format, path)


def _from_mapping(mapping):
    arrays = {name: np.asarray(array) for name, array in mapping.items()}
    tensors = {
        name: Tensor(array.shape, array.dtype, functools.partial(np.asarray, array))
        for name, array in arrays.items()
    }
    return Checkpoint(tensors, "mapping")


def _in_directory(path):
    for pattern in IN_A_DIRECTORY:
        found = sorted(path.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(each.name for each in found)
            raise ValueError(f"{path} holds several checkpoints, name one of them: {names}.")
    there = ", ".join(sorted(os.listdir(path))) or "nothing"
    raise FileNotFoundError(
        f"{path} holds no checkpoint. Looked for {', '.join(IN_A_DIRECTORY)}; there is {there}."
    )


def _sharded(path):
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint at {path}.")
    try:
        shards = json.loads(path.read_text("utf-8"))["weight_map"]
        shards = {name: str(shard) for name, shard in shards.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f'{path} is damaged: it should be JSON with a "weight_map" from tensors to files.'
        ) from None
    lost = [shard for shard in sorted(set(shards.values())) if not (path.parent / shard).exists()]
    if lost:
        raise FileNotFoundError(f"{path} names files that are not beside it: {', '.join(lost)}.")
    opened = {shard: open_checkpoint(path.parent / shard) for shard in sorted(set(shards.values()))}
    tensors = {}
    for name, shard in shards.items():
        if name not in opened[shard]:
            raise ValueError(f"{path} says that {shard} holds {name!r}, which it does not.")
        tensors[name] = opened[shard].tensor(name)
    return Checkpoint(tensors, next(iter(opened.values())).format, path)


def _format(path):
    with open(path, "rb") as file:
        start = file.read(512)
    if start[8:9] == b"{":
        return "safetensors", read_safetensors
    raise ValueError(f"{path} is none of the checkpoints read here.")
