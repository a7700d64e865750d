"""The words of texts and of queries, as BM25 counts them."""

import functools
import re
import unicodedata

# A character of Chinese or Japanese is a word; no spaces stand between theirs.
_BY_CHARACTER = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_BY_CHARACTER}]|[^\W{_BY_CHARACTER}]+")
# getFileName and get_file_name are found by their parts, too.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
_MOST_KNOWN = 2**18  # words that are remembered


def words_of(text):
    """The words of a text in their order, in lower case and without accents.

    An identifier counts as itself and as its parts. There are no stop words, because the inverse
    document frequency has them count little, and no stemming.

    Example:

    >>> words_of("Café getName()")
    ['cafe', 'getname', 'get', 'name']
    """
    return [word for found in _WORD.findall(text) for word in _forms(found)]


def places_of(text, words):
    """Where words, from `words_of`, stand in a text: (start, end) in characters.

    Example:

    >>> places_of("The boat, a boat.", {"boat"})
    [(4, 8), (12, 16)]
    """
    found = _WORD.finditer(text)
    return [each.span() for each in found if not words.isdisjoint(_forms(each[0]))]


@functools.lru_cache(_MOST_KNOWN)
def _forms(word):
    """A word as it is counted, and its parts if it is an identifier."""
    whole = _plain(word)
    if word.islower() and "_" not in word or word.istitle():
        return (whole,)
    parts = [_plain(part) for part in _PART.findall(word)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


def _plain(word):
    if word.isascii():
        return word.lower()
    found = unicodedata.normalize("NFKD", word.casefold())
    return "".join(each for each in found if not unicodedata.combining(each))
