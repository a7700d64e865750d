"""torch: what goes to a device, and what comes back as NumPy arrays.

See `keras_posenc.backend` for what each function does.
"""

import weakref

import keras
import ml_dtypes
import torch
from keras import ops

from keras_posenc.backend import shared
from keras_posenc.backend.torch_cuda import STANDS_FOR, on_cuda


class SafeTrainer(shared.SafeTrainer):
    """`shared.SafeTrainer`, whose predictions come to the host without arithmetic."""

    _waiting, _program = (), None

    def _should_torch_compile(self):
        # Whole steps break at the backward pass and in Keras' losses and metrics: `program` is one
        # graph, and its gradient another.
        return False

    def program(self, function):
        """The function of this model, compiled if that was with `jit_compile=True`."""
        if not self.jit_compile or torch.compiler.is_compiling():
            return function
        if self._program is None:
            object.__setattr__(self, "_program", torch.compile(function))
        return self._program

    def step_program(self, function):
        """`program` of a step (place, state, caches, context) for the places 1, 2, ...

        It writes into the tensors that it is given, so that a CUDA graph of it can be replayed.
        """

        def in_place(place, old, context):
            new = function(place, *old, context)
            for whole, x in zip(keras.tree.flatten(old), keras.tree.flatten(new), strict=True):
                if x is not whole:
                    whole.copy_(x)
            place.add_(1)

        program = self.program(in_place)
        if program is in_place:
            return function
        on_device = ops.ones((), "int32")

        def step(place, state, caches, context):
            program(on_device, (state, caches), context)
            return state, caches

        return step

    def _predictions(self, x):
        """The outputs without Keras' call, or None where it takes that."""

    def predict_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        found = self._predictions(x)
        found = super().predict_step(data) if found is None else found
        if torch.compiler.is_compiling():
            return found
        # While the device computes this batch, the one before is taken out of locked memory.
        for each in self._waiting:
            if (array := each()) is not None:
                array.settle()
        found = keras.tree.map_structure(HostArray.of, found)
        arrays = [x for x in keras.tree.flatten(found) if isinstance(x, HostArray)]
        # By weak references: what the user lets go must not stay with the model.
        object.__setattr__(self, "_waiting", [weakref.ref(x) for x in arrays if x.event])
        return found


class HostArray:
    """A tensor on its way to the host, and a NumPy array for those that ask for one.

    Keras waits for the device, converts numbers of bfloat16 to float32 and back, one by one, and
    copies them twice more.
    """

    def __init__(self, x):
        self.shape, self.dtype = tuple(x.shape), keras.backend.standardize_dtype(x.dtype)
        self.event, self.is_shared = None, x.device.type != "cuda"
        if x.device.type == "cuda":
            self.tensor = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            self.tensor.copy_(x, non_blocking=True)
            self.event = torch.cuda.Event()
            self.event.record()
        else:
            self.tensor = x

    @classmethod
    def of(cls, x):
        """x, or one of a tensor that would cost time to convert."""
        if not isinstance(x, torch.Tensor) or not (on_cuda(x) or x.dtype == torch.bfloat16):
            return x
        return cls(x.detach())

    def __array__(self, dtype=None, copy=None):
        x = self.settle()
        bits = x.dtype == torch.bfloat16
        array = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if bits else x.numpy()
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.copy() if copy and self.is_shared else array

    def settle(self):
        """The tensor on the host, in memory that is not locked."""
        event, tensor = self.event, self.tensor  # another thread may settle it, too
        if event is not None:
            event.synchronize()
            self.tensor = tensor = tensor.clone()
            self.event = None
        return tensor


def unmasked(ids, values, masked):
    """Ids on the device, marked if no value is the masked one, so that no layer has to ask."""
    if not (torch.cuda.is_available() or STANDS_FOR) or (values == masked).any():
        return ids
    x = ops.convert_to_tensor(ids)
    if on_cuda(x):
        x._has_no_padding = True
    return x


def is_unmasked(ids):
    """Whether ids are known to have no padding."""
    return getattr(ids, "_has_no_padding", False)
