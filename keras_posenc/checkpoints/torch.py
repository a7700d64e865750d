"""Torch files (`.bin`, `.pt`, `.pth`): their tensors, without torch and without running code.

A file of `torch.save` is a pickle that says of each tensor which bytes it lies in, and those
bytes: entries of a zip archive, or, before torch 1.6, one after the other behind the pickles. A
pickle may call any function of Python; the unpickler here knows the few that make tensors.
"""

import io
import math
import pickle
import zipfile

import numpy as np

from keras_posenc.checkpoints.checkpoint import array_over, mapped, numpy_dtype

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

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


def read_torch(path):
    """Arrays of a file of `torch.save`, views of the memory-mapped file.

    Args:
        path: path of the file.

    Returns:
        dict from names to NumPy arrays.

    Raises:
        ValueError: the file is damaged, holds something else than tensors, or would run code.
    """
    try:
        found = _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
        return {name: tensor.array() for name, tensor in _tensors(path, found).items()}
    except NotTensorsError:
        raise
    except Exception as error:  # a damaged pickle may fail in any way
        raise ValueError(
            f"{path} is damaged or truncated ({type(error).__name__}: {error}). Download it again."
        ) from None


class NotTensorsError(ValueError):
    """A sound file that holds something else than a dict of tensors."""


def _tensors(path, found):
    for key in STATE_KEYS:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    values = found if isinstance(found, dict) else {"the whole file": found}
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, _Tensor) or values is not found:
            raise NotTensorsError(
                f"{path} should hold a dict of tensors, but {name} is of the type "
                f"{type(value).__name__.strip('_')}. Save model.state_dict() instead."
            )
    return found


class _Inert:
    """What a pickle makes takes no state, so that no pickle alters an object or its class."""

    def __setstate__(self, state):
        raise ValueError("it gives a tensor a state of its own")


class _Storage(_Inert):
    """Numbers that tensors lie in; those of a legacy file come after the pickle."""

    def __init__(self, dtype, count):
        self.dtype, self.count, self.numbers = numpy_dtype(dtype), count, None


class _Tensor(_Inert):
    """A tensor before its numbers are known: a window on a storage."""

    def __init__(self, storage, offset, shape, strides, *_):
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def array(self):
        dtype, numbers = self.storage.dtype, self.storage.numbers
        if math.prod(self.shape) == 0:
            return np.zeros(self.shape, dtype)
        strides = tuple(stride * dtype.itemsize for stride in self.strides)
        return array_over(numbers, self.shape, dtype, self.offset * dtype.itemsize, strides)


class _Parameter(_Inert):
    def __new__(cls, tensor, *_):
        return tensor


class _StateDict(dict):
    def __setstate__(self, state):
        """A state dict carries versions of modules, of no use here."""


MAKERS = {
    ("torch._utils", "_rebuild_tensor"): _Tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    ("torch._utils", "_rebuild_parameter"): _Parameter,
    ("collections", "OrderedDict"): _StateDict,
}


class _Unpickler(pickle.Unpickler):
    """Makes tensors, dicts, lists, numbers and text; refuses everything else."""

    def __init__(self, file, path):
        super().__init__(file)
        self.path, self.storages = path, {}

    def find_class(self, module, name):
        if module in ("torch", "torch.storage") and name in STORAGES:
            return STORAGES[name]
        if (module, name) in MAKERS:
            return MAKERS[module, name]
        raise NotTensorsError(
            f"{self.path} is refused: reading it would run {module}.{name}, and of a torch file "
            "only tensors are read. Save model.state_dict(), or a safetensors file."
        )

    def persistent_load(self, key):
        kind, dtype, name, _, count, *view = key
        if kind != "storage" or any(view):
            raise ValueError(f"it keeps numbers in an unknown way, {key}")
        if name not in self.storages:
            self.storages[name] = _Storage(dtype, count)
        return self.storages[name]


def _read_zip(path):
    buffer = mapped(path)
    with zipfile.ZipFile(path) as archive:
        entries = {name.partition("/")[2]: archive.getinfo(name) for name in archive.namelist()}
        if "byteorder" in entries and archive.read(entries["byteorder"]) != b"little":
            raise ValueError("its numbers are in big-endian order")
        unpickler = _Unpickler(io.BytesIO(archive.read(entries["data.pkl"])), path)
    found = unpickler.load()
    for name, storage in unpickler.storages.items():
        entry = entries[f"data/{name}"]
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its entry {entry.filename} is compressed")
        if entry.file_size < storage.count * storage.dtype.itemsize:
            raise ValueError(f"its entry {entry.filename} is too short")
        name_and_extra = array_over(buffer, (2,), np.dtype("<u2"), entry.header_offset + 26)
        start = entry.header_offset + 30 + int(name_and_extra.sum())
        storage.numbers = array_over(buffer, (storage.count,), storage.dtype, start)
    return found


def _read_legacy(path):
    buffer = mapped(path)
    with open(path, "rb") as file:
        if _Unpickler(file, path).load() != LEGACY_MAGIC:
            raise NotTensorsError(f"{path} is a pickle, but torch did not make it.")
        _Unpickler(file, path).load()  # version of the protocol
        _Unpickler(file, path).load()  # facts on the system
        unpickler = _Unpickler(file, path)
        found = unpickler.load()
        names = _Unpickler(file, path).load()
        start = file.tell()
    for name in names:
        storage = unpickler.storages[name]
        if array_over(buffer, (1,), np.dtype("<i8"), start) != storage.count:
            raise ValueError(f"its storage {name} is not of {storage.count} numbers")
        storage.numbers = array_over(buffer, (storage.count,), storage.dtype, start + 8)
        start += 8 + storage.numbers.nbytes
    return found
