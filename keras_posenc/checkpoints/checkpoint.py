"""A checkpoint of any format as a mapping from names to arrays."""

import collections.abc
import math
import mmap

import numpy as np

from keras_posenc.checkpoints.crc32c import crc32c
from keras_posenc.files.untrusted import check_file, quote

ALIGNMENT = 64  # bytes
STRIPE = 64  # columns
MOST_AXES = 32  # that every NumPy can do
MOST_NUMBERS = 2**59  # of 16 bytes each, so that NumPy can count the bytes


class Checkpoint(collections.abc.Mapping):
    """A read-only mapping from tensor names to NumPy arrays.

    The arrays are memory-mapped views of the file: opening a checkpoint reads names and shapes
    only, and numbers are read from the disk on use. Copy what must outlive the file.

    Args:
        arrays: dict, name -> NumPy array.
        format: one of `"tensorflow"`, `"safetensors"`, `"torch"`, `"keras"`, `"keras_hub"`,
            `"mapping"`.
        path: path of the checkpoint; None for a mapping.
        sums: dict, name -> CRC-32C of the array, checked when the array is first read.
        stretching: dict. How the model in a `.keras` file stretches its table of positions, as
            arguments of `build_transformer_model`; empty if it does not.
        backbone: str. The class of KerasHub that a preset is of.

    Raises:
        KeyError: when a name is looked up that the checkpoint lacks.

    Example:

    >>> checkpoint = open_checkpoint({"a": np.zeros((2, 3))})
    >>> checkpoint.shape("a"), checkpoint.dtype("a").name, checkpoint["a"].sum().item()
    ((2, 3), 'float64', 0.0)
    """

    def __init__(self, arrays, format, path=None, sums=(), stretching=(), backbone=None):
        self._arrays, self._sums = dict(arrays), dict(sums)
        self.stretching = dict(stretching)
        self.format, self.backbone = format, backbone
        self.path = None if path is None else str(path)

    def __getitem__(self, name):
        array = self._array(name)
        if name in self._sums:
            if crc32c(array.reshape(-1).view("uint8")) != self._sums[name]:
                raise ValueError(
                    f"{self} is damaged: the checksum of {quote(name)} is wrong. Download it again."
                )
            del self._sums[name]
        return array

    def _array(self, name):
        try:
            return self._arrays[name]
        except KeyError:
            raise KeyError(f"{self} has no tensor {quote(name)} among its {len(self)}.") from None

    def __contains__(self, name):
        return name in self._arrays

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self):
        return len(self._arrays)

    def __repr__(self):
        return f"<Checkpoint {self}: {self.format}, {len(self)} tensors>"

    def __str__(self):
        return self.path or "a dict of arrays"

    def shape(self, name):
        """Returns the shape of a tensor, a tuple, without reading its numbers."""
        return self._array(name).shape

    def dtype(self, name):
        """Returns the NumPy dtype of a tensor, without reading its numbers."""
        return self._array(name).dtype


def numpy_dtype(name):
    """NumPy dtype by name, including those that NumPy itself lacks (`"bfloat16"`, float8).

    The name must not come from a file: NumPy creates Python objects for `"O"`.
    """
    import ml_dtypes  # Keras depends on it

    return np.dtype(getattr(ml_dtypes, name, name))


def mapped(path):
    """Memory-maps the bytes of a regular file, read-only."""
    check_file(path)
    return np.memmap(path, dtype="uint8", mode="r").view(np.ndarray)


def forget(array):
    """Frees the memory pages behind a view of a mapped file; they are read again on use."""
    while isinstance(array, np.ndarray):
        array = array.base
    if isinstance(array, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)


def private(array):
    """Copies an array to contiguous float32.

    The copy is aligned to 64 bytes, so that JAX can use it without another copy.
    """
    buffer = np.empty(4 * array.size + ALIGNMENT, "uint8")
    start = -buffer.ctypes.data % ALIGNMENT
    copy = buffer[start : start + 4 * array.size].view("float32").reshape(array.shape)
    if array.ndim in (2, 3) and not array.flags.c_contiguous:
        # A transposed matrix, or those of some heads (rows, heads, n), go in stripes that stay in
        # the processor's cache.
        for i in range(0, array.shape[-1], STRIPE):
            copy[..., i : i + STRIPE] = array[..., i : i + STRIPE]
    else:
        copy[...] = array
    return copy


def is_count(value):
    """Whether a value from a file is a non-negative int64."""
    return type(value) is int and 0 <= value < 2**63


def is_shape(value):
    """Whether a value from a file can be the shape of an array.

    NumPy counts the bytes of its axes without zeros, even if an array is empty.
    """
    return are_counts(value) and math.prod(filter(None, value)) < MOST_NUMBERS


def are_counts(value):
    """Whether a value from a file is a tuple with a count for each axis of an array."""
    return type(value) is tuple and len(value) <= MOST_AXES and all(map(is_count, value))


def array_over(buffer, shape, dtype, offset=0, strides=None):
    """Makes an array that is a view of some bytes of a buffer.

    `buffer`: array of bytes. `shape`: tuple of non-negative ints. `dtype`: NumPy dtype. `offset`:
    int. First byte of the array. `strides`: tuple of int, in bytes; None for a contiguous array.
    """
    size = math.prod(shape)
    if size and strides is not None:
        last = zip(shape, strides, strict=True)
        size = 1 + sum((length - 1) * stride for length, stride in last) // dtype.itemsize
    # In Python's integers, which do not overflow as those of NumPy's own check do.
    if offset + size * dtype.itemsize > buffer.nbytes:
        raise ValueError(
            f"shape {quote(shape)} of {dtype} from byte {offset} does not lie in {buffer.nbytes} "
            "bytes"
        )
    return np.ndarray(shape, dtype, buffer=buffer, offset=offset, strides=strides)
