"""The sentences of a text, and the words in them."""

import collections
import math
import re

# The end of a sentence with the quotes that close it, before a space; a full stop of Chinese or
# Japanese, which no space follows; a blank line.
_END = re.compile(r"""(?:[.!?…]["'”’»)\]]*(?=\s)|[。！？][”’」』）]*|\n[ \t\r]*(?=\n))\s*""")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|No|vs|[A-Z])\.\s*$")
WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
LONGEST = 20  # words


def sentences_of(text):
    """Cuts a text into its sentences, stripped, and long ones, such as text without full stops,
    into parts of at most 20 words, which end at a comma if there is one in the second half.

    Example:

    >>> sentences_of("Ada met Mr. Smith. She left!  He stayed.")
    ['Ada met Mr. Smith.', 'She left!', 'He stayed.']
    """
    return [part for sentence in _sentences(text) for part in _parts(sentence.split())]


def _parts(words):
    while len(words) > LONGEST:
        ends = [i + 1 for i in range(LONGEST // 2, LONGEST) if words[i][-1] in ",;:—"]
        last = ends[-1] if ends else LONGEST
        yield " ".join(words[:last])
        words = words[last:]
    if words:
        yield " ".join(words)


def _sentences(text):
    found, start = [], 0
    for end in _END.finditer(text):
        if not _ABBREVIATION.search(text[max(start, end.start() - 8) : end.end()]):
            found.append(text[start : end.end()])
            start = end.end()
    return [*found, text[start:]]


LEAST, SHORTEST, MOST = 4, 4, 8  # times in a text, letters, words of a text
# Kana and Chinese characters, between which no spaces stand.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def words_in(corpus):
    """Lists, per text, the words that the other texts hardly have, best first, by tf-idf."""
    counts = []
    for sentences in corpus:
        counts.append(collections.Counter(w for sentence in sentences for w in _words(sentence)))
    texts_with = collections.Counter(word for count in counts for word in count)
    found = []
    for count in counts:
        scores = {
            word: times * math.log(len(counts) / texts_with[word])
            for word, times in count.items()
            if times >= LEAST and texts_with[word] <= max(1, len(counts) // 10)
        }
        found.append(sorted(scores, key=lambda word: (-scores[word], word))[:MOST])
    return found


def _words(sentence):
    """The words in lower case that have enough letters; pairs of characters where no spaces are."""
    for word in WORD.findall(sentence):
        if _UNSPACED.search(word):
            yield from (word[i : i + 2] for i in range(len(word) - 1))
        elif len(word) >= SHORTEST:
            yield word.lower()


def word_pattern(word):
    """A regular expression of a word, with either case."""
    if _UNSPACED.search(word):
        return re.compile(re.escape(word))
    return re.compile(rf"\b{re.escape(word)}(?!\w)", re.IGNORECASE)


def without_word(sentence, pattern):
    """A sentence in which a word is left out."""
    return " ".join(pattern.sub("", sentence).split())
