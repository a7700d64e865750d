"""Torch files without torch: the same tensors, and nothing but tensors."""

import os
import pickle
import subprocess
import zipfile

import numpy as np
import pytest
from file_processes import start_process

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.torch_file import STORAGES

pytestmark = pytest.mark.once


@pytest.fixture(params=[True, False], ids=["zip", "legacy"])
def zip(request):
    """Whether torch writes a zip archive, or as it did before 1.6."""
    return request.param


@pytest.fixture
def save(tmp_path):
    def save(value, zip):
        import torch

        path = tmp_path / "pytorch_model.bin"
        torch.save(value, path, _use_new_zipfile_serialization=zip)
        return path

    return save


def tensors():
    import torch

    numbers = torch.arange(-3, 9).reshape(3, 4)
    dtypes = {"float64": "double", "float32": "float", "float16": "half"}
    found = {name: numbers.to(getattr(torch, dtypes.get(name, name))) for name in STORAGES.values()}
    found |= {
        "turned": numbers.float().t(),
        "part": torch.arange(20.0)[3:17:2],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 5),
        "parameter": torch.nn.Parameter(torch.randn(2, 3)),
    }
    return found | {"tied": found["float32"]}


def test_every_kind_of_tensor(save, zip):
    expected = tensors()
    found = open_checkpoint(save(expected, zip))
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found.shape(name) == tuple(tensor.shape)
        if name in STORAGES.values():
            assert found.dtype(name).name == name
        np.testing.assert_array_equal(
            found[name].astype("float64"), tensor.detach().double().numpy(), name
        )


def test_state_dict_of_a_module(save, zip):
    import torch

    module = torch.nn.Linear(2, 3)
    assert list(open_checkpoint(save(module.state_dict(), zip))) == ["weight", "bias"]
    for key in ("state_dict", "model_state_dict", "model"):
        run = {key: module.state_dict(), "epoch": 3, "loss": 0.5}
        assert list(open_checkpoint(save(run, zip))) == ["weight", "bias"]


def test_arrays_are_views_of_the_file(save, zip):
    array = open_checkpoint(save(tensors(), zip))["turned"]
    assert not array.flags.writeable
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    assert type(array).__name__ in ("memmap", "mmap")


def test_something_else_than_tensors(save, zip):
    import torch

    for value, message in (
        ({"epoch": 3}, "epoch is of the type int"),
        ([torch.ones(2)], "the whole file is of the type list"),
        (torch.ones(2), "the whole file is of the type Tensor"),
        ({"a": torch.ones(2), "b": {"c": torch.ones(2)}}, "b is of the type dict"),
        ({3: torch.ones(2)}, "3 is of the type Tensor"),
    ):
        with pytest.raises(ValueError, match=f"dict of tensors, but {message}.*state_dict"):
            open_checkpoint(save(value, zip))


def test_a_whole_module_is_refused(save, zip):
    import torch

    with pytest.raises(ValueError, match=r"refused: reading it would run torch\.nn\.modules"):
        open_checkpoint(save(torch.nn.Linear(2, 3), zip))


class Evil:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


def test_code_is_refused_and_not_run(save, zip, tmp_path):
    import torch

    trace = tmp_path / "trace"
    for call in (
        (os.system, (f"touch {trace}",)),
        (eval, (f"open({str(trace)!r}, 'w')",)),
        (subprocess.check_call, (["touch", str(trace)],)),
        (getattr, ("text", "upper")),
    ):
        path = save({"a": torch.ones(2), "b": Evil(call)}, zip)
        with pytest.raises(ValueError, match=r"is refused: reading it would run \w+\.\w+"):
            open_checkpoint(path)
        path.write_bytes(pickle.dumps(Evil(call), 2))
        with pytest.raises(ValueError, match="is refused: reading it would run"):
            open_checkpoint(path)
    assert not trace.exists()


def test_truncated_anywhere(save, zip):
    path = save(tensors(), zip)
    whole = path.read_bytes()
    for size in [*range(1, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"pytorch_model\.bin (is|begins|it)"):
            open_checkpoint(path)


def rewrite(path, old, new, compression=zipfile.ZIP_STORED):
    """Replaces bytes in a torch file; an archive gets the checksums that belong to them."""
    if not zipfile.is_zipfile(path):
        path.write_bytes(path.read_bytes().replace(old, new))
        return path
    copy = path.with_name("rewritten.bin")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w", compression) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(old, new))
    return copy


def test_storage_shorter_than_promised(save, zip):
    import torch

    path = rewrite(save({"a": torch.ones(1000)}, zip), b"M\xe8\x03", b"M\xe9\x03")  # 1001 numbers
    with pytest.raises(ValueError, match="too short|is not of 1001 numbers"):
        open_checkpoint(path)


def test_tensor_outside_of_its_storage(save, zip):
    import torch

    path = rewrite(save({"a": torch.ones(200)[100:]}, zip), b"Kd", b"Ke")  # 101 from 101 on
    with pytest.raises(ValueError, match=r"shape \(101,\) of float32 from byte 404"):
        open_checkpoint(path)


def test_archives_that_torch_does_not_write(save):
    import torch

    path = save({"a": torch.ones(2)}, True)
    with pytest.raises(ValueError, match="numbers are in big-endian order"):
        open_checkpoint(rewrite(path, b"little", b"big"))
    with pytest.raises(ValueError, match="data.pkl is compressed"):
        open_checkpoint(rewrite(path, b"", b"", zipfile.ZIP_DEFLATED))
    with pytest.raises(ValueError, match=r"the checksum of its entry \w+/data.pkl is wrong"):
        path.write_bytes(path.read_bytes().replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v3"))
        open_checkpoint(path)


def test_no_torch_is_needed(save, zip):
    path = save(tensors(), zip)
    program = """
        sys.modules["torch"] = None
        from keras_posenc.checkpoints.reader import open_checkpoint
        print(len(open_checkpoint(sys.argv[1])))
        """
    shown, _ = start_process(program, path).communicate()
    assert shown.strip() == str(len(tensors()))
