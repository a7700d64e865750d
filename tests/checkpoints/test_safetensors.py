"""Our safetensors against the library's own, and files that are damaged."""

import json

import numpy as np
import pytest

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.checkpoint import numpy_dtype
from keras_posenc.checkpoints.safetensors import DTYPES, write_safetensors
from keras_posenc.files.untrusted import MOST_JSON

pytestmark = pytest.mark.once


def every_dtype():
    numbers = np.arange(-3, 9).reshape(3, 4) % 7
    # The library's NumPy side does not read float8.
    names = [name for name in DTYPES.values() if "float8" not in name]
    arrays = {name: numbers.astype(numpy_dtype(name)) for name in names}
    return arrays | {"scalar": np.array(3.5, "float32"), "empty": np.zeros((0, 5), "float32")}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        assert found[name].tobytes() == array.tobytes()


def test_reads_what_the_library_writes(tmp_path):
    import safetensors.numpy

    safetensors.numpy.save_file(every_dtype(), tmp_path / "model.safetensors")
    same(dict(open_checkpoint(tmp_path)), every_dtype())


def test_the_library_reads_what_we_write(tmp_path):
    import safetensors.numpy

    arrays = every_dtype() | {"turned": np.arange(6.0).reshape(2, 3).T}
    write_safetensors(tmp_path / "model.safetensors", arrays)
    same(dict(open_checkpoint(tmp_path)), arrays)
    same(safetensors.numpy.load_file(tmp_path / "model.safetensors"), arrays)


def test_the_numbers_begin_aligned(tmp_path):
    """The format asks for it; some readers refuse or copy numbers that begin elsewhere."""
    lengths = set()
    for size in range(1, 17):
        path = tmp_path / f"{size}.safetensors"
        write_safetensors(path, {"n" * size: np.arange(3.0)})
        length = int.from_bytes(path.read_bytes()[:8], "little")
        header = path.read_bytes()[8 : 8 + length]
        assert length % 8 == 0 and open_checkpoint(path)["n" * size].flags.aligned
        lengths.add(len(header.rstrip(b" ")) % 8)
    assert lengths == set(range(8))  # so the names needed every amount of padding


def test_arrays_are_views_of_the_file(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", every_dtype())
    array = open_checkpoint(tmp_path)["float32"]
    assert not array.flags.writeable
    while array.base is not None and not isinstance(array, np.memmap):
        array = array.base
    assert type(array).__name__ in ("memmap", "mmap")


def written(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    path.write_bytes(length.to_bytes(8, "little") + text + data)
    return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize("length", [0x80, 0x4B50, 0x8B1F, 0x3C])
def test_a_header_as_long_as_other_formats_begin(tmp_path, length):
    """The file begins with the header's length, which may read as a pickle, a zip, a gzip."""
    text = json.dumps(entry(), separators=(",", ":")).encode()
    text += b" " * (length - len(text))
    path = written(tmp_path / "x", text, np.ones(2, "float32").tobytes())
    assert open_checkpoint(path)["a"].tolist() == [1.0, 1.0]


DAMAGED = {
    r"its header has \{'shape'": {"a": {"shape": [2]}},
    "its header has 3 for 'a'": {"a": 3},
    r"its header has .*'x'": entry(shape="x"),
    r"shape \(3,\) and the type float32": entry(shape=(3,)),
    r"its header has .*\[-2\]": entry(shape=(-2,), offsets=(0, 8)),
    r"its header has .*\[-8, 0\]": entry(offsets=(-8, 0)),
    r"its header has .*\[2.0\]": entry(shape=(2.0,)),
    r"its header has .*\[2, True\]": entry(shape=(2, True)),
    r"its header has .*\[0, 4611686018427387904, 4": entry(shape=(0, 2**62, 4), offsets=(0, 0)),
    r"its header has .*\[False, 8\]": entry(offsets=(False, 8)),
    r"its header has .*\['2'\]": entry(shape=("2",)),
    r"its header has .*'shape': \{\}": entry("U8", {}, (0, 1)),
    r"its header has .*\[0, 8, 8\]": entry(offsets=(0, 8, 8)),
    r"its header has .*'dtype': \['F32'\]": entry(dtype=["F32"]),
    r"what bytes 8 to 0 can hold": entry(offsets=(8, 0)),
    r"holds 'a' as F4; the types read here are F64, F32": entry(dtype="F4"),
    r"'a' should end at byte \d+, the file ends": entry(shape=(4,), offsets=(0, 16)),
    "its tensors take": entry(shape=(1,), offsets=(0, 4)),
    "'a' does not follow another, from byte 4 on": entry(shape=(1,), offsets=(4, 8)),
    "'b' overlaps another, from byte 0 on": {**entry(), "b": entry()["a"]},
    "'b' overlaps another, from byte 4 on": {**entry(), "b": entry("U8", (4,), (4, 8))["a"]},
    "its metadata are not texts: 3": {"__metadata__": 3, **entry()},
    "its metadata are not texts: {'x': 1}": {"__metadata__": {"x": 1}, **entry()},
    "is not a JSON object": b'{"a": ',
    "not a JSON object": b"{\xff\xff}",
    "not a JSON object .it has the key 'a' twice": b'{"a": 1, "a": 1}',
    r"not a JSON object \('utf-8' codec": b'{"\\ud800": 1}',
    r"not a JSON object \('utf-8' codec.*surrogates": b'{"__metadata__": {"x": "\\udfff"}}',
    "not a JSON object .it nests too deeply": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("message", DAMAGED)
def test_damaged_header(tmp_path, message):
    import safetensors

    path = written(tmp_path / "model.safetensors", DAMAGED[message], b"\0" * 8)
    with pytest.raises(ValueError, match=f"model.safetensors .*{message}"):
        open_checkpoint(path)
    with pytest.raises(Exception):  # noqa: B017 - of any kind
        safetensors.safe_open(path, "np")


def test_more_axes_than_numpy_has(tmp_path):
    path = written(tmp_path / "model.safetensors", entry(shape=(1,) * 99 + (2,)), b"\0" * 8)
    with pytest.raises(ValueError, match=r"its header has .*\[1, 1, 1, 1, 1, 1, \.\.\.\]"):
        open_checkpoint(path)


def test_header_longer_than_any(tmp_path):
    header = json.dumps(entry()).encode() + b" " * MOST_JSON
    path = written(tmp_path / "model.safetensors", header, b"\0" * 8)
    with pytest.raises(ValueError, match=f"refused: its header is longer than {MOST_JSON} bytes"):
        open_checkpoint(path)


def test_header_longer_than_the_file(tmp_path):
    path = written(tmp_path / "model.safetensors", entry(), length=2**31)
    with pytest.raises(ValueError, match=r"truncated: its header should end at byte 2147483656"):
        open_checkpoint(path)


def test_truncated_anywhere(tmp_path, minilm):
    with open(minilm / "model.safetensors", "rb") as file:
        start = file.read(2_000_000)
    whole = (minilm / "model.safetensors").stat().st_size
    path = tmp_path / "model.safetensors"
    for size in (9, 10, 100, 5_000, 12_000, 100_000, 2_000_000):
        assert size < whole
        path.write_bytes(start[:size])
        with pytest.raises(ValueError, match=r"is truncated: .* Download it again"):
            open_checkpoint(path)
