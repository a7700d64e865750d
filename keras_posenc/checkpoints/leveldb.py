"""The index of a TensorFlow checkpoint: a LevelDB table whose values are protocol buffers.

The table consists of blocks of sorted keys, an index block with the offsets of those blocks, and a
footer with the offset of the index block.
"""

import numpy as np

from keras_posenc.checkpoints.crc32c import crc32c

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER = 48
NUMBER = 10  # bytes of the longest number, of 64 bits

MOST_ENTRIES = 2**17  # of a block, and of all of them
MOST_KEYS = 2**24  # bytes of their keys: each may repeat all of the one before
MOST_FIELDS = 2**10  # of a message


def read_table(data):
    """Reads the entries of a table.

    `data`: bytes of the file. Returns a dict, key -> value, both bytes. Raises ValueError,
    IndexError if the table is damaged, or larger than that of any checkpoint.
    """
    footer = data[-FOOTER:]
    if len(footer) < FOOTER or not footer.endswith(MAGIC):
        raise ValueError("it does not end as an index does")
    _, _, place = varints(footer, 0, 2)
    entries, last, reached, bounds = {}, None, 0, _Bounds()
    for _, handle in _block(data, *varints(footer, place, 2)[:2], _Bounds()):
        start, length, _ = varints(handle, 0, 2)
        if start < reached:
            raise ValueError("its blocks overlap")
        reached = start + length
        for key, value in _block(data, start, length, bounds):
            if last is not None and key <= last:
                raise ValueError("its names are not in order, or one is there twice")
            entries[key], last = value, key
    return entries


class _Bounds:
    """How many keys there may be, and of how many bytes: of a file of 16 MB they could be 10^12."""

    def __init__(self):
        self.entries = self.keys = 0

    def count(self, size):
        self.entries, self.keys = self.entries + 1, self.keys + size
        if self.entries > MOST_ENTRIES or self.keys > MOST_KEYS:
            raise ValueError("its names are more than those of any checkpoint")


def _block(data, offset, size, bounds):
    """Yields the keys and values of a block; keys share a prefix with the previous key."""
    if offset + size + 5 > len(data):
        raise ValueError("a block reaches outside of it")
    block, kind = data[offset : offset + size], data[offset + size]
    checksum = int.from_bytes(data[offset + size + 1 : offset + size + 5], "little")
    if kind:
        raise ValueError("a block of it is compressed")
    if unmasked(checksum) != crc32c(np.frombuffer(data, "uint8", size + 1, offset)):
        raise ValueError("a checksum is wrong")
    end = size - 4 * (1 + int.from_bytes(block[-4:], "little"))
    place, key = 0, b""
    while place < end:
        shared, fresh, length, place = varints(block, place, 3)
        if shared > len(key) or place + fresh + length > end:
            raise ValueError("a block of it is shorter than its entries")
        bounds.count(shared + fresh)
        key = key[:shared] + block[place : place + fresh]
        place += fresh + length
        yield key, block[place - length : place]


def varints(data, place, count):
    """Reads variable-length integers, 7 bits per byte, least significant first.

    Returns the integers and the position after them.
    """
    numbers = []
    for _ in range(count):
        number = 0
        for shift in range(0, 7 * NUMBER, 7):
            byte, place = data[place], place + 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise ValueError(f"a number has more than {NUMBER} bytes")
        numbers.append(number)
    return *numbers, place


def read_message(data, fields):
    """Reads some fields of a protocol buffer.

    `data`: bytes of the message. `fields`: dict, name of a field -> its number. Returns a dict,
    name -> list of int or bytes; [0] for a field that is absent. Raises ValueError, IndexError if
    the message is damaged.
    """
    values = read_fields(data)
    return {name: values.get(number, [0]) for name, number in fields.items()}


def read_fields(data, most=MOST_FIELDS):
    """Reads the fields of a protocol buffer.

    `data`: bytes of the message. `most`: int. Maximum number of fields. Returns a dict, number of a
    field -> list of int or bytes. Raises ValueError, IndexError if the message is damaged.
    """
    values, place, count = {}, 0, 0
    while place < len(data):
        count += 1
        if count > most:
            raise ValueError(f"a message of it has more than {most} fields")
        tag, place = varints(data, place, 1)
        kind = tag & 7
        if kind == 0:
            value, place = varints(data, place, 1)
        elif kind in (2, 5):
            length, place = varints(data, place, 1) if kind == 2 else (4, place)
            value, place = data[place : place + length], place + length
            if place > len(data):
                raise ValueError("a field is longer than what it is in")
        else:
            raise ValueError(f"a field of the kind {kind}")
        values.setdefault(tag >> 3, []).append(value)
    return values


def unmasked(checksum):
    """Undoes LevelDB's masking of a checksum."""
    rotated = (checksum - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
