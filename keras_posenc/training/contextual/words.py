"""Words that are frequent in one text of a corpus and rare in the others."""

import collections
import math
import re

from keras_posenc.training.contextual.sentences import WORD

LEAST, SHORTEST, MOST = 4, 4, 8  # times in a text, letters, words of a text
# Kana and Chinese characters, between which no spaces stand.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def words_in(corpus):
    """Lists, per text, the words in lower case that the other texts hardly have, best first, by
    tf-idf."""
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
