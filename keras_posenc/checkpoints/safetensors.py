"""Safetensors files: eight bytes of length, a JSON header, then the numbers."""

import json
import math

import numpy as np

from keras_posenc.checkpoints.checkpoint import are_counts, array_over, is_shape, numpy_dtype
from keras_posenc.checkpoints.quantized import REMEDY
from keras_posenc.files.untrusted import MOST_JSON, parse_json, quote, shorten

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


def read_safetensors(path, buffer):
    """Reads a safetensors file as views of the memory-mapped file.

    `path`: path of the file, for errors. `buffer`: uint8 array of its bytes, memory-mapped. Returns
    a dict from names to NumPy arrays.
    """
    length = int.from_bytes(buffer[:8].tobytes(), "little")
    start = 8 + length
    if start > buffer.size:
        raise ValueError(
            f"{path} is truncated: its header should end at byte {start}, the file ends at "
            f"{buffer.size}. Download it again."
        )
    if length > MOST_JSON:
        raise ValueError(f"{path} is refused: its header is longer than {MOST_JSON} bytes.")
    try:
        header = parse_json(buffer[8:start].tobytes())
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        json.dumps(header, ensure_ascii=False).encode()  # JSON can spell what is no Unicode
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged: its header is not a JSON object ({shorten(error)})."
        ) from None
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{path} is damaged: its metadata are not texts: {quote(metadata)}.")
    places = {name: _place(path, name, entry) for name, entry in entries.items()}
    _check_order(path, start, buffer.size, places)
    return {
        name: array_over(buffer, shape, dtype, start + begin)
        for name, (begin, _, shape, dtype) in places.items()
    }


def _place(path, name, entry):
    """The start and end of a tensor after the header, its shape and its dtype."""
    try:
        code, lists = entry["dtype"], (entry["shape"], entry["data_offsets"])
        sound = isinstance(code, str) and all(isinstance(each, list) for each in lists)
    except (KeyError, TypeError):
        sound = False
    shape, offsets = map(tuple, lists) if sound else ((), ())
    if not is_shape(shape) or not are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{path} is damaged: its header has {quote(entry)} for {quote(name)}.")
    if code not in DTYPES:
        remedy = f" {REMEDY}" if code.startswith(("F4", "F6", "F8", "I4", "U4")) else ""
        raise ValueError(
            f"{path} holds {quote(name)} as {shorten(code)}; the types read here are "
            f"{', '.join(DTYPES)}.{remedy}"
        )
    dtype, (begin, end) = numpy_dtype(DTYPES[code]), offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"{path} is damaged: {quote(name)} has the shape {quote(shape)} and the type {dtype}, "
            f"which is not what bytes {begin} to {end} can hold."
        )
    return begin, end, shape, dtype


def _check_order(path, start, size, places):
    """Checks that every byte belongs to exactly one tensor."""
    reached = 0
    for name, (begin, end, *_) in sorted(places.items(), key=lambda item: item[1][:2]):
        if start + end > size:
            raise ValueError(
                f"{path} is truncated: {quote(name)} should end at byte {start + end}, the file "
                f"ends at {size}. Download it again."
            )
        if begin != reached:
            what = "overlaps another" if begin < reached else "does not follow another"
            raise ValueError(f"{path} is damaged: {quote(name)} {what}, from byte {begin} on.")
        reached = end
    if start + reached != size:
        raise ValueError(
            f"{path} is damaged: its tensors take {start + reached} bytes, the file has {size}."
        )


def write_safetensors(path, arrays):
    """Writes a safetensors file, one array at a time.

    `path`: path of the file to write. `arrays`: dict from names to NumPy arrays.
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
