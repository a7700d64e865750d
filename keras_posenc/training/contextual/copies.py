"""Counterfactual copies of a text: they differ in two names, far before the passages."""

import collections
import dataclasses

import numpy as np

from keras_posenc.text.same_texts import text_numbers
from keras_posenc.training.contextual.names import name_pattern, names_in, without_name
from keras_posenc.training.contextual.sentences import sentences_of
from keras_posenc.training.contextual.words import without_word, word_pattern, words_in

COPIES, PASSAGES = 4, 12
# Tokens of a sentence that introduces a name or begins a passage, and of a passage.
INTRODUCTION, SENTENCE, PASSAGE = 64, 32, 40
TRIES = 8  # texts that fill one gap, at most
PIECE = 2000  # tokens after which a long text is cut, so that its parts are compared
# Fractions of the copies: two texts in place of one, passages that stand apart in other text.
PAIRED, SCATTERED = 0.85, 0.35
# Lengths of copies as fractions of the longest, and how often each is drawn. Short ones cost less,
# and their positions are as far apart as those of long ones, because ids are skipped.
LENGTHS, DRAWN = (1 / 3, 2 / 3, 1), (0.5, 0.35, 0.15)
LEAST = 250  # tokens of a copy, unless the longest has fewer
BODY = 0.65  # of a copy's tokens, at most, are passages and what stands between them


@dataclasses.dataclass
class Copies:
    """What one training step reads.

    Attributes:
        texts: list of lists of sentences (str), one per copy. They differ in two names or words.
            There are `COPIES` of them, or fewer if the corpus has not so many words.
        passages: list of at most `PASSAGES` indices of sentences that are learned, without the
            name.
        named: list of lists of str, the same passages with the name, for the teacher.
    """

    texts: list
    passages: list
    named: list


@dataclasses.dataclass(frozen=True)
class Subject:
    """A name or word that later sentences of a text can do without.

    Attributes:
        text: int, the index of the text.
        word: str.
        pattern: compiled regular expression.
        introductions, starts: tuples of the indices of sentences with it: those that can introduce
            it, and those that a passage can begin with.
        pronoun: `Pronoun` that stands for a name, or None for a word, which is left out.
    """

    text: int
    word: str
    pattern: object
    introductions: tuple
    starts: tuple
    pronoun: object


@dataclasses.dataclass(frozen=True)
class _Part:
    """Sentences of a copy: what it reads, what the teacher reads in their place if they are a
    passage, their subject if the `pattern` in `text` or `named` is to be exchanged for its name,
    and their tokens."""

    text: str
    tokens: int
    subject: Subject | None = None
    pattern: object = None
    named: str | None = None


class Corpus:
    """Texts, and the names and words in them from which counterfactual copies are made.

    Args:
        texts: list of str.
        tokenizer: `Tokenizer`.
        language: `Language`, or None if no pronouns are known.
        size: int. Tokens of a copy, without special tokens.
        names: float in [0, 1]. Fraction of the copies that differ in names, the others in words.
        opening: float in [0, 1]. Fraction of the copies that have one in their first sentence.
    """

    def __init__(self, texts, tokenizer, language, size, names, opening):
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
        self.names, self.pool = [], {}
        if language is not None:
            self.pool = {pronoun: set(pronoun.names.split()) for pronoun in language.pronouns}
            for number, names in enumerate(names_in(self.sentences, language)):
                for name, pronoun in names.items():
                    pattern = name_pattern(name, language)
                    if subject := self._subject(number, name, pattern, pronoun):
                        self.names.append(subject)
                        self.pool[pronoun].add(name)
        self.pool = {pronoun: sorted(names) for pronoun, names in self.pool.items()}
        known = sorted({each.word for each in self.words}.union(*self.pool.values()))
        numbers = text_numbers([_capital(name) for name in known], tokenizer)
        self._numbers = dict(zip(known, numbers.tolist(), strict=True))
        self.names = [each for each in self.names if self._others(each)]
        self.words = [each for each in self.words if self._others(each)]

    def _subject(self, number, word, pattern, pronoun):
        """The `Subject`, or None if the text has too few sentences with it."""
        sentences, counts = self.sentences[number], self.counts[number]
        places = [i for i, sentence in enumerate(sentences) if pattern.search(sentence)]
        introductions = tuple(i for i in places if counts[i] <= INTRODUCTION)
        starts = tuple(i for i in places if 4 <= counts[i] <= SENTENCE)
        if not introductions or sum(start > introductions[0] for start in starts) < 2:
            return None
        return Subject(number, word, pattern, introductions, starts, pronoun)

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

    def draw(self, rng):
        """Draws the counterfactual copies of a text, or of two texts that are woven together.

        The names are introduced one after the other, other sentences follow, and then the passages,
        in which pronouns stand for the names, or the words are missing.

        Args:
            rng: NumPy generator.

        Returns:
            `Copies`.
        """
        of_names = rng.random() < self.fraction if self.words else True
        subjects = (self.names if of_names else self.words) or self.words
        subject = _choose(subjects, rng)
        others = [
            each
            for each in subjects
            if each.text != subject.text
            and (each.pronoun is None or each.pronoun != subject.pronoun)
        ]
        paired = rng.random() < PAIRED and others
        pair = [subject, _choose(others, rng)] if paired else [subject]
        fillers = Fillers(self, pair, rng)
        fraction = rng.choice(LENGTHS, p=DRAWN)
        size = max(int(fraction * self.size) - 2, min(self.size, LEAST))
        opened, bodies = [], []
        for subject in pair:
            introduction = subject.introductions[self._introduction(subject, rng)]
            opened.append(self._part(subject, introduction))
            most = PASSAGES // len(pair)
            bodies.append(self._body(subject, introduction, most, rng))
            bodies[-1] += self._lent(subject, pair, most - len(bodies[-1]), rng)
        body = self._woven(bodies, fillers, BODY * size, rng)
        room = size - sum(part.tokens for part in (*opened, *body))
        gap = int(rng.integers(0, max(1, room + 1)))
        places = np.sort(rng.integers(0, gap + 1, len(opened)))
        if rng.random() < self.opening:
            places[0] = 0
        parts, before = [], 0
        for part, place in zip(opened, places, strict=True):
            parts += [*fillers.take(int(place) - before), part]
            before = int(place)
        parts += [*fillers.take(gap - before), *body]
        return self._copies(pair, parts, rng)

    def _introduction(self, subject, rng):
        """The number of an introduction that has passages behind it: the first one, or any."""
        usable = [
            number for number, place in enumerate(subject.introductions)
            if sum(start > place for start in subject.starts) >= 2
        ]  # fmt: skip
        return usable[int(rng.integers(len(usable))) if rng.random() < 0.5 else 0]

    def _part(self, subject, place):
        sentence, tokens = self.sentences[subject.text][place], self.counts[subject.text][place]
        return _Part(sentence, tokens, subject, subject.pattern)

    def _body(self, subject, introduction, most, rng):
        """At most so many passages of a subject, lists of parts, often with the sentence before."""
        sentences, counts = self.sentences[subject.text], self.counts[subject.text]
        starts = [place for place in subject.starts if place > introduction]
        first = rng.integers(max(1, len(starts) - most + 1))
        found, end = [], introduction + 1
        for start in starts[first:]:
            if start < end or len(found) == most:
                continue
            before = range(max(end, start - int(rng.integers(0, 2))), start)
            longest, end, tokens = int(rng.integers(1, PASSAGE)), start + 1, counts[start]
            while end < len(counts) and tokens + counts[end] <= longest:
                tokens, end = tokens + counts[end], end + 1
            passage = " ".join(sentences[start:end])
            found.append([
                *(_Part(self.without(subject, sentences[i]), counts[i]) for i in before),
                _Part(self.without(subject, passage), tokens, subject, subject.pattern, passage),
            ])  # fmt: skip
        return found

    def _lent(self, subject, pair, most, rng):
        """So many passages of names with the same pronoun in other texts, which are now of this
        subject, as lists of a part."""
        taken = {each.text for each in pair}
        others = [
            each for each in self.names
            if subject.pronoun and each.pronoun == subject.pronoun and each.text not in taken
        ]  # fmt: skip
        found = []
        for _ in range(most if others else 0):
            other = _choose(others, rng)
            place = other.starts[rng.integers(len(other.starts))]
            passage = self.sentences[other.text][place]
            if not any(each.pattern.search(passage) for each in pair):
                tokens, text = self.counts[other.text][place], self.without(other, passage)
                found.append([_Part(text, tokens, subject, other.pattern, passage)])
        return found

    def _woven(self, bodies, fillers, room, rng):
        """The passages of all subjects in the order of each, as many as have room."""
        queue = [number for number, body in enumerate(bodies) for _ in body]
        parts, scattered = [], rng.random() < SCATTERED
        for number in rng.permutation(queue):
            some = bodies[number].pop(0)
            if scattered:
                some = [*fillers.take(int(rng.integers(0, 80))), *some]
            tokens = sum(part.tokens for part in some)
            if tokens > room and parts:
                break
            parts, room = [*parts, *some], room - tokens
        return parts

    def without(self, subject, text):
        if subject.pronoun is None:
            return without_word(text, subject.pattern)
        return without_name(text, subject.pattern, subject.pronoun, self.language)

    def _copies(self, pair, parts, rng):
        names = {id(subject): self.names_of(subject, rng, COPIES) for subject in pair}
        passages = [number for number, part in enumerate(parts) if part.named is not None]
        texts, named = [], []
        for copy in range(min(map(len, names.values()))):

            def exchanged(part, text, copy=copy):
                name = names[id(part.subject)][copy]
                return part.pattern.sub(lambda match: in_place(match, name), text)

            texts.append([
                exchanged(part, part.text) if part.subject and part.named is None else part.text
                for part in parts
            ])  # fmt: skip
            named.append([exchanged(parts[number], parts[number].named) for number in passages])
        return Copies(texts, passages, named)

    def names_of(self, subject, rng, count):
        """The names, or words, of the copies; the first is that of the text."""
        others = self._others(subject)
        return [subject.word, *(others[i] for i in rng.permutation(len(others))[: count - 1])]

    def _others(self, subject):
        """What can take the place of a name or word: copies with the same tokens would be one."""
        if subject.pronoun is not None:
            pool = self.pool[subject.pronoun]
        else:
            pool = sorted({each.word for each in self.words if each.text != subject.text})
        number_here = self._numbers[subject.word]
        names = {self._numbers[name]: name for name in reversed(pool)}
        return sorted(name for number, name in names.items() if number != number_here)


class Fillers:
    """Consecutive sentences of texts that have nothing to do with the subjects of a copy."""

    def __init__(self, corpus, pair, rng):
        taken = {subject.text for subject in pair}
        self.corpus, self.pair, self.rng = corpus, pair, rng
        self.texts = [n for n, some in enumerate(corpus.sentences) if some and n not in taken]

    def take(self, tokens):
        """Parts of at most so many tokens, from a new place each time."""
        parts = []
        for _ in range(TRIES if self.texts else 0):
            text = self.texts[self.rng.integers(len(self.texts))]
            sentences, counts = self.corpus.sentences[text], self.corpus.counts[text]
            for place in range(int(self.rng.integers(len(sentences))), len(sentences)):
                if counts[place] > tokens:
                    return parts
                if not any(subject.pattern.search(sentences[place]) for subject in self.pair):
                    parts.append(_Part(sentences[place], counts[place]))
                    tokens -= counts[place]
        return parts


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


def _choose(subjects, rng):
    """A subject of a random text: one with many names is not chosen more often."""
    texts = sorted({subject.text for subject in subjects})
    text = texts[rng.integers(len(texts))]
    some = [subject for subject in subjects if subject.text == text]
    return some[rng.integers(len(some))]


def in_place(match, name):
    """The name of a copy in place of a match, with the possessive ending of the match."""
    ending = match[1] if match.re.groups and match[1] else ""
    return (_capital(name) if match[0][:1].isupper() else name) + ending


def _capital(name):
    return name[:1].upper() + name[1:]
