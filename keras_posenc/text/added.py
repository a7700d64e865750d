"""Tokens that were added to a vocabulary: their flags in the files next to it, and their ids."""

import dataclasses
import itertools

from keras_posenc.files.untrusted import quote
from keras_posenc.text.importing import import_tokenizers

MOST_ADDED = 2**16  # tokens; Gemma has 6,400
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")


@dataclasses.dataclass(frozen=True)
class Added:
    """A token that is found in a text before all others."""

    id: int | None = None  # None takes the id in the vocabulary, or else the next free one
    special: bool = True  # whether it is a special token
    # Those of `FLAGS` that a file names: whether spaces on the left and on the right belong to it,
    # and whether it is found within words. Another is whether it is searched in the normalized
    # text, which holds if it is not special.
    flags: dict = dataclasses.field(default_factory=dict)


def place(added, vocabulary, source):
    """Gives an id to each added token that a vocabulary lacks.

    `added`: dict token -> `Added`. `vocabulary`: dict token -> id. `source`: path of the file with
    the vocabulary, for errors. Returns a dict token -> id, in the order of the ids, which follow
    those of the vocabulary.
    """
    tokens = {number: token for token, number in vocabulary.items()}
    for token, entry in added.items():
        number = vocabulary.get(token, entry.id)
        if entry.id not in (None, number):
            _refuse(source, token, entry.id, f"it has the id {number} there")
        if number is not None and tokens.setdefault(number, token) != token:
            _refuse(source, token, number, f"that is the id of {quote(tokens[number])}")
    free = itertools.count(max(tokens, default=-1) + 1)
    new = [token for token in added if token not in vocabulary]
    ids = {t: next(free) if added[t].id is None else added[t].id for t in new}
    new.sort(key=ids.get)
    for end, token in enumerate(new, len(vocabulary)):
        if ids[token] != end:  # the lowest id without a token, unless the vocabulary has others
            unused = next(number for number in itertools.count() if number not in tokens)
            _refuse(source, token, ids[token], f"no token has the id {min(unused, end)}")
    return {token: ids[token] for token in new}


def _refuse(source, token, number, otherwise):
    raise ValueError(
        f"{source}: by a file beside it {quote(token)} is token {number}, but {otherwise}. Correct "
        "added_tokens.json, or added_tokens_decoder in tokenizer_config.json."
    )


def add_tokens(tokenizer, vocabulary, names, found, new):
    """Makes a tokenizer find tokens in a text before all others.

    `tokenizer`: `tokenizers.Tokenizer`. It is changed in place. `vocabulary`: dict. Token -> id, of
    its model. `names`: dict. Role -> token; these are special. `found`: dict. Token -> `Added`, of
    those in the vocabulary and of new ones. `new`: dict. Token -> id, as from `place`.
    """
    special = set(names.values())
    entries, ids = {token: Added() for token in special} | found, vocabulary | new
    kind = import_tokenizers().AddedToken
    tokenizer.add_tokens(
        [
            kind(token, special=entries[token].special or token in special, **entries[token].flags)
            for token in sorted(entries.keys() & ids.keys(), key=ids.get)
        ]
    )
