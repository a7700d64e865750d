"""WordPiece tokens as readable text: which spaces between words are no spaces in writing."""

import re
import unicodedata

SUFFIXES = {"s", "t", "re", "ve", "ll", "d", "m", "em", "clock"}  # don't, o'clock
CLOSING = set(".,!?;:%)]}…’”»、。，！？；：）】》」』")
OPENING = set("([{$£€¥#@“‘«¿¡（【《「『")
JOINING = set("-/_@‐‑")  # between letters or digits
QUOTES = "\"'"


def join_pieces(tokens, prefix="##"):
    """Words of WordPiece tokens, where "##ing" goes on with the token before."""
    words = []
    for token in tokens:
        if words and token.startswith(prefix) and len(token) > len(prefix):
            words[-1] += token[len(prefix) :]
        else:
            words.append(token)
    return words


def join_words(words):
    """The text of words and punctuation marks, with the spaces of English typography.

    What a tokenizer splits that is one in writing is closed up: don't, 3.5, U.S.-made, (so). The
    original may have had it otherwise: only offsets know.

    Args:
        words: list of str.

    Returns:
        str.
    """
    text, opened = "", set()
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        after = words[place + 1] if place + 1 < len(words) else ""
        glue = not text or _together(words, place, before, word, opened)
        if word in QUOTES and word and not _apostrophe(before, word, after):
            opened ^= {word}
        text += word if glue else f" {word}"
    return text


def _together(words, place, before, word, opened):
    """Whether a word follows the one before without a space."""
    two = words[place - 2] if place > 1 else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    if _wide(before[-1]) and _wide(word[0]):
        return True
    if word in QUOTES:
        if _apostrophe(before, word, after):
            return True
        return word in opened or before in OPENING
    if before in QUOTES:
        return _apostrophe(two, before, word) or before in opened
    if word in CLOSING or before in OPENING - {"@"}:
        return True
    if before in {".", ",", ":"} and word[0].isdigit() and two[-1:].isdigit():
        return True
    if word in JOINING:
        return _word(before) and _word(after) or before == word
    if before in JOINING:
        return _word(two) and _word(word)
    return False


def _apostrophe(before, mark, after):
    """Whether a mark stands in a word (it's, l'eau), or quotes."""
    if mark != "'" or not _word(before):
        return False
    return after in SUFFIXES or (len(before) == 1 and before.isalpha() and _word(after))


def _word(text):
    return bool(text) and (text[0].isalnum() or text[-1].isalnum())


def _wide(character):
    """Whether a character is of a script that is written without spaces."""
    return bool(
        re.match("[\u0e00-\u0e7f\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]", character)
    ) or (ord(character) > 0x20000 and unicodedata.category(character) == "Lo")
