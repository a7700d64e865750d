"""A checkpoint as a mapping from names to arrays, whatever file it lies in."""

import collections.abc
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What a file says about one tensor before its numbers are read: `read()` gives the array."""

    shape: tuple
    dtype: np.dtype
    read: collections.abc.Callable


class Checkpoint(collections.abc.Mapping):
    """A lazy, read-only mapping from tensor names to NumPy arrays.

    Arrays are views of the memory-mapped file wherever the format allows it: opening a checkpoint
    reads names and shapes only, and a tensor costs memory when it is used. Copy what you keep.

    Args:
        tensors: dict from names to `Tensor`.
        format: one of `"tensorflow"`, `"safetensors"`, `"torch"`, `"keras"`, `"mapping"`.
        path: where the checkpoint lies; None for a mapping.

    Example:

    ```python
    checkpoint = open_checkpoint({"a": np.zeros((2, 3))})
    checkpoint.shape("a")  # (2, 3)
    ```
    """

    def __init__(self, tensors, format, path=None):
        self._tensors = dict(tensors)
        self.format = format
        self.path = None if path is None else str(path)

    def __getitem__(self, name):
        return self.tensor(name).read()

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return f"<Checkpoint {self}: {self.format}, {len(self)} tensors>"

    def __str__(self):
        return self.path or "a dict of arrays"

    def shape(self, name):
        """Shape of a tensor, a tuple, without reading it."""
        return self.tensor(name).shape

    def dtype(self, name):
        """NumPy dtype of a tensor, without reading it."""
        return self.tensor(name).dtype

    def tensor(self, name):
        """What the file says about a tensor, with the means to read it."""
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"{self} has no tensor {name!r} among its {len(self)}.") from None


def numpy_dtype(name):
    """NumPy's dtype of a name, also of those that NumPy itself lacks (`"bfloat16"`, float8)."""
    import ml_dtypes  # what Keras itself depends on; knowing it registers the names

    return np.dtype(getattr(ml_dtypes, name, name))


def mapped(path):
    """The bytes of a file, memory-mapped and read-only."""
    return np.memmap(path, dtype="uint8", mode="r")


def view(buffer, shape, dtype, offset, strides=None):
    """An array over some bytes of a buffer; NumPy refuses what reaches outside of it."""
    return np.ndarray(shape, dtype, buffer=buffer, offset=offset, strides=strides)
