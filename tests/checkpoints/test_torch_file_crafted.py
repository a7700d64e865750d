"""Torch files made to do harm: refused before anything is made of them, as torch refuses them."""

import pickle
import struct
import tracemalloc
import zipfile

import pytest
from crafted import FLOATS, HOOKS, archive, pickled, tensor, value

from keras_posenc.checkpoints import open_checkpoint, pickles
from keras_posenc.checkpoints.pickles import MOST_BYTES

pytestmark = pytest.mark.once


def refused(path, message):
    """Holds that a file is refused in one line, and without memory."""
    tracemalloc.start()
    with pytest.raises(ValueError, match=message) as caught:
        open_checkpoint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def refused_by_torch(path):
    import torch

    with pytest.raises(Exception):  # noqa: B017 - of any kind
        torch.load(path, weights_only=True, mmap=False)


def test_what_is_crafted_here_is_read(tmp_path):
    import torch

    path = archive(tmp_path / "x.bin", pickled(a=tensor()), byteorder="little")
    assert open_checkpoint(path)["a"].tolist() == [1.0, 1.0]
    assert torch.load(path, weights_only=True)["a"].tolist() == [1.0, 1.0]


KINDS = ["O", "object", "finfo", "float32", "V8", "M8[s]", "f4,O", "U2", ">f4"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_does_not_choose_the_type_of_numpy(tmp_path, kind):
    path = archive(tmp_path / "x.bin", pickled(a=tensor(value(kind))))
    refused(path, "x.bin is damaged or truncated .*keeps numbers in an unknown way")
    refused_by_torch(path)


PICKLES = {
    "a class of a module with storages": (
        pickled(a=tensor(b"ctorch.storage\nFloatStorage\n")),
        r"would run torch\.storage\.FloatStorage",
    ),
    "a type in place of a class": (
        pickled(a=tensor(b"cnumpy\ndtype\n")),
        r"would run numpy\.dtype",
    ),
    "a name inside of a name": (pickled(a=tensor(b"ctorch\nFloatStorage.dtype\n")), "would run"),
    "a state of a tensor": (pickled(a=tensor() + b"}b"), "alters"),
    "a state of a function": (pickled(a=b"ctorch._utils\n_rebuild_tensor\n}b"), "alters"),
    "a state that is none": (pickled(a=HOOKS + b"K\x01b"), "a state that is none"),
    "a call of a tensor": (pickled(a=tensor() + b")R"), "its pickle calls"),
    "a call of a storage's class": (pickled(a=FLOATS + b")R"), "its pickle calls"),
    "a call with a dict": (pickled(a=b"ccollections\nOrderedDict\n}R"), "its pickle calls"),
    "a dict made of pairs": (pickled(a=b"ccollections\nOrderedDict\n]\x85R"), "TypeError"),
    "an object of a class": (pickled(a=b"ccollections\nOrderedDict\n)\x81"), r"b'\\x81', which"),
    "a pickle of protocol 4": (pickle.dumps({"a": 1}, 4), "of protocol 4"),
    "a set": (pickled(a=b"\x8f"), r"b'\\x8f', which torch lacks"),
    "a tuple as a key": (b"\x80\x02}(K\x01\x85K\x01u.", "a key of the type tuple"),
    "an item of a tuple": (pickled(a=b")K\x01a"), r"alters \(\)"),
    "a name twice": (b"\x80\x02}(" + value("x") + b"K\x01" + value("x") + b"K\x02u.", "'x' twice"),
    "a key without a value": (b"\x80\x02}(K\x01u.", "a key without a value"),
    "nothing on the stack": (b"\x80\x020.", "instruction"),
    "nothing to stop with": (b"\x80\x02.", "takes what it has not put there"),
    "a tuple from outside of a mark": (b"\x80\x02K\x01(\x85.", "takes what it has not put there"),
    "a mark that is not there": (b"\x80\x02t.", "closes what it has not opened"),
    "a memo that is not there": (b"\x80\x02h\x05.", "recalls what it has not met"),
    "text longer than the pickle": (b"\x80\x02X\xff\xff\xff\xffabc", "ends too early"),
    "a name without an end": (b"\x80\x02ctorch", "ends too early"),
    "a storage that is none": (pickled(a=value(("storage", 1)) + b"Q"), "an unknown way"),
    "a view of a storage": (pickled(a=value(tuple("123456")) + b"Q"), "an unknown way"),
    "a count that is none": (pickled(a=tensor(count=2.0)), "an unknown way"),
    "a negative count": (pickled(a=tensor(count=-2)), "an unknown way"),
    "a count that is a bool": (pickled(a=tensor(count=True, shape=(1,))), "an unknown way"),
    "two types of a storage": (
        pickled(a=tensor(), b=tensor(b"ctorch\nIntStorage\n")),
        "two storages '0'",
    ),
    "a storage that is not there": (pickled(a=tensor(key="1")), "data/1"),
    "a tensor of no storage": (
        pickled(a=b"ctorch._utils\n_rebuild_tensor\n(K\x01K\x00K\x02\x85K\x01\x85tR"),
        "in an unknown way",
    ),
    "a parameter of no tensor": (
        pickled(a=b"ctorch._utils\n_rebuild_parameter\n(K\x01K\x01K\x01tR"),
        "a parameter that is no tensor",
    ),
    "numbers to negate": (pickled(a=tensor(more=value({"neg": True}))), "in an unknown way"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_pickles_that_torch_does_not_write(tmp_path, case):
    data, message = PICKLES[case]
    refused(archive(tmp_path / "x.bin", data), message)


SHAPES = {
    "a negative length": ((0, (-2,), (1,)), "in an unknown way"),
    "a negative stride": ((1, (2,), (-1,)), "in an unknown way"),
    "a negative offset": ((-1, (1,), (1,)), "in an unknown way"),
    "a length that is a bool": ((0, (True,), (1,)), "in an unknown way"),
    "a length that is a float": ((0, (2.0,), (1,)), "in an unknown way"),
    "lengths that are a list": ((0, [2], [1]), "in an unknown way"),
    "fewer strides": ((0, (1, 2), (1,)), "in an unknown way"),
    "more axes than NumPy has": ((0, (1,) * 65, (1,) * 65), "in an unknown way"),
    "a length of 100 bytes": ((0, (2**800,), (0,)), "in an unknown way"),
    "behind the storage": ((1, (2,), (1,)), r"shape \(2,\) of float32 from byte 4 does not lie"),
    "a stride beyond the storage": ((0, (2,), (2,)), "does not lie in 8 bytes"),
    "a reach that overflows": ((0, (3, 5), (2**61, 2**60)), "does not lie in 8 bytes"),
    "a number as a terabyte": ((0, (2**38,), (0,)), "is larger than the file"),
    "two numbers as a gigabyte": ((0, (2,) * 28, (0,) * 27 + (1,)), "is larger than the file"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_windows_that_their_storage_does_not_hold(tmp_path, case):
    (offset, shape, strides), message = SHAPES[case]
    data = pickled(a=tensor(offset=offset, shape=shape, strides=strides))
    refused(archive(tmp_path / "x.bin", data), message)


TWO_ONES = struct.pack("<qff", 2, 1, 1)


def legacy(path, data, names, numbers=TWO_ONES):
    """Writes a file as torch did before 1.6."""
    start = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {})]
    path.write_bytes(b"".join([*start, data, pickle.dumps(names, 2)]) + numbers)
    return path


def test_legacy_files_whose_storages_are_not_there(tmp_path):
    """An array over no buffer would be one of whatever lies in memory, of any size."""
    data = pickled(a=tensor(shape=(2**33,)).replace(b"K\x02tQ", b"K\x02NtQ"))
    for names in ([], ["1"], ["0", "0"], ["0", "1"], None, [3]):
        refused(legacy(tmp_path / "x.bin", data, names), "other storages|TypeError")
    small = pickled(a=tensor().replace(b"K\x02tQ", b"K\x02NtQ"))
    assert open_checkpoint(legacy(tmp_path / "x.bin", small, ["0"]))["a"].tolist() == [1, 1]
    refused(legacy(tmp_path / "x.bin", small, ["0"], struct.pack("<qf", 2, 1)), "does not lie in")
    refused(legacy(tmp_path / "x.bin", value(("storage",)) + b"Q.", []), "in an unknown way")


def test_legacy_files_whose_names_take_ages_to_compare(tmp_path):
    """Two lists that hold a list twice, which holds a list twice, ...: 2^60 comparisons."""
    nested = b"(]q%c" + b"".join(b"](h%ch%ceq%c" for _ in range(60)) + b"t"
    made = [nested % tuple(bytes([place]) * 1 for place in [k, *[k] * 180]) for k in (1, 2)]
    start = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {}, {})]
    path = tmp_path / "x.bin"
    path.write_bytes(b"".join([*start, b"\x80\x02](", *made, b"e."]))
    refused(path, "it lists other storages than its tensors lie in")


def test_pickles_of_any_length(tmp_path, monkeypatch):
    """Each would be a thousand times as large in memory, or take hours."""
    path = tmp_path / "x.bin"
    assert len(open_checkpoint(archive(path, b"\x80\x02}r\xff\xff\xff\x7f."))) == 0
    refused(archive(path, b"\x80\x02" + b"]" * MOST_BYTES + b"."), f"than {MOST_BYTES} bytes")
    path.write_bytes(b"\x80\x02X" + struct.pack("<I", MOST_BYTES) + b"x" * MOST_BYTES + b"." * 9)
    refused(path, f"its pickle is longer than {MOST_BYTES} bytes")
    monkeypatch.setattr(pickles, "MOST_STEPS", 1000)
    refused(archive(path, b"\x80\x02" + b"]" * 1000 + b"."), "takes more than 1000 steps")
    nested = b"\x80\x02)" + b"q\x00h\x00\x86" * 100
    refused(archive(path, nested + b"."), "of the type tuple")
    refused(archive(path, nested + b"Q."), "in an unknown way")


def test_compressed_entries(tmp_path):
    path = tmp_path / "x.bin"
    for name in ("data.pkl", "byteorder", "data/0"):
        archive(path, pickled(a=tensor()), zipfile.ZIP_DEFLATED, **{name: b"\0" * 2**24})
        assert path.stat().st_size < 2**16
        refused(path, "data.pkl is compressed or encrypted")
    for name in ("byteorder", "version"):
        archive(path, pickled(a=tensor()), **{name: b"\0" * 2**24})
        refused(path, f"{name} is longer than 8 bytes")


def test_what_torch_refuses_of_archives(tmp_path):
    path, good = tmp_path / "x.bin", pickled(a=tensor())
    for entries in ({"version": "11\n"}, {"version": "x"}, {"constants.pkl": "x"}):
        refused(archive(path, good, **entries), "it is not of torch.save")
        refused_by_torch(path)
    with zipfile.ZipFile(archive(path, good), "a") as file:
        file.writestr("other/data/0", b"")
    refused(path, "it is several archives in one")
    refused_by_torch(archive(path, pickle.dumps({"a": 1}, 4)))
