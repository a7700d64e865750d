"""Safetensors files: eight bytes of length, a JSON header, then the numbers."""

import json
import math

import numpy as np

from keras_posenc.checkpoints.checkpoint import array_over, mapped, numpy_dtype

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
    """Arrays of a safetensors file, views of the memory-mapped file.

    Args:
        path: path of the file.

    Returns:
        dict from names to NumPy arrays.

    Raises:
        ValueError: the file is truncated, or its header does not describe it.
    """
    buffer = mapped(path)
    start = 8 + int.from_bytes(buffer[:8].tobytes(), "little")
    if start > buffer.size:
        raise ValueError(
            f"{path} is truncated: its header should end at byte {start}, the file ends at "
            f"{buffer.size}. Download it again."
        )
    try:
        header = json.loads(buffer[8:start].tobytes())
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its header is not a JSON object ({error}).") from None
    arrays = {name: _array(path, buffer, start, name, entry) for name, entry in entries.items()}
    end = start + sum(array.nbytes for array in arrays.values())
    if end != buffer.size:
        raise ValueError(
            f"{path} is damaged: its tensors take {end} bytes, the file has {buffer.size}."
        )
    return arrays


def _array(path, buffer, start, name, entry):
    try:
        code, shape = entry["dtype"], tuple(map(int, entry["shape"]))
        begin, end = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged: its header says {entry!r} of {name!r}.") from None
    if code not in DTYPES:
        raise ValueError(
            f"{path} holds {name!r} as {code}; the types read here are {', '.join(DTYPES)}."
        )
    if start + end > buffer.size:
        raise ValueError(
            f"{path} is truncated: {name!r} should end at byte {start + end}, the file ends at "
            f"{buffer.size}. Download it again."
        )
    dtype = numpy_dtype(DTYPES[code])
    if min(shape, default=0) < 0 or begin < 0 or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"{path} is damaged: {name!r} has the shape {shape} and the type {dtype}, which is "
            f"not what bytes {begin} to {end} can hold."
        )
    return array_over(buffer, shape, dtype, start + begin)


def write_safetensors(path, arrays):
    """Writes a safetensors file, one array at a time.

    Args:
        path: path of the file to write.
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
            file.write(np.ascontiguousarray(array).reshape(-1).view("uint8"))
