"""NumPy's files: what it wrote is read; what is damaged or compressed is refused in our words."""

import zipfile

import numpy as np
import pytest

from keras_posenc.checkpoints.numpy_files import read_npy, read_npz

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 4), "float16"),
        np.array(7),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_are_those_of_numpy(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", one=array, two=array[..., None])
    found = {"one": read_npy(tmp_path / "a.npy"), **read_npz(tmp_path / "a.npz")}
    for name, expected in (("one", array), ("two", array[..., None])):
        assert found[name].dtype == expected.dtype and found[name].shape == expected.shape
        assert found[name].tobytes() == expected.tobytes()


def test_what_is_no_array_of_numbers(tmp_path):
    def refused(message, read=read_npy, data=None):
        path = tmp_path / ("a.npy" if read is read_npy else "a.npz")
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read(path)

    np.save(tmp_path / "a.npy", np.array([{}], object))
    refused("it holds object, not numbers")
    np.save(tmp_path / "a.npy", np.array(["a"]))
    refused("it holds <U1, not numbers")
    np.save(tmp_path / "a.npy", np.arange(4.0))
    whole = (tmp_path / "a.npy").read_bytes()
    refused(r"31 bytes are not the float64 numbers of the shape \(4,\)", data=whole[:-1])
    for shape in (b"(5,)", b"(-4,)", b"(10**9,)", b"(1,", b"4", b"{}", b"((4,),)", b"'\x00'"):
        damaged = whole.replace(b"(4,)", shape).replace(b" " * (len(shape) - 4) + b"\n", b"\n")
        refused("bytes are not the float64 numbers|does not begin as an .npy file", data=damaged)
    refused("does not begin as an .npy file does", data=whole[:40])
    refused("does not begin as an .npy file does", data=b"\x93NUMPY\x09\x00" + whole[8:])
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(2**20))
    refused("its entry a.npy is compressed or encrypted", read_npz)
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as file:
            file.writestr("a.npy", whole)
        refused("its entry a.npy is compressed or encrypted", read_npz)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("a.txt", whole)
    refused("its entry a.txt is no array", read_npz)
    np.savez(tmp_path / "a.npz", a=np.arange(4.0))
    data = (tmp_path / "a.npz").read_bytes()
    refused("the checksum of its entry a.npy is wrong", read_npz, data.replace(b"(4,)", b"(5,)"))
    refused("its parts are not where|points outside", read_npz, data[:-3])
