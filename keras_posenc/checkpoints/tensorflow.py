"""TensorFlow checkpoints (`bert_model.ckpt.index`, `.data-00000-of-00001`), without TensorFlow.

The index is a table of LevelDB: sorted keys in blocks, a block that says where those blocks are,
and a footer that says where that one is. Its values are protocol buffers that say where in the
data files a tensor lies.
"""

import math
import os
import pathlib

import numpy as np

from keras_posenc.checkpoints.checkpoint import array_over, mapped, numpy_dtype

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER = 48
SLICE = b"\0"  # what the keys of parts of a tensor begin with

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

# Fields of the protocol buffers of tensor_bundle.proto and tensor_shape.proto.
HEADER = {"shards": 1, "endianness": 2}
ENTRY = {"dtype": 1, "shape": 2, "shard": 3, "offset": 4, "size": 5, "slices": 7}
SHAPE = {"dims": 2}
DIM = {"size": 1}


def read_tensorflow(prefix):
    """Arrays of a TensorFlow checkpoint, views of the memory-mapped data files.

    Args:
        prefix: path of the checkpoint's files, without `.index`.

    Returns:
        dict from names to NumPy arrays; what is not numbers is given as bytes.

    Raises:
        FileNotFoundError: a data file is missing.
        ValueError: a file is damaged or truncated.
    """
    index = f"{prefix}.index"
    try:
        entries = dict(_table(pathlib.Path(index).read_bytes()))
        entries = {key: value for key, value in entries.items() if not key.startswith(SLICE)}
        header = _message(entries.pop(b""), HEADER)
        tensors = {key.decode(): _message(value, ENTRY) for key, value in entries.items()}
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{index} is damaged or truncated ({error}). Download it again.") from None
    if header["endianness"] != [0]:
        raise ValueError(f"{prefix} has its numbers in big-endian order, which is not read.")
    shards = _shards(prefix, header["shards"][0])
    return {name: _array(prefix, shards, name, entry) for name, entry in tensors.items()}


def _shards(prefix, count):
    paths = [f"{prefix}.data-{shard:05}-of-{count:05}" for shard in range(count)]
    lost = [path for path in paths if not os.path.exists(path)]
    if lost:
        raise FileNotFoundError(f"{prefix}.index needs {lost[0]}, which is not there.")
    return [mapped(path) if os.path.getsize(path) else np.zeros(0, "uint8") for path in paths]


def _array(prefix, shards, name, entry):
    if entry["slices"] != [0]:
        raise ValueError(
            f"{prefix} holds {name!r} in slices (a partitioned variable), which are not read."
        )
    shard, begin, size = entry["shard"][0], entry["offset"][0], entry["size"][0]
    try:
        dims = _message(entry["shape"][0] or b"", SHAPE)["dims"]
        shape = tuple(_message(dim, DIM)["size"][0] for dim in dims if dim != 0)
        dtype, buffer = entry["dtype"][0], shards[shard]
        if begin + size > buffer.size:
            raise ValueError(
                f"it should end at byte {begin + size}, the file ends at {buffer.size}"
            )
        if dtype not in DTYPES:
            return buffer[begin : begin + size]
        dtype = numpy_dtype(DTYPES[dtype])
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{size} bytes cannot hold the shape {shape} of {dtype}")
        return array_over(buffer, shape, dtype, begin)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(
            f"{prefix} is damaged or truncated at {name!r}: {error}. Download it again."
        ) from None


def _table(data):
    """Keys and values of a LevelDB table."""
    footer = data[-FOOTER:]
    if len(footer) < FOOTER or not footer.endswith(MAGIC):
        raise ValueError("it does not end as an index does")
    _, _, place = _varints(footer, 0, 2)
    for _, handle in _block(data, *_varints(footer, place, 2)[:2]):
        yield from _block(data, *_varints(handle, 0, 2)[:2])


def _block(data, offset, size):
    """Keys and values of a block; a key says how much of it is as in the one before."""
    block, kind = data[offset : offset + size], data[offset + size]
    checksum = int.from_bytes(data[offset + size + 1 : offset + size + 5], "little")
    if kind:
        raise ValueError("a block of it is compressed")
    if checksum != _masked_crc32c(data[offset : offset + size + 1]):
        raise ValueError("a checksum is wrong")
    end = size - 4 * (1 + int.from_bytes(block[-4:], "little"))
    place, key = 0, b""
    while place < end:
        shared, fresh, length, place = _varints(block, place, 3)
        key = key[:shared] + block[place : place + fresh]
        place += fresh + length
        yield key, block[place - length : place]


def _varints(data, place, count):
    """Numbers of seven bits a byte, least first, and the place behind them."""
    numbers = []
    for _ in range(count):
        number = shift = 0
        while data[place] & 0x80:
            number |= (data[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
        numbers.append(number | data[place] << shift)
        place += 1
    return *numbers, place


def _message(data, fields):
    """Values of a protocol buffer: a list for each field, [0] for one that is left out."""
    found, place = {}, 0
    while place < len(data):
        tag, place = _varints(data, place, 1)
        kind = tag & 7
        if kind == 0:
            value, place = _varints(data, place, 1)
        elif kind == 2:
            length, place = _varints(data, place, 1)
            value, place = data[place : place + length], place + length
        elif kind == 5:
            value, place = data[place : place + 4], place + 4
        else:
            raise ValueError(f"a field of the kind {kind}")
        found.setdefault(tag >> 3, []).append(value)
    return {name: found.get(number, [0]) for name, number in fields.items()}


def _masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc32c_table():
    table = list(range(256))
    for _ in range(8):
        table = [number >> 1 ^ 0x82F63B78 * (number & 1) for number in table]
    return table


CRC32C = _crc32c_table()
