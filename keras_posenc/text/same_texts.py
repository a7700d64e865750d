"""Which texts are one text to a model: those of which the tokenizer makes the same tokens."""

import hashlib

import numpy as np

from keras_posenc.processes.together import counted_from

PART = 1024  # texts whose tokens are in memory together


def tokens_digest(*ids):
    """A number of 64 bits for lists of ids, the same for equal ones."""
    found = hashlib.blake2b(digest_size=8)
    for each in ids:
        found.update(np.asarray(each, "<i4").tobytes())
    return int.from_bytes(found.digest(), "little", signed=True)


def text_numbers(texts, tokenizer, max_length=None, prompt=""):
    """Numbers texts, so that texts with the same tokens have one number.

    To an uncased tokenizer "Zoë" and "ZOE " are one text. They have one vector, so neither can be
    right where the other is wrong. `max_length`: int. Tokens after which texts are truncated,
    special tokens included. Default: all tokens count. `prompt`: str. What stands before each text,
    and takes room. Returns (N,) int array: the index of the first text with the same tokens.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "two"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> text_numbers(["One two", "two", " one  two"], tokenizer).tolist()
    [0, 1, 0]
    """
    if max_length is not None and prompt:
        (taken,) = tokenizer.contents([prompt])
        max_length = max(max_length - len(taken), tokenizer.special_tokens() + 1)
    first, numbers = {}, []
    for start in range(0, len(texts), PART):
        with counted_from(start):
            contents = tokenizer.contents(texts[start : start + PART])
        for ids in contents:
            if max_length is not None:
                ids, _ = tokenizer.assemble(ids, max_length=max_length)
            numbers.append(first.setdefault(tokens_digest(ids), len(numbers)))
    return np.array(numbers, int)
