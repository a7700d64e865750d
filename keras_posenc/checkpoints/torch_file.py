"""Torch files (`.bin`, `.pt`, `.pth`): their tensors, without torch and without running code.

A file of `torch.save` is a pickle that lists the bytes of each tensor, and those
bytes: entries of a zip archive, or, before torch 1.6, one after the other behind the pickles.
"""

import dataclasses
import math

import numpy as np

from keras_posenc.checkpoints.archive import read_archive
from keras_posenc.checkpoints.checkpoint import (
    are_counts,
    array_over,
    is_count,
    is_shape,
    numpy_dtype,
)
from keras_posenc.checkpoints.pickles import MOST_BYTES, STATE_DICT, Maker, RefusedError, Unpickler
from keras_posenc.files.untrusted import quote, shorten

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

# Versions of torch's archives that torch itself reads.
VERSIONS = tuple(b"%d" % number for number in range(1, 11))

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}

# Where a file of a whole training run keeps the model's tensors.
STATE_KEYS = ("state_dict", "model_state_dict", "model")


def read_torch(path, buffer):
    """Arrays of a file of `torch.save`, views of the memory-mapped file.

    `path`: path of the file, for errors. `buffer`: uint8 array of its bytes, memory-mapped. Returns
    a dict from names to NumPy arrays.
    """
    try:
        contents = (_read_zip if buffer[:2].tobytes() == b"PK" else _read_legacy)(buffer)
        return {name: tensor.array(buffer.size) for name, tensor in _tensors(contents).items()}
    except NotTensorsError as error:
        raise ValueError(f"{path} {error}. Save model.state_dict() instead.") from None
    except RefusedError as error:
        raise ValueError(
            f"{path} is refused: {error}, and of a torch file only tensors are read. Save "
            "model.state_dict(), or a safetensors file."
        ) from None
    except Exception as error:  # a damaged pickle may fail in any way
        raise ValueError(
            f"{path} is damaged or truncated ({type(error).__name__}: {shorten(error)}). "
            "Download it again."
        ) from None


class NotTensorsError(ValueError):
    """A sound file that holds something else than a dict of tensors."""


def _tensors(contents):
    for key in STATE_KEYS:
        if isinstance(contents, dict) and isinstance(contents.get(key), dict):
            contents = contents[key]
    values = contents if isinstance(contents, dict) else {"the whole file": contents}
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, _Tensor) or values is not contents:
            raise NotTensorsError(
                f"should hold a dict of tensors, but {shorten(name)} is of the type "
                f"{type(value).__name__.strip('_')}"
            )
    return contents


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A storage class of torch: which numbers its storages hold."""

    dtype: np.dtype


class _Storage:
    """Numbers that tensors lie in, and the place of the first once it is known."""

    def __init__(self, kind, count):
        self.dtype, self.count, self.numbers = kind.dtype, count, None


class _Tensor:
    """A tensor before its numbers are known: a window on a storage."""

    def __init__(self, storage, offset, shape, strides, grad=None, hooks=None, flags=None):
        sound = is_count(offset) and is_shape(shape) and are_counts(strides)
        if not isinstance(storage, _Storage) or not sound or len(shape) != len(strides) or flags:
            raise ValueError("it describes a tensor in an unknown way")
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def array(self, most):
        """The numbers; a file of `most` bytes has no tensor of more, even if strides claim it."""
        dtype, size = self.storage.dtype, math.prod(self.shape)
        if size == 0:
            return np.zeros(self.shape, dtype)
        if size * dtype.itemsize > most:
            raise ValueError(f"shape {quote(self.shape)} of {dtype} is larger than the file")
        strides = tuple(stride * dtype.itemsize for stride in self.strides)
        start = self.offset * dtype.itemsize
        return array_over(self.storage.numbers, self.shape, dtype, start, strides)


def _parameter(tensor, requires_grad, hooks):
    if not isinstance(tensor, _Tensor):
        raise ValueError("it has a parameter that is no tensor")
    return tensor


NAMES = {("torch", name): _Kind(numpy_dtype(dtype)) for name, dtype in STORAGES.items()} | {
    ("torch._utils", "_rebuild_tensor"): Maker(_Tensor),
    ("torch._utils", "_rebuild_tensor_v2"): Maker(_Tensor),
    ("torch._utils", "_rebuild_parameter"): Maker(_parameter),
    ("collections", "OrderedDict"): STATE_DICT,
}


class _Storages(dict):
    """The storages that a pickle names, by their keys."""

    def of(self, key):
        """The storage that a persistent id of torch stands for."""
        if type(key) is not tuple or len(key) not in (5, 6) or key[0] != "storage" or any(key[5:]):
            raise ValueError(f"it keeps numbers in an unknown way, {quote(key)}")
        _, kind, name, _, count, *_ = key
        if not isinstance(kind, _Kind) or not isinstance(name, str) or not is_count(count):
            raise ValueError(f"it keeps numbers in an unknown way, {quote(key)}")
        storage = self.setdefault(name, _Storage(kind, count))
        if (storage.dtype, storage.count) != (kind.dtype, count):
            raise ValueError(f"it has two storages {quote(name)}")
        return storage


def _read_zip(buffer):
    archive = read_archive(buffer)
    if len({name.partition("/")[0] for name in archive}) > 1:
        raise ValueError("it is several archives in one")
    entries = {name.partition("/")[2]: entry for name, entry in archive.items()}
    version = entries.get(".data/version") or entries["version"]
    if version.read(buffer, 8).strip() not in VERSIONS or "constants.pkl" in entries:
        raise RefusedError("it is not of torch.save")
    if "byteorder" in entries and entries["byteorder"].read(buffer, 8) != b"little":
        raise ValueError("its numbers are in big-endian order")
    storages = _Storages()
    data = entries["data.pkl"].read(buffer, MOST_BYTES)
    contents = Unpickler(data, NAMES, storages.of).load()
    for name, storage in storages.items():
        entry = entries[f"data/{name}"]
        if entry.size < storage.count * storage.dtype.itemsize:
            raise ValueError(f"its entry {shorten(entry.name)} is too short")
        storage.numbers = array_over(buffer, (storage.count,), storage.dtype, entry.start)
    return contents


def _read_legacy(buffer):
    storages = _Storages()
    pickles = Unpickler(buffer, NAMES, storages.of)
    if pickles.load() != LEGACY_MAGIC:
        raise NotTensorsError("is a pickle, but torch did not make it")
    pickles.load()  # version of the protocol
    pickles.load()  # facts on the system
    contents = pickles.load()
    names, start = pickles.load(), pickles.place
    # Texts alone are compared: lists of the same lists, nested, would take ages.
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not listed or sorted(names) != sorted(storages):
        raise ValueError("it lists other storages than its tensors lie in")
    for name in names:
        storage = storages[name]
        if array_over(buffer, (1,), np.dtype("<i8"), start) != storage.count:
            raise ValueError(f"its storage {quote(name)} is not of {storage.count} numbers")
        storage.numbers = array_over(buffer, (storage.count,), storage.dtype, start + 8)
        start += 8 + storage.numbers.nbytes
    return contents
