"""Torch files put together by hand, so that they may say anything."""

import pickle
import zipfile

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
