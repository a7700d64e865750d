"""The `tokenizers` package: its import, and its errors."""

import contextlib

from keras_posenc.files.untrusted import shorten


def import_tokenizers():
    """Imports `tokenizers`; raises ImportError with the pip command if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("Text needs the `tokenizers` package: pip install tokenizers") from error
    return tokenizers


@contextlib.contextmanager
def refusals(source):
    """Turns what the Rust side raises, and a ValueError, into a ValueError that names the file.

    It raises a bare Exception for what it checks, and where it panics a BaseException of its own.
    """
    try:
        yield
    except BaseException as error:
        rust = type(error) is Exception or type(error).__name__ == "PanicException"
        if not rust and not isinstance(error, ValueError):
            raise
        reason = shorten(str(error).removeprefix("Exception: "))
        raise ValueError(f"{source} is no tokenizer that works: {reason}.") from None
