"""TensorFlow checkpoints (`bert_model.ckpt.index`, `.data-00000-of-00001`), without TensorFlow.

The index has where in the data files each tensor lies, and what its checksum is.
"""

import math
import pathlib

import numpy as np

from keras_posenc.checkpoints.checkpoint import array_over, is_count, is_shape, mapped, numpy_dtype
from keras_posenc.checkpoints.leveldb import read_message, read_table, unmasked
from keras_posenc.files.untrusted import (
    check_file,
    check_inside,
    check_pointer,
    quote,
    read_bytes,
    shorten,
)

SLICE = b"\0"  # what the keys of parts of a tensor begin with
MOST_SHARDS = 99999

# Numbers of tensorflow.DataType.
DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
KNOWN = range(1, 33)  # the others are text, complex, quantized or resources

# Fields of the protocol buffers of tensor_bundle.proto and tensor_shape.proto.
HEADER = {"shards": 1, "endianness": 2}
ENTRY = {"dtype": 1, "shape": 2, "shard": 3, "offset": 4, "size": 5, "crc": 6, "slices": 7}
SHAPE = {"dims": 2}
DIM = {"size": 1}


def read_tensorflow(prefix):
    """Arrays of a TensorFlow checkpoint, views of the memory-mapped data files.

    `prefix`: path of the checkpoint's files, without `.index`. Returns a dict from names to NumPy
    arrays; what is not numbers is given as bytes. dict from the names of those of numbers to their
    CRC-32C. Raises FileNotFoundError if a data file is missing.
    """
    index = f"{prefix}.index"
    data = read_bytes(index)
    try:
        entries = read_table(data)
        entries = {key: value for key, value in entries.items() if not key.startswith(SLICE)}
        if b"" not in entries:
            raise ValueError("it has no header")
        header = read_message(entries.pop(b""), HEADER)
        tensors = {key.decode(): read_message(value, ENTRY) for key, value in entries.items()}
        count = _number(header, "shards")
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{index} is damaged or truncated ({shorten(error)}). Download it again."
        ) from None
    if header["endianness"] != [0]:
        raise ValueError(f"{prefix} has its numbers in big-endian order, which is not read.")
    shards = _shards(prefix, count)
    read = {name: _tensor(prefix, shards, name, entry) for name, entry in tensors.items()}
    sums = {name: checksum for name, (_, checksum) in read.items() if checksum is not None}
    return {name: array for name, (array, _) in read.items()}, sums


def _shards(prefix, count):
    if count > MOST_SHARDS:
        raise ValueError(f"{prefix}.index is refused: it names {count} data files.")
    shards = []
    for shard in range(count):
        path = pathlib.Path(f"{prefix}.data-{shard:05}-of-{count:05}")
        if not path.exists():
            raise FileNotFoundError(
                f"{prefix}.index needs {path}, which is not there. Download it again."
            )
        check_inside(path, path.parent)
        check_file(path)
        data = mapped(path) if path.stat().st_size else np.zeros(0, "uint8")
        check_pointer(path, data[:64].tobytes())
        shards.append(data)
    return shards


def _tensor(prefix, shards, name, entry):
    """An array and its checksum; the bytes of what is not numbers, and None."""
    if entry["slices"] != [0]:
        raise ValueError(
            f"{prefix} holds {quote(name)} in slices (a partitioned variable), which are not read."
        )
    try:
        begin, size = _number(entry, "offset"), _number(entry, "size")
        dims = read_message(entry["shape"][-1] or b"", SHAPE)["dims"]
        shape = tuple(_number(read_message(dim, DIM), "size") for dim in dims if dim != 0)
        kind, buffer = _number(entry, "dtype"), shards[_number(entry, "shard")]
        if begin + size > buffer.size:
            raise ValueError(
                f"it should end at byte {begin + size}, the file ends at {buffer.size}"
            )
        if kind not in KNOWN or not is_shape(shape):
            raise ValueError(f"its type is {kind} and its shape {quote(shape)}")
        if kind not in DTYPES:
            return buffer[begin : begin + size], None
        dtype = numpy_dtype(DTYPES[kind])
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{size} bytes cannot hold the shape {quote(shape)} of {dtype}")
        checksum = int.from_bytes(entry["crc"][-1] or b"", "little")
        return array_over(buffer, shape, dtype, begin), unmasked(checksum)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(
            f"{prefix} is damaged or truncated at {quote(name)}: {shorten(error)}. Download it "
            "again."
        ) from None


def _number(message, field):
    value = message[field][-1]
    if not is_count(value):
        raise ValueError(f"its {field} is {quote(value)}")
    return value
