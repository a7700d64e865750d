"""TensorFlow checkpoints made to do harm, and bits that flipped on the way."""

import numpy as np
import pytest
from crafted import HEADER, SIX, block, dims, entry, masked, message, sealed, table, varints

from keras_posenc.checkpoints import Checkpoint, leveldb, open_checkpoint
from keras_posenc.checkpoints.crc32c import crc32c
from keras_posenc.checkpoints.load import load_checkpoint
from keras_posenc.checkpoints.names import BERT
from keras_posenc.files.untrusted import MOST_JSON

pytestmark = pytest.mark.once


def written(path, index, numbers=SIX):
    (path / "x.ckpt.index").write_bytes(index)
    (path / "x.ckpt.data-00000-of-00001").write_bytes(numbers.tobytes())
    return path / "x.ckpt"


def index(**tensors):
    items = [(name.encode(), value) for name, value in tensors.items()]
    return table(block(HEADER, *items))


def test_what_is_crafted_here_is_read(tmp_path):
    found = open_checkpoint(written(tmp_path, index(a=entry())))
    assert found["a"].tolist() == SIX.tolist() == found["a"].tolist()


DAMAGED = {
    "a billion data files": (table(block((b"", message((1, 2**31))))), "names 2147483648 data f"),
    "no header": (table(block((b"a", entry()))), r"damaged or truncated \(it has no header\)"),
    "another order of bytes": (
        table(block((b"", message((1, 1), (2, 1))), (b"a", entry()))),
        "has its numbers in big-endian order",
    ),
    "a header of text": (table(block((b"", message((1, b"x"))))), "its shards is b'x'"),
    "a name twice": (table(block(HEADER, (b"a", entry()), (b"a", entry()))), "is there twice"),
    "names not in order": (table(block(HEADER, (b"b", entry()), (b"a", entry()))), "not in order"),
    "a name that is no text": (table(block(HEADER, (b"\xff", entry()))), "'utf-8' codec"),
    "a block again and again": (
        table(block(HEADER), *[varints(0, len(block(HEADER)) - 5)] * 9),
        "its blocks overlap",
    ),
    "a block outside": (table(block(HEADER), varints(0, 999)), "reaches outside of it"),
    "a compressed block": (table(block(HEADER, kind=b"\1")), "a block of it is compressed"),
    "a wrong checksum": (table(block(HEADER).replace(b"\x08\1", b"\x08\2")), "checksum is wrong"),
    "a long name": (
        table(sealed(varints(0, 0, 2) + b"\x08\1" + varints(0, 99, 0))),
        "a block of it is shorter than its entries",
    ),
    "a name as the one before": (
        table(sealed(varints(0, 0, 2) + b"\x08\1" + varints(9, 0, 0))),
        "a block of it is shorter than its entries",
    ),
    "a number without end": (index(a=b"\x80" * 99), "a number has more than 10 bytes"),
    "half a field": (index(a=b"\x12\x7f"), "a field is longer than what it is in"),
    "a field of another kind": (index(a=b"\1"), "a field of the kind 1"),
    "a data file that is not there": (index(a=entry(shard=1)), "truncated at 'a'"),
    "an unknown type": (index(a=entry(dtype=99)), "its type is 99"),
    "a negative offset": (index(a=entry(offset=2**64 - 8)), "its offset is 18446744073709551608"),
    "a negative length": (index(a=entry(shape=dims(2**64 - 1))), "its size is 184467"),
    "a length of text": (index(a=entry(shape=message((2, message((1, b"x")))))), "size is b'x'"),
    "more axes than NumPy has": (index(a=entry(shape=dims(*[1] * 99))), "its shape"),
    "another size": (index(a=entry(size=20)), r"20 bytes cannot hold the shape \(6,\)"),
    "beyond the file": (index(a=entry(offset=4)), "end at byte 28, the file ends at 24"),
    "a long index": (bytes(MOST_JSON + 1), f"refused: it is longer than {MOST_JSON} bytes"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_indexes_that_tensorflow_does_not_write(tmp_path, case):
    data, text = DAMAGED[case]
    with pytest.raises(ValueError, match=f"x.ckpt.*{text}") as caught:
        open_checkpoint(written(tmp_path, data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("most", ["MOST_ENTRIES", "MOST_KEYS"])
def test_an_index_larger_in_memory_than_on_disk(tmp_path, monkeypatch, most):
    monkeypatch.setattr(leveldb, most, 10)
    names = [f"name {number}" for number in range(11)]
    path = written(tmp_path, index(**dict.fromkeys(sorted(names), entry())))
    with pytest.raises(ValueError, match="its names are more than those of any checkpoint"):
        open_checkpoint(path)


def test_an_index_that_takes_ages(tmp_path):
    """Names of handles each as long as the file, handles of nothing, and messages of nothing."""
    long = varints(0, 10**6, 2) + b"x" * 10**6 + varints(0, 0)
    names = long + b"".join(varints(10**6, 0, 2) + varints(0, 0) for _ in range(10**5))
    nothing = b"\0" + masked(b"\0")
    footer = varints(0, 0, len(nothing), len(names) + 8)
    many = nothing + sealed(names) + footer.ljust(40, b"\0") + leveldb.MAGIC
    empty = table(nothing, *[varints(0, 0)] * (leveldb.MOST_ENTRIES + 1))
    for data in (many, empty):
        with pytest.raises(ValueError, match="its names are more than those of any checkpoint"):
            open_checkpoint(written(tmp_path, data))
    with pytest.raises(ValueError, match="a message of it has more than 1024 fields"):
        open_checkpoint(written(tmp_path, index(a=message((9, 0)) * 1025)))


def test_a_data_file_is_no_link_to_elsewhere(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = written(folder, index(a=entry()))
    data = folder / "x.ckpt.data-00000-of-00001"
    data.rename(tmp_path / "secret")
    data.symlink_to("../secret")
    with pytest.raises(ValueError, match="data-00000-of-00001 is refused: it is a link"):
        open_checkpoint(path)


def test_a_flipped_bit_is_an_error(tmp_path):
    path = written(tmp_path, index(a=entry(), b=entry()))
    for bit in (0, 77, 191):
        numbers = np.frombuffer(SIX.tobytes(), "uint8").copy()
        numbers[bit // 8] ^= 1 << bit % 8
        checkpoint = open_checkpoint(written(tmp_path, index(a=entry()), numbers))
        assert checkpoint.shape("a") == (6,) and checkpoint.dtype("a") == "float32"
        for _ in range(2):
            with pytest.raises(ValueError, match="the checksum of 'a' is wrong. Download it again"):
                checkpoint["a"]
    assert open_checkpoint(written(tmp_path, index(a=entry())))["a"].tolist() == SIX.tolist()
    path = written(tmp_path, index(a=entry(crc=b"\0\0\0\0")))
    with pytest.raises(ValueError, match="the checksum of 'a' is wrong"):
        open_checkpoint(path)["a"]


def test_nothing_is_loaded_of_a_checkpoint_with_a_flipped_bit(make, google, values):
    """Also the weights that come before the damaged one keep their numbers."""
    layers = make().layers
    before = values(layers)
    sums = {name: crc32c(a.reshape(-1).view("uint8")) for name, a in google.items()}
    last = "bert/encoder/layer_1/output/LayerNorm/beta"
    assert load_checkpoint(layers, Checkpoint(google, "tensorflow", "x", sums), BERT).loaded
    layers = make().layers
    before = values(layers)
    checkpoint = Checkpoint(google, "tensorflow", "x", sums | {last: sums[last] ^ 1})
    with pytest.raises(ValueError, match=f"x is damaged: the checksum of '{last}' is wrong"):
        load_checkpoint(layers, checkpoint, BERT)
    after = values(layers)
    assert all(np.array_equal(before[name], after[name]) for name in before)
