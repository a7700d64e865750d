"""Texts, and the names and words in them that counterfactual copies exchange."""

import collections
import dataclasses

import numpy as np

from keras_posenc.text.same_texts import text_numbers
from keras_posenc.training.contextual.names import capital, name_pattern, names_in, without_name
from keras_posenc.training.contextual.sentences import (
    sentences_of,
    without_word,
    word_pattern,
    words_in,
)

# Tokens of a sentence that introduces a name or begins a passage.
INTRODUCTION, SENTENCE = 64, 32
PIECE = 2000  # tokens after which a long text is cut, so that its parts are compared


@dataclasses.dataclass(frozen=True)
class Subject:
    """A name or word that later sentences of a text can do without."""

    text: int  # the index of the text
    word: str
    pattern: object  # a compiled regular expression
    introductions: tuple  # indices of sentences with it that can introduce it
    starts: tuple  # those that a passage can begin with
    pronoun: object  # `Pronoun` that stands for a name, or None for a word, which is left out

    @property
    def usable(self):
        """The numbers of the introductions that have two passages or more behind them."""
        return [
            number for number, place in enumerate(self.introductions)
            if sum(start > place for start in self.starts) >= 2
        ]  # fmt: skip


class Corpus:
    """Texts, and the names and words in them from which counterfactual copies are made.

    Args:
        texts: list of str.
        tokenizer: `Tokenizer`.
        language: `Language`, or None if no pronouns are known.
        size: int. Tokens of a copy, without special tokens.
        names: float in [0, 1]. Fraction of the copies that differ in names, the others in words.
        opening: float in [0, 1]. Fraction of the copies that have one in their first sentence.
        others: list of str, further texts of the same kind, in which names are counted, too.
    """

    def __init__(self, texts, tokenizer, language, size, names, opening, others=()):
        self.language, self.size = language, size
        self.fraction, self.opening = names, opening
        self.sentences, self.counts, self.origins = [], [], []
        self.num_texts = len(texts)
        for number, text in enumerate(texts):
            sentences = sentences_of(text)
            counts = [len(ids) for ids in tokenizer.contents(sentences)] if sentences else []
            for piece in _pieces(counts):
                self.sentences.append(sentences[piece])
                self.counts.append(counts[piece])
                self.origins.append(number)
        self.words = [
            subject
            for number, words in enumerate(words_in(self.sentences))
            for word in words
            if (subject := self._subject(number, word, word_pattern(word), None))
        ]
        self.words = _exchangeable(self.words)
        self.names, self.pool, self.left_out = [], {}, {}
        if language is not None:
            self.pool = {pronoun: set(pronoun.names.split()) for pronoun in language.pronouns}
            found = names_in(self.sentences, language, list(map(sentences_of, others)))
            self.left_out = dict(found.left_out)
            for number, names in enumerate(found):
                for name, pronoun in names.items():
                    pattern = name_pattern(name, language, found.longer[name])
                    if subject := self._subject(number, name, pattern, pronoun):
                        self.names.append(subject)
                        self.pool[pronoun].add(name)
        self.pool = {pronoun: sorted(names) for pronoun, names in self.pool.items()}
        known = sorted({each.word for each in self.words}.union(*self.pool.values()))
        numbers = text_numbers([capital(name) for name in known], tokenizer)
        self._numbers = dict(zip(known, numbers.tolist(), strict=True))
        self.names = [each for each in self.names if self._others(each)]
        self.words = [each for each in self.words if self._others(each)]

    def _subject(self, number, word, pattern, pronoun):
        """The `Subject`, or None if the text has too few sentences with it."""
        sentences, counts = self.sentences[number], self.counts[number]
        places = [i for i, sentence in enumerate(sentences) if pattern.search(sentence)]
        introductions = tuple(i for i in places if counts[i] <= INTRODUCTION)
        starts = tuple(i for i in places if 4 <= counts[i] <= SENTENCE)
        subject = Subject(number, word, pattern, introductions, starts, pronoun)
        return subject if subject.usable else None

    def apart(self, subject, other):
        """The subject without sentences that hold the other's name; None if too few are left."""
        sentences = self.sentences[subject.text]

        def without(places):
            return tuple(i for i in places if not other.pattern.search(sentences[i]))

        subject = dataclasses.replace(
            subject, introductions=without(subject.introductions), starts=without(subject.starts)
        )
        return subject if subject.usable else None

    @property
    def subjects(self):
        """The names that others can replace, or the words if there are none."""
        return self.names or self.words

    def summary(self):
        """How many of the texts gave names and words, as a line."""
        empty = self.num_texts - len(set(self.origins))
        useful = {self.origins[each.text] for each in (*self.names, *self.words)}
        return (
            f"{len(self.names):,} names and {len(self.words):,} words of {len(useful):,} of "
            f"{self.num_texts:,} texts" + (f", {empty:,} of them empty" if empty else "")
        )

    def without(self, subject, text):
        if subject.pronoun is None:
            return without_word(text, subject.pattern)
        return without_name(text, subject.pattern, subject.pronoun, self.language)

    def names_of(self, subject, rng, count, taken=()):
        """The names, or words, of the copies; the first is that of the text, and the others are
        none of the words in lower case that are taken, as long as there are such."""
        others = self._others(subject)
        drawn = [others[i] for i in rng.permutation(len(others))]
        drawn.sort(key=lambda name: name.lower() in taken)
        return [subject.word, *drawn[: count - 1]]

    def _others(self, subject):
        """What can take the place of a name or word: copies with the same tokens would be one."""
        if subject.pronoun is not None:
            pool = self.pool[subject.pronoun]
        else:
            pool = sorted({each.word for each in self.words if each.text != subject.text})
        number_here = self._numbers[subject.word]
        names = {self._numbers[name]: name for name in reversed(pool)}
        return sorted(name for number, name in names.items() if number != number_here)


def holds(text, subjects):
    """Whether the name or word of a subject is in a text."""
    return any(subject.pattern.search(text) for subject in subjects)


def _pieces(counts):
    """Slices of the sentences of a text, of about equal numbers of tokens."""
    ends = np.cumsum(counts)
    number = max(1, round(ends[-1] / PIECE)) if counts else 1
    places = [int(np.searchsorted(ends, ends[-1] * i / number)) for i in range(1, number)]
    return [slice(a, b) for a, b in zip([0, *places], [*places, len(counts)], strict=True) if a < b]


def _exchangeable(words):
    """The subjects for whose word another text has another, which takes its place in copies."""
    texts_of = collections.defaultdict(set)
    for each in words:
        texts_of[each.word].add(each.text)
    here = collections.Counter(min(texts) for texts in texts_of.values() if len(texts) == 1)
    return [
        each for each in words
        if len(texts_of) - here[each.text] > (len(texts_of[each.word]) > 1)
    ]  # fmt: skip
