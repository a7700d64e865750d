"""NumPy's files as `embed` writes them: read without compression, objects, or trust in their sizes.

`numpy.load` takes what a compressed entry expands to, a thousand times its size, and raises errors
of zipfile, lzma, tokenize and mmap that do not name the file.
"""

import io
import math
import tokenize

import numpy as np

from keras_posenc.checkpoints.archive import read_archive
from keras_posenc.checkpoints.checkpoint import mapped

READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MOST_HEADER = 2**14  # bytes


def read_npy(path):
    """The array of an .npy file, mapped into memory. Returns a read-only array."""
    return _array(mapped(path))


def read_npz(path):
    """The arrays of an .npz file that `numpy.savez` wrote.

    Returns a dict, name -> read-only array.
    """
    buffer, arrays = mapped(path), {}
    for name, entry in read_archive(buffer).items():
        if not name.endswith(".npy"):
            raise ValueError(f"its entry {name} is no array")
        data = entry.read(buffer, len(buffer))
        arrays[name.removesuffix(".npy")] = _array(np.frombuffer(data, "uint8"))
    return arrays


def _array(buffer):
    """The array that the bytes of an .npy file are."""
    start = io.BytesIO(buffer[:MOST_HEADER].tobytes())
    try:
        read_header = READERS[np.lib.format.read_magic(start)]
        shape, fortran, dtype = read_header(start)
    except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, tokenize.TokenError):
        raise ValueError("it does not begin as an .npy file does") from None
    data = buffer[start.tell() :]
    if dtype.kind not in "fiu":
        raise ValueError(f"it holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes are not the {dtype} numbers of the shape {shape}")
    return data.view(dtype).reshape(shape, order="F" if fortran else "C")
