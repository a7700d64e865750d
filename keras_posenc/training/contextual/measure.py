"""How many passages are found by a name that stands far before them, on texts that are held out."""

import dataclasses

import numpy as np

from keras_posenc.losses.similarity import TIE
from keras_posenc.metrics.scores import spearman
from keras_posenc.training.contextual.batches import padded, pooling_weights
from keras_posenc.training.contextual.copies import Fillers, in_place
from keras_posenc.training.contextual.corpus import SENTENCE
from keras_posenc.training.stretching.feature_losses import agreement
from keras_posenc.training.stretching.windows import first_token, one_segment

COPIES, SUBJECTS, PASSAGES = 4, 3, 3
BETWEEN = 40  # tokens between two passages
STEP = 256  # lengths of texts are multiples of it
SENTENCES = 120


@dataclasses.dataclass(frozen=True)
class Case:
    """A text in copies that differ in one name, which stands in the first sentence only."""

    tokens: int  # from the name to the first passage
    introductions: list  # the first sentence of each copy
    texts: list  # lists of sentences
    passages: list  # indices of sentences without the name
    named: list  # lists of str, the passages with the name, which are the queries


def cases(corpus, distances, seed, longest):
    """Makes the `Case`s of each distance, about so many tokens, from the `Corpus` of held-out
    texts.

    Names are preferred to words, and subjects of different texts to others. No case is longer than
    `longest` tokens, without special tokens.
    """
    subjects = corpus.subjects
    rng, found = np.random.default_rng((seed, 5)), []
    for distance in distances:
        order, texts = rng.permutation(len(subjects)), set()
        chosen = []
        for number in order:
            if subjects[number].text not in texts and len(chosen) < SUBJECTS:
                texts.add(subjects[number].text)
                chosen.append(subjects[number])
        found += [_case(corpus, subject, distance, rng, longest) for subject in chosen]
    return found


def _case(corpus, subject, distance, rng, longest):
    sentences, counts = corpus.sentences[subject.text], corpus.counts[subject.text]
    first = subject.introductions[0]
    starts = [start for start in subject.starts if start > first and counts[start] <= SENTENCE]
    starts = starts[:PASSAGES]
    fillers = Fillers(corpus, [subject], rng)
    before = fillers.take(distance - counts[first])
    parts, passages = [part.text for part in before], []
    room = longest - counts[first] - sum(part.tokens for part in before)
    for start in starts:
        between = fillers.take(min(BETWEEN, room - counts[start]))
        room -= counts[start] + sum(part.tokens for part in between)
        if room < 0:
            break
        parts += [part.text for part in between]
        passages.append(1 + len(parts))
        parts.append(corpus.without(subject, sentences[start]))
    starts = starts[: len(passages)]
    introductions, named = [], []
    for name in corpus.names_of(subject, rng, COPIES):

        def exchanged(text, name=name):
            return subject.pattern.sub(lambda match: in_place(match, name), text)

        introductions.append(exchanged(sentences[first]))
        named.append([exchanged(sentences[start]) for start in starts])
    texts = [[introduction, *parts] for introduction in introductions]
    tokens = counts[first] + sum(part.tokens for part in before)
    return Case(tokens, introductions, texts, passages, named)


class Measure:
    """Finds the passages of cases in windows, with the first sentence prepended, and by a student.

    The similarities of `sentences`, read alone, should stay. The teacher pools short texts by
    `pooling`; the student averages.
    """

    def __init__(self, cases, sentences, teacher, student, tokenizer, longest, pooling="mean"):
        self.pooling = pooling
        self.cases, self.sentences = cases, sentences[:SENTENCES]
        self.teacher, self.student, self.tokenizer = teacher, student, tokenizer
        self.before, self.longest = first_token(tokenizer), longest

    def windows(self):
        """How often each case's passages are found in windows: (cases,) fractions, and choices."""
        return self._found(self._in_context(self._teacher_features), self.teacher_vectors)

    def first_sentence(self):
        """The same with the first sentence of the text before each passage."""
        return self._found(self._prepended, self.teacher_vectors)

    def of_student(self):
        """The same by the student, which reads the whole text, and the queries."""
        return self._found(self._in_context(self._student_features), self.student_vectors)

    def kept(self):
        """(Spearman's rank correlation of the similarities of single sentences before and after,
        their mean cosine)."""
        one, other = (
            _unit(f(self.sentences)) for f in (self.teacher_vectors, self.student_vectors)
        )
        pairs = np.triu_indices(len(one), 1)
        products = [(vectors @ vectors.T)[pairs] for vectors in (one, other)]
        same = spearman(*products) if len(pairs[0]) > 1 else 1.0
        return round(same, 4), round(float(agreement(one, other).mean()), 4)

    def teacher_vectors(self, texts):
        """(N, D) vectors of short texts by the teacher."""
        return self._vectors(self.teacher.model, texts, self.pooling)

    def student_vectors(self, texts):
        """(N, D) means over the student's features of short texts."""
        return self._vectors(self.student, texts, "mean")

    def _found(self, passages, queries):
        fractions, choices = [], []
        for case in self.cases:
            vectors = _unit(passages(case))  # (C, P, D)
            asked = _unit(queries(sum(case.named, []))).reshape(vectors.shape)
            # (copy asked for, passage, copy)
            scores = np.einsum("cpd,kpd->cpk", asked, vectors)
            best = scores >= scores.max(axis=-1, keepdims=True) - TIE
            right = np.einsum("cpc->cp", best) / best.sum(axis=-1)
            fractions.append(float(right.mean()))
            choices.append(scores.argmax(axis=-1))
        return fractions, choices

    def _in_context(self, features):
        """A function of a case that gives the means over its passages in each whole copy."""

        def vectors(case):
            found = []
            for sentences in case.texts:
                pieces = [list(ids) for ids in self.tokenizer.contents(sentences)]
                ends = self.before + np.cumsum([len(piece) for piece in pieces])
                first = case.passages[0]
                read = features(np.concatenate(pieces).astype("int32"), ends[first - 1])
                spans = [slice(ends[i] - len(pieces[i]), ends[i]) for i in case.passages]
                found.append([read[span].mean(axis=0) for span in spans])
            return np.array(found)

        return vectors

    def _prepended(self, case):
        texts = [
            f"{introduction} {sentences[place]}"
            for introduction, sentences in zip(case.introductions, case.texts, strict=True)
            for place in case.passages
        ]
        found = self.teacher_vectors(texts)
        return found.reshape(len(case.texts), len(case.passages), -1)

    def _teacher_features(self, text, start):
        """Features in windows, of what stands in those of the passages, which begin at `start`."""
        skipped = max(0, start - self.before - self.teacher.hop)
        read = self.teacher(text[skipped:])
        return np.concatenate([np.zeros((skipped, read.shape[-1]), read.dtype), read])

    def _student_features(self, text, _):
        row = self.tokenizer.assemble(text.tolist())[0]
        length = min(self.longest, -(-len(row) // STEP) * STEP)
        return self._read(self.student, padded([row], length, self.tokenizer))[0]

    def _vectors(self, model, texts, pooling):
        size = self.teacher.size
        rows = [
            self.tokenizer.assemble(list(ids)[:size])[0] for ids in self.tokenizer.contents(texts)
        ]
        length = min(self.teacher.length, -(-max(map(len, rows)) // 64) * 64)
        ids = padded(rows, length, self.tokenizer)
        weights = pooling_weights(np.array([len(row) for row in rows]), length, pooling)
        return np.einsum("nl,nld->nd", weights, self._read(model, ids))

    def _read(self, model, ids):
        positions = np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1))
        return model.predict_on_batch(one_segment(model, ids, position_ids=positions))


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
