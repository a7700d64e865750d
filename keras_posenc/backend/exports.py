"""Programs that are traced for another runtime."""

import contextlib
import contextvars

_EXPORTING = contextvars.ContextVar("exporting", default=None)


@contextlib.contextmanager
def exporting(format):
    """A context in which programs are traced for a runtime without loops, with few operations."""
    token = _EXPORTING.set(format)
    try:
        yield
    finally:
        _EXPORTING.reset(token)


def exporting_free_sizes(x):
    """`exporting` if sizes of `x` are variables, which loops over blocks cannot count; else no
    effect."""
    return contextlib.nullcontext()


def saved_model_options(inputs):
    """Arguments of `keras.Model.export` that give all inputs (B, T) the same free length."""
    return {}


def is_exporting(format=None):
    """Whether a program is traced for another runtime, or for the one of this `format`."""
    return _EXPORTING.get() is not None and format in (None, _EXPORTING.get())
