"""Programs that are traced for another runtime."""

import contextlib
import threading

from keras import ops

_THREAD = threading.local()  # torch.compile cannot read a context variable


@contextlib.contextmanager
def exporting(format):
    """A context in which programs are traced for a runtime without loops, with few operations."""
    before, _THREAD.format = _THREAD.__dict__.get("format"), format
    try:
        yield
    finally:
        _THREAD.format = before


def exporting_free_sizes(x):
    """`exporting` if sizes of `x` are variables, which loops over blocks cannot count; else no
    effect."""
    return contextlib.nullcontext()


def saved_model_options(inputs):
    """Arguments of `keras.Model.export` that give all inputs (B, T) the same free length."""
    return {}


def constant(x, dtype):
    """An array, or a tensor, as a tensor of a dtype, in programs that are compiled too."""
    return ops.cast(x, dtype)


def is_exporting(format=None):
    """Whether a program is traced for another runtime, or for the one of this `format`."""
    known = _THREAD.__dict__.get("format")
    return known is not None and format in (None, known)
