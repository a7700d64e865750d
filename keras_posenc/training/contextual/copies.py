"""Counterfactual copies of a text: they differ in two names, far before the passages."""

import dataclasses

import numpy as np

from keras_posenc.training.contextual.corpus import Subject, holds
from keras_posenc.training.contextual.names import capital
from keras_posenc.training.contextual.sentences import WORD

COPIES, PASSAGES = 4, 12
PASSAGE = 40  # tokens of a passage
TRIES = 8  # texts that fill one gap, at most
# Fractions of the copies: two texts in place of one, passages that stand apart in other text.
PAIRED, SCATTERED = 0.85, 0.35
# Lengths of copies as fractions of the longest, and how often each is drawn. Short ones cost less,
# and their positions are as far apart as those of long ones, because ids are skipped.
LENGTHS, DRAWN = (1 / 3, 2 / 3, 1), (0.5, 0.35, 0.15)
LEAST = 250  # tokens of a copy, unless the longest has fewer
BODY = 0.65  # of a copy's tokens, at most, are passages and what stands between them


@dataclasses.dataclass
class Copies:
    """What one training step reads."""

    # A list of sentences for each of `COPIES` copies, which differ in two names or words; there are
    # fewer if the corpus has not so many words.
    texts: list
    passages: list  # at most `PASSAGES` indices of sentences that are learned, without the name
    named: list  # lists of str, the same passages with the name, for the teacher
    subjects: list  # the one or two `Subject` whose names differ
    # For each passage the index of the sentence that introduces its name; None for a word.
    introductions: list


@dataclasses.dataclass(frozen=True)
class Part:
    """Sentences of a copy: what it reads, what the teacher reads in their place if they are a
    passage, their subject if the `pattern` in `text` or `named` is to be exchanged for its name,
    and their tokens."""

    text: str
    tokens: int
    subject: Subject | None = None
    pattern: object = None
    named: str | None = None


def draw(corpus, rng):
    """Draws the counterfactual copies of a text, or of two texts that are woven together.

    The names are introduced one after the other, other sentences follow, and then the passages, in
    which pronouns stand for the names, or the words are missing.
    """
    of_names = rng.random() < corpus.fraction if corpus.words else True
    subjects = (corpus.names if of_names else corpus.words) or corpus.words
    pair = draw_pair(corpus, subjects, rng)
    fillers = Fillers(corpus, pair, rng)
    size = max(int(rng.choice(LENGTHS, p=DRAWN) * corpus.size) - 2, min(corpus.size, LEAST))
    opened, bodies = [], []
    for subject in pair:
        usable = subject.usable
        number = usable[int(rng.integers(len(usable))) if rng.random() < 0.5 else 0]
        place = subject.introductions[number]
        sentence = corpus.sentences[subject.text][place]
        tokens = corpus.counts[subject.text][place]
        opened.append(Part(sentence, tokens, subject, subject.pattern))
        most = PASSAGES // len(pair)
        bodies.append(passages_of(corpus, subject, pair, place, most, rng))
        bodies[-1] += lent_passages(corpus, subject, pair, most - len(bodies[-1]), rng)
    body = _woven(bodies, fillers, BODY * size, rng)
    gap = int(rng.integers(0, max(1, size + 1 - sum(part.tokens for part in (*opened, *body)))))
    places = np.sort(rng.integers(0, gap + 1, len(opened)))
    if rng.random() < corpus.opening:
        places[0] = 0
    parts, before = [], 0
    for part, place in zip(opened, places, strict=True):
        parts += [*fillers.take(int(place) - before), part]
        before = int(place)
    parts += [*fillers.take(gap - before), *body]
    return _copies(corpus, pair, parts, rng)


def draw_pair(corpus, subjects, rng):
    """A list of a subject and, mostly, one of another text, which has another pronoun.

    Each is left with the sentences that do not hold the name of the other.
    """
    subject = _choose(subjects, rng)
    others = [
        each for each in subjects
        if each.text != subject.text and each.word.lower() != subject.word.lower()
        and (each.pronoun is None or each.pronoun != subject.pronoun)
    ]  # fmt: skip
    if rng.random() < PAIRED and others:
        other = _choose(others, rng)
        pair = [corpus.apart(subject, other), corpus.apart(other, subject)]
        if all(pair):
            return pair
    return [subject]


def passages_of(corpus, subject, pair, introduction, most, rng):
    """At most so many passages of a subject behind an introduction, as lists of `Part`."""
    sentences, counts = corpus.sentences[subject.text], corpus.counts[subject.text]
    others = [each for each in pair if each is not subject]
    starts = [place for place in subject.starts if place > introduction]
    first = rng.integers(max(1, len(starts) - most + 1))
    found, end = [], introduction + 1
    for start in starts[first:]:
        if start < end or len(found) == most:
            continue
        before = [
            Part(corpus.without(subject, sentences[i]), counts[i])
            for i in range(max(end, start - int(rng.integers(0, 2))), start)
            if not holds(sentences[i], others)
        ]
        longest, end, tokens = int(rng.integers(1, PASSAGE)), start + 1, counts[start]
        while end < len(counts) and tokens + counts[end] <= longest:
            if holds(sentences[end], others):
                break
            tokens, end = tokens + counts[end], end + 1
        passage = " ".join(sentences[start:end])
        text = corpus.without(subject, passage)
        found.append([*before, Part(text, tokens, subject, subject.pattern, passage)])
    return found


def lent_passages(corpus, subject, pair, most, rng):
    """So many passages of names with the same pronoun in other texts, which are now of this
    subject, as lists of a `Part`."""
    taken = {each.text for each in pair}
    others = [
        each for each in corpus.names
        if subject.pronoun and each.pronoun == subject.pronoun and each.text not in taken
    ]  # fmt: skip
    found = []
    for _ in range(most if others else 0):
        other = _choose(others, rng)
        place = other.starts[rng.integers(len(other.starts))]
        passage = corpus.sentences[other.text][place]
        if not holds(passage, pair):
            tokens, text = corpus.counts[other.text][place], corpus.without(other, passage)
            found.append([Part(text, tokens, subject, other.pattern, passage)])
    return found


def _woven(bodies, fillers, room, rng):
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


def _copies(corpus, pair, parts, rng):
    words = {word.lower() for part in parts for word in WORD.findall(part.named or part.text)}
    names = {}
    for subject in pair:
        names[subject] = corpus.names_of(subject, rng, COPIES, words)
        words.update(name.lower() for name in names[subject])
    passages = [number for number, part in enumerate(parts) if part.named is not None]
    texts, named = [], []
    for copy in range(min(map(len, names.values()))):

        def exchanged(part, text, copy=copy):
            name = names[part.subject][copy]
            return part.pattern.sub(lambda match: in_place(match, name), text)

        texts.append([
            exchanged(part, part.text) if part.subject and part.named is None else part.text
            for part in parts
        ])  # fmt: skip
        named.append([exchanged(parts[number], parts[number].named) for number in passages])
    introduced = {
        part.subject: number for number, part in enumerate(parts)
        if part.named is None and part.subject and part.subject.pronoun is not None
    }  # fmt: skip
    introductions = [introduced.get(parts[number].subject) for number in passages]
    return Copies(texts, passages, named, pair, introductions)


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
                if not holds(sentences[place], self.pair):
                    parts.append(Part(sentences[place], counts[place]))
                    tokens -= counts[place]
        return parts


def _choose(subjects, rng):
    """A subject of a random text: one with many names is not chosen more often."""
    texts = sorted({subject.text for subject in subjects})
    text = texts[rng.integers(len(texts))]
    some = [subject for subject in subjects if subject.text == text]
    return some[rng.integers(len(some))]


def in_place(match, name):
    """The name of a copy in place of a match, with its article and its possessive ending."""
    found = match.groupdict()
    name = capital(name) if match[0][:1].isupper() else name
    return (found.get("article") or "") + name + (found.get("ending") or "")
