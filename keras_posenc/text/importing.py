"""The `tokenizers` package: its import, and its errors."""

import contextlib

from keras_posenc.untrusted import shorten


def import_tokenizers():
    """Imports `tokenizers`; raises ImportError with the pip command if it is missing."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Text needs the `tokenizers` package: pip install keras_posenc[text]"
        ) from error
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
        said = shorten(str(error).removeprefix("Exception: "))
        raise ValueError(f"{source} is no tokenizer that works: {said}.") from None


def add_tokens(tokenizer, vocabulary, names, added):
    """Tells a tokenizer which tokens of its vocabulary are found in a text before all others.

    Args:
        tokenizer: `tokenizers.Tokenizer`.
        vocabulary: dict token -> id, of its model.
        names: dict role -> token; these are special.
        added: dict token -> (id, whether it is special).
    """
    special = {token: True for token in names.values()}
    flags = {token: flag for token, (_, flag) in added.items()} | special
    kind = import_tokenizers().AddedToken
    tokenizer.add_tokens(
        [
            kind(token, normalized=False, special=flags[token])
            for token in sorted(flags.keys() & vocabulary.keys(), key=vocabulary.get)
        ]
    )
