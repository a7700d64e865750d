"""Files of torch, TensorFlow and SentencePiece put together by hand, to say anything."""

import pickle
import struct
import zipfile

import numpy as np

from keras_posenc.checkpoints import leveldb
from keras_posenc.checkpoints.crc32c import crc32c

FLOATS = b"ctorch\nFloatStorage\n"
HOOKS = b"ccollections\nOrderedDict\n)R"


def value(plain):
    """The instructions that make a plain value."""
    return pickle.dumps(plain, 2)[2:-1]


def tensor(kind=FLOATS, count=2, offset=0, shape=(2,), strides=(1,), key="0", more=b""):
    """The instructions that make a tensor of torch."""
    storage = b"(" + value("storage") + kind + value(key) + value("cpu") + value(count) + b"tQ"
    window = value(offset) + value(shape) + value(strides) + b"\x89" + HOOKS + more
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + window + b"tR"


def pickled(**values):
    """A pickle of a dict from names to what the instructions make."""
    items = b"".join(value(name) + made for name, made in values.items())
    return b"\x80\x02}(" + items + b"u."


def archive(path, data, compression=zipfile.ZIP_STORED, **entries):
    """Writes a zip archive as torch does: a pickle and eight bytes of numbers."""
    entries = {"data.pkl": data, "version": "3\n", "data/0": b"\0\0\x80?" * 2} | entries
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in entries.items():
            file.writestr(f"archive/{name}", content)
    return path


SIX = np.arange(6, dtype="float32")


def varints(*numbers):
    found = b""
    for number in numbers:
        while number > 127:
            found, number = found + bytes([number & 127 | 128]), number >> 7
        found += bytes([number])
    return found


def masked(data):
    crc = crc32c(np.frombuffer(data, "uint8"))
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def message(*fields):
    """A protocol buffer: pairs of a field's number and an int, or bytes (four for a checksum)."""
    found = b""
    for number, value in fields:
        kind = 0 if isinstance(value, int) else 5 if number == 6 else 2
        found += varints(number << 3 | kind) + (varints(len(value)) if kind == 2 else b"")
        found += varints(value) if kind == 0 else value
    return found


def dims(*lengths):
    return message(*((2, message((1, length))) for length in lengths))


def entry(dtype=1, shape=dims(6), offset=0, size=24, crc=masked(SIX.tobytes()), shard=0):  # noqa: B008
    return message((1, dtype), (2, shape), (3, shard), (4, offset), (5, size), (6, crc))


def block(*items, kind=b"\0"):
    """A block of keys and values with its checksum."""
    return sealed(b"".join(varints(0, len(k), len(v)) + k + v for k, v in items), kind)


def sealed(entries, kind=b"\0"):
    body = entries + bytes(4) + b"\1\0\0\0" + kind
    return body + masked(body)


def table(data, *handles):
    """A table of one block, or of the handles given for it."""
    handles = handles or [varints(0, len(data) - 5)]
    places = block(*((b"z%d" % i, handle) for i, handle in enumerate(handles)))
    footer = varints(0, 0, len(data), len(places) - 5)
    return data + places + footer.ljust(40, b"\0") + leveldb.MAGIC


HEADER = (b"", message((1, 1)))


def piece(text, score=-1.0, kind=1):
    """A piece of a SentencePiece model: 1 is a normal one, 2 unknown, 3 control, 6 a byte."""
    return text.encode() if isinstance(text, str) else text, score, kind


def sentence_piece(*pieces, algorithm=1, trainer=(), normalizer=()):
    """A SentencePiece model, of what `piece` makes and of more fields."""
    parts = [(1, message((1, text), (3, kind)) + b"\x15" + struct.pack("<f", score))
             for text, score, kind in pieces]  # fmt: skip
    return message(*parts, (2, message((3, algorithm), *trainer)), (3, message(*normalizer)))


def charsmap(letter, written):
    """The table of a SentencePiece normalizer that writes a text for an ASCII letter.

    Its search tree is a double array: a unit holds the offset to its children above bit 10, whether
    it has a value at bit 8, and its letter; the child of the byte zero is the value.
    """
    units, place = [0] * 512, 256 ^ ord(letter)
    units[0] = 256 << 10
    units[place], units[place ^ 1] = 1 << 10 | 1 << 8 | ord(letter), 1 << 31
    tree = struct.pack("<512I", *units)
    return struct.pack("<I", len(tree)) + tree + written.encode() + b"\0"


T5 = [piece("<pad>", 0.0, 3), piece("</s>", 0.0, 3), piece("<unk>", 0.0, 2)]
