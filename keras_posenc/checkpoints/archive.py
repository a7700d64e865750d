"""Zip archives as `torch.save` and Keras write them: without compression or duplicates.

The directory at the end is parsed here and not by `zipfile`. That would create objects for a
directory of any size, and fill the memory with what a few compressed bytes expand to.
"""

import dataclasses
import struct
import zlib

from keras_posenc.files.untrusted import quote, shorten

MOST_ENTRIES = 2**17
MOST_DIRECTORY = 2**25  # bytes

END = struct.Struct("<4s4H2LH")
END_64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR_64 = struct.Struct("<4sLQL")
ENTRY = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
EXTRA_64 = 1  # the field whose numbers stand for those that are
IN_EXTRA = 0xFFFFFFFF


@dataclasses.dataclass(frozen=True)
class Entry:
    """The position of an entry in the file, and its CRC-32."""

    name: str
    start: int
    size: int
    crc: int

    def read(self, buffer, most):
        """Returns the bytes after checking their CRC-32; at most `most` of them."""
        if self.size > most:
            raise ValueError(f"its entry {shorten(self.name)} is longer than {most} bytes")
        data = buffer[self.start : self.start + self.size].tobytes()
        if zlib.crc32(data) != self.crc:
            raise ValueError(f"the checksum of its entry {shorten(self.name)} is wrong")
        return data


def read_archive(buffer):
    """Reads the directory of a zip archive.

    `buffer`: array of the file's bytes. Returns a dict, name -> `Entry`.
    """
    count, start, end = _directory(buffer)
    data = buffer[start:end].tobytes()
    entries, place = {}, 0
    for _ in range(count):
        entry, place = _entry(buffer, start, data, place)
        if entry.name in entries:
            raise ValueError(f"it has the entry {shorten(entry.name)} twice")
        entries[entry.name] = entry
    if place != len(data):
        raise ValueError("its directory is longer than its entries")
    reached = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.size)):
        if entry.start < reached:
            raise ValueError(f"its entry {shorten(entry.name)} lies in another")
        reached = entry.start + entry.size
    return entries


def _unpack(layout, buffer, start, signature):
    if not 0 <= start <= len(buffer) - layout.size:
        raise ValueError("it points outside of itself")
    magic, *fields = layout.unpack(bytes(buffer[start : start + layout.size]))
    if magic != signature:
        raise ValueError("its parts are not where they should be")
    return fields


def _directory(buffer):
    """Number of entries, and the start and end of the directory."""
    end = len(buffer) - END.size
    disk, first, here, count, size, start, comment = _unpack(END, buffer, end, b"PK\5\6")
    locator = end - LOCATOR_64.size
    if locator >= 0 and bytes(buffer[locator : locator + 4]) == b"PK\6\7":
        _, end, _ = _unpack(LOCATOR_64, buffer, locator, b"PK\6\7")
        fields = _unpack(END_64, buffer, end, b"PK\6\6")
        disk, first, here, count, size, start = fields[3:]
    if disk or first or comment or here != count:
        raise ValueError("it is a part of an archive, or has a comment")
    if count > MOST_ENTRIES or size > MOST_DIRECTORY:
        raise ValueError(f"it has {count} entries in a directory of {size} bytes, too many")
    if start + size != end:
        raise ValueError("its directory is not where it should be")
    return count, start, end


def _entry(buffer, directory, data, place):
    fields = _unpack(ENTRY, data, place, b"PK\1\2")
    _, _, flags, method, _, _, crc, packed, size, names, extras, comment, *_, local = fields
    place += ENTRY.size
    extra = data[place + names : place + names + extras]
    name = data[place : place + names].decode()
    if not name.isprintable():
        raise ValueError(f"it has an entry of the name {quote(name)}")
    size, packed, local = _wide(extra, size, packed, local)
    if method or flags & 1 or packed != size:
        raise ValueError(f"its entry {shorten(name)} is compressed or encrypted")
    *_, names_again, extras_again = _unpack(LOCAL, buffer, local, b"PK\3\4")
    start = local + LOCAL.size + names_again + extras_again
    if start + size > directory:
        raise ValueError(f"its entry {shorten(name)} reaches outside of it")
    return Entry(name, start, size, crc), place + names + extras + comment


def _wide(extra, *numbers):
    """32-bit numbers, or the 64-bit numbers that replace them in an extra field."""
    numbers, place = list(numbers), 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        field, place = extra[place + 4 : place + 4 + length], place + 4 + length
        if kind == EXTRA_64:
            for i, number in enumerate(numbers):
                if number == IN_EXTRA:
                    numbers[i], field = int.from_bytes(field[:8], "little"), field[8:]
    return numbers
