"""Safetensors files: eight bytes of length, a JSON header, then the numbers."""

import functools
import json
import math
import os

import numpy as np

from keras_posenc.checkpoints.checkpoint import Tensor, mapped, numpy_dtype, view

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


def read_safetensors(path):
    """Tensors of a safetensors file, memory-mapped.

    Args:
        path: str or path of the file.

    Returns:
        dict from names to `Tensor`.

    Raises:
        ValueError: the file is truncated or its header does not describe it.
    """
    header, start = _read_header(path)
    size = os.path.getsize(path)
    buffer = mapped(path)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            shape = tuple(int(n) for n in shape)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path} is damaged: its header says {entry!r} of {name!r}.") from None
        if dtype not in DTYPES:
            raise ValueError(
                f"{path} holds {name!r} as {dtype}, which is not among the types read here: "
                f"{', '.join(DTYPES)}."
            )
        dtype = numpy_dtype(DTYPES[dtype])
        if start + end > size:
            raise ValueError(
                f"{path} is truncated: {name!r} ends at byte {start + end}, the file at byte "
                f"{size}. Download it again."
            )
        needed = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or begin < 0 or end - begin != needed:
            raise ValueError(
                f"{path} is damaged: {name!r} of shape {shape} and type {dtype} cannot lie in "
                f"bytes {begin} to {end}."
            )
        read = functools.partial(view, buffer, shape, dtype, start + begin)
        tensors[name] = Tensor(shape, dtype, read)
    return tensors


def _read_header(path):
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > size:
            raise ValueError(
                f"{path} is truncated: its header alone needs {8 + length} bytes, the file has "
                f"{size}. Download it again."
            )
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its header is not JSON ({error}).") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path} is damaged: its header is not a JSON object.")
    return header, 8 + length


def write_safetensors(path, arrays):
    """Writes a safetensors file, one array at a time.

    Args:
        path: str or path of the file to write.
        arrays: dict from names to NumPy arrays.
    """
    codes = {numpy_dtype(dtype): code for code, dtype in DTYPES.items()}
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": codes[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers begin aligned
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).view("uint8").data)
