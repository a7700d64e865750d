"""Vocabularies: vocab.txt, and bert4keras's smaller one without the tokens no text can produce."""

import os
import unicodedata

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def read_vocabulary(path):
    """Reads a vocab.txt: one token a line, the id is the line's number from 0.

    Args:
        path: the file, in UTF-8.

    Returns:
        A dict token -> id. A token on two lines keeps the later id, as in `transformers`.

    Raises:
        ValueError: the file is empty, not UTF-8, or lacks one of [PAD], [UNK], [CLS], [SEP].
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8, so not a vocabulary.") from None
    # Not str.splitlines: some Chinese vocabularies hold U+2028 and its like as tokens.
    lines = text.rstrip("\r\n").split("\n")
    vocabulary = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    check_vocabulary(vocabulary, path)
    return vocabulary


def check_vocabulary(vocabulary, source):
    """Raises unless the vocabulary holds the tokens that every encoded text needs."""
    missing = [token for token in SPECIAL[:4] if token not in vocabulary]
    if missing:
        raise ValueError(
            f"{source}: a vocabulary of {len(vocabulary)} tokens without {', '.join(missing)}. "
            "A BERT vocabulary has one token a line and holds [PAD], [UNK], [CLS] and [SEP]."
        )


def simplified_vocabulary(source, starts_with=SPECIAL):
    """Drops the tokens that BERT's splitting can never produce, as bert4keras does.

    A token of two or more characters is redundant when it holds, after a leading "##", a Chinese
    character or a punctuation mark: text is split around those. A Chinese BERT loses a third of
    its token table that way and gives the same output on every text.

    Args:
        source: a vocab.txt, a tokenizer.json, a directory with one of them, or a `Tokenizer`.
        starts_with: the tokens that get the first ids, redundant or not.

    Returns:
        `(token_dict, keep_tokens)`: the new dict token -> id, for `Tokenizer(vocabulary=)`, and
        for each new id the old one, for `build_transformer_model(keep_tokens=)`.

    Raises:
        ValueError: a token of `starts_with` is not in the vocabulary.

    Example:
    ```python
    token_dict, keep_tokens = simplified_vocabulary("chinese_L-12_H-768_A-12/vocab.txt")
    tokenizer = Tokenizer("chinese_L-12_H-768_A-12", vocabulary=token_dict)
    ```
    """
    if isinstance(source, (str, os.PathLike)):
        from keras_posenc.text.tokenizer import Tokenizer

        source = Tokenizer(source)
    full = source.vocabulary
    missing = [token for token in starts_with if token not in full]
    if missing:
        raise ValueError(
            f"starts_with names {missing}, not among the vocabulary's {len(full)} tokens; "
            f"leave out what this vocabulary has not."
        )
    kept = dict.fromkeys(starts_with)
    kept.update((t, None) for t in sorted(full, key=full.get) if not _redundant(t))
    return {token: new for new, token in enumerate(kept)}, [full[token] for token in kept]


def _redundant(token):
    stem = token[2:] if token.startswith("##") else token
    return len(token) > 1 and any(_is_chinese(c) or _is_punctuation(c) for c in stem)


def _is_chinese(character):
    return any(low <= ord(character) <= high for low, high in CJK_RANGES)


def _is_punctuation(character):
    # ASCII symbols such as $ and ^ count as punctuation for BERT though Unicode says otherwise.
    symbol = "!" <= character <= "~" and not character.isalnum()
    return symbol or unicodedata.category(character).startswith("P")
