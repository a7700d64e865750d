"""The reader of zip archives: what the writers of checkpoints write, and nothing else."""

import io
import struct
import zipfile

import numpy as np
import pytest

from keras_posenc.checkpoints import archive
from keras_posenc.checkpoints.archive import read_archive

pytestmark = pytest.mark.once

ENTRIES = {"archive/data.pkl": b"one", "archive/data/0": b"", "archive/ü": b"three" * 99}


def zipped(compression=zipfile.ZIP_STORED, comment=b"", force_zip64=False):
    """An archive by Python's own writer."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        target.comment = comment
        for name, data in ENTRIES.items():
            with target.open(name, "w", force_zip64=force_zip64) as entry:
                entry.write(data)
    return bytearray(file.getvalue())


def read(data):
    buffer = np.frombuffer(bytes(data), "uint8")
    return {name: entry.read(buffer, 999) for name, entry in read_archive(buffer).items()}


def test_entries():
    assert read(zipped()) == read(zipped(force_zip64=True)) == ENTRIES
    with pytest.raises(ValueError, match="archive/data.pkl is longer than 2 bytes"):
        read_archive(np.frombuffer(zipped(), "uint8"))["archive/data.pkl"].read(None, 2)


def test_archives_beyond_the_numbers_of_32_bits(monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 9)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    data = zipped(force_zip64=True)
    assert b"PK\6\6" in data
    assert read(data) == ENTRIES


def test_a_file_of_torch(tmp_path):
    import torch

    torch.save({"a": torch.ones(2)}, tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.pt") as file:
        assert read(data) == {name: file.read(name) for name in file.namelist()}


END, DIRECTORY = -22, 16  # where the end begins, and in it the place of the directory


def changed(place, layout, value, entry=None):
    """An archive with a number changed, of an entry of its directory or of its end."""
    data = zipped()
    start = len(data) + END
    if entry is not None:
        (start,) = struct.unpack_from("<L", data, start + DIRECTORY)
        for _ in range(entry):
            start += 46 + struct.unpack_from("<H", data, start + 28)[0]
    struct.pack_into(layout, data, start + place, value)
    return data


def with_names(*names):
    file = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate name"):
        with zipfile.ZipFile(file, "w") as target:
            for name in names:
                target.writestr(name, "")
    return file.getvalue()


STRANGE = {
    "too short": (lambda: b"PK", "it points outside of itself"),
    "something behind it": (lambda: zipped() + b"\0", "its parts are not where they should be"),
    "a comment": (lambda: zipped(comment=b"x" * 9)[:-9], "or has a comment"),
    "a second disk": (lambda: changed(4, "<H", 1), "it is a part of an archive"),
    "more entries here": (lambda: changed(8, "<H", 2), "it is a part of an archive"),
    "a directory elsewhere": (lambda: changed(16, "<L", 3), "directory is not where it should be"),
    "a huge directory": (lambda: changed(12, "<L", 2**31), "of 2147483648 bytes, too many"),
    "a compressed entry": (lambda: changed(10, "<H", 8, 0), "data.pkl is compressed or encrypted"),
    "an encrypted entry": (lambda: changed(8, "<H", 1, 0), "data.pkl is compressed or encrypted"),
    "two sizes": (lambda: changed(20, "<L", 2, 0), "data.pkl is compressed or encrypted"),
    "an entry elsewhere": (lambda: changed(42, "<L", 2**31, 0), "it points outside of itself"),
    "an entry nowhere": (lambda: changed(42, "<L", 3, 0), "parts are not where they should be"),
    "an entry in another": (lambda: changed(42, "<L", 0, 2), "archive/ü lies in another"),
    "a wrong checksum": (lambda: changed(16, "<L", 0, 0), "checksum of its entry archive/data.pkl"),
    "a long name": (lambda: changed(28, "<H", 999, 2), "directory is longer than its entries"),
    "a long comment": (lambda: changed(32, "<H", 9, 2), "directory is longer than its entries"),
    "a name of controls": (lambda: zipped().replace(b"data.pkl", b"dat\x1b[2Ja"), r"dat\\x1b\[2Ja"),
    "a name twice": (lambda: with_names("x", "x"), "it has the entry x twice"),
    "a size beyond it": (lambda: stretched(), "archive/ü reaches outside of it"),
}


def stretched():
    data = changed(20, "<L", 2**20, 2)
    return data.replace(struct.pack("<LL", 2**20, 495), struct.pack("<LL", 2**20, 2**20))


@pytest.mark.parametrize("case", STRANGE)
def test_archives_that_nobody_writes(case):
    make, message = STRANGE[case]
    with pytest.raises(ValueError, match=message):
        read(make())


def test_more_entries_than_a_checkpoint_has(monkeypatch):
    monkeypatch.setattr(archive, "MOST_ENTRIES", 2)
    with pytest.raises(ValueError, match=r"it has 3 entries in a directory of \d+ bytes, too many"):
        read(zipped())
