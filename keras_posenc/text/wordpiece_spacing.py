"""WordPiece tokens as readable text: which spaces between words are no spaces in writing."""

import re
import unicodedata

SUFFIXES = {"s", "t", "re", "ve", "ll", "d", "m", "em", "clock"}  # don't, o'clock
CLOSING = set(".,!?;:%)]}…’”»、。，！？；：）】》」』")
OPENING = set("([{$£€¥#@“‘«¿¡（【《「『")
JOINING = set("-/_@‐‑")  # between letters or digits
QUOTES = {'"', "'"}
DECIMAL = {".", ",", ":"}  # between digits


def join_pieces(tokens):
    """Words of WordPiece tokens, where "##ing" goes on with the token before."""
    words = []
    for token in tokens:
        if words and token.startswith("##") and len(token) > 2:
            words[-1] += token[2:]
        elif token == "-" and words and set(words[-1]) == {"-"}:  # a dash of several
            words[-1] += token
        else:
            words.append(token)
    return words


def join_words(words):
    """The text of words and punctuation marks, with the spaces of English typography.

    What a tokenizer splits that is one in writing is closed up: don't, 3.5, well-known, (so). The
    original may have had it otherwise: only offsets know.
    """
    marks = _apostrophes(words)
    text, opened = "", set()
    for place, word in enumerate(words):
        together = not place or _together(words, place, marks, opened)
        text += word if together else f" {word}"
        if word in QUOTES and place not in marks:
            opened ^= {word}
    return text


def _together(words, place, marks, opened):
    """Whether a word follows the one before without a space."""
    word, before = words[place], words[place - 1]
    two = words[place - 2] if place > 1 else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    if place in marks or place - 1 in marks or word in CLOSING:
        return True
    if word in QUOTES:
        return word in opened or before in OPENING
    if before in QUOTES:
        return before in opened
    if before in OPENING or (_wide(before[-1]) and _wide(word[0])):
        return True
    if before in DECIMAL and word[0].isdigit() and two[-1:].isdigit():
        return True
    if JOINING >= set(word):
        return _word(before) and _word(after)
    if JOINING >= set(before):
        return _word(two) and _word(word)
    return False


def _apostrophes(words):
    """The places of the marks that stand in a word (it's, l'eau), and do not quote."""
    places = set()
    for place in range(1, len(words) - 1):
        before, mark, after = words[place - 1 : place + 2]
        elided = len(before) == 1 and before.isalpha() and place - 2 not in places and _word(after)
        if mark == "'" and _word(before) and (after in SUFFIXES or elided):
            places.add(place)
    return places


def _word(text):
    return bool(text) and (text[0].isalnum() or text[-1].isalnum())


def _wide(character):
    """Whether a character is of a script that is written without spaces."""
    return bool(
        re.match("[\u0e00-\u0e7f\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]", character)
    ) or (ord(character) > 0x20000 and unicodedata.category(character) == "Lo")
