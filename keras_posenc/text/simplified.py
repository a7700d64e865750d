"""bert4keras's simplified vocabulary, without tokens that no text can produce."""

import os
import re
import unicodedata

from keras_posenc.text.tokenizer import Tokenizer
from keras_posenc.text.vocabulary import SPECIAL
from keras_posenc.text.words import CHINESE


def simplified_vocabulary(source, starts_with=SPECIAL):
    """Removes the tokens that BERT's pre-tokenization can never produce, as bert4keras does.

    A token of two or more characters is redundant if it contains, after a leading "##", a Chinese
    character or a punctuation mark, because text is split around those. Tokens that were added to
    the vocabulary are kept, because they are found before that. A Chinese BERT loses a
    third of its token embeddings this way and gives the same output on every text.

    Args:
        source: a vocab.txt, a tokenizer.json, a directory with one of them, or a `Tokenizer`.
        starts_with: the tokens that get the first ids, redundant or not.

    Returns:
        `(token_dict, keep_tokens)`: the new dict token -> id, for `Tokenizer(vocabulary=)`, and for
        each new id the old one, for `build_transformer_model(keep_tokens=)`.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "##!", "good"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> token_dict, keep_tokens = simplified_vocabulary(tokenizer)
    >>> keep_tokens
    [0, 1, 2, 3, 4, 7]
    >>> Tokenizer(vocabulary=token_dict).encode("good")[0]
    [2, 5, 3]
    """
    if isinstance(source, (str, os.PathLike)):
        source = Tokenizer(source)
    full = source.vocabulary
    missing = [token for token in starts_with if token not in full]
    if missing:
        raise ValueError(
            f"starts_with names {missing}, not among the vocabulary's {len(full)} tokens; "
            f"leave out what this vocabulary has not."
        )
    tokens = dict.fromkeys(starts_with)
    redundant = _redundant if source.pre_tokenize is None else _pieces_alone
    added = source.added_tokens
    tokens.update((t, None) for t in sorted(full, key=full.get) if t in added or not redundant(t))
    return {token: new for new, token in enumerate(tokens)}, [full[token] for token in tokens]


def _redundant(token):
    stem = token[2:] if token.startswith("##") else token
    return len(token) > 1 and any(re.match(CHINESE, c) or _is_punctuation(c) for c in stem)


def _pieces_alone(token):
    """Of a tokenizer that finds words: any word may be one, and a piece follows no such word."""
    return token.startswith("##") and _redundant(token)


def _is_punctuation(character):
    # BERT treats ASCII symbols such as $ and ^ as punctuation, unlike Unicode.
    symbol = "!" <= character <= "~" and not character.isalnum()
    return symbol or unicodedata.category(character).startswith("P")
