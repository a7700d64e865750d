"""Programs that are traced for another runtime."""

import contextlib
import contextvars

_EXPORTING = contextvars.ContextVar("exporting", default=None)


@contextlib.contextmanager
def exporting(format):
    """Within it programs are traced for a runtime that lacks loops and knows few operations."""
    token = _EXPORTING.set(format)
    try:
        yield
    finally:
        _EXPORTING.reset(token)


def exporting_free_sizes(x):
    """`exporting` where a program is traced for sizes of `x` that are variables, which loops over
    blocks cannot count; else a context without effect."""
    return contextlib.nullcontext()


def saved_model_options(inputs):
    """Arguments of `keras.Model.export` by which inputs (B, T) have one free length."""
    return {}


def is_exporting(format=None):
    """Whether a program is traced for another runtime, or for that of this format."""
    return _EXPORTING.get() is not None and format in (None, _EXPORTING.get())
