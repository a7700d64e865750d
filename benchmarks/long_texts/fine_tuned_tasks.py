"""The tasks of fine_tuned.py: what each training reads, what its model then tells."""

import functools

import numpy as np

from benchmarks.long_texts import rivals
from benchmarks.long_texts.reading_tasks import (
    BAYES,
    BAYES_AROUND,
    BAYES_LINE,
    CHUNKS,
    FRIENDS,
    LENGTH,
    MAX,
    MEAN,
    SHORT,
    TFIDF,
    TFIDF_AROUND,
    TFIDF_LINE,
    WHOLE,
    digest_texts,
    digests_to_train_on,
    drawn_episodes,
    named_episodes,
    speakers_of_friends,
    speaking_episodes,
)
from benchmarks.long_texts.readings import scored
from keras_posenc.text import Texts
from keras_posenc.training import load_finetuned, predict

FIRST_CHUNK = "512-token chunks, the model of the first 512"
OTHERS = "O"  # whoever else says a line


class WholeTexts:
    """Texts with a label each: what each training reads, and what its model then tells.

    Args:
        readings: `Readings`.
        train, test: `Texts`.
        stages: dict way -> lengths and epochs of its training.
        token_budget: int. Of a batch.
    """

    # Way -> the training whose model tells, and how it reads.
    ways = {
        SHORT: (SHORT, {}),
        FIRST_CHUNK: (SHORT, {"chunks": 512}),
        MEAN: (MEAN, {"chunks": 512}),
        MAX: (MEAN, {"chunks": 512, "pool": "max"}),
        WHOLE: (WHOLE, {}),
    }

    def __init__(self, readings, train, test, stages, token_budget):
        self.train, self.test, self.stages = train, test, stages
        self.data = {SHORT: train, MEAN: chunked(train, readings), WHOLE: train}
        self.settings = {"token_budget": token_budget}

    def correct(self, way, folder):
        predicted = predict(folder, self.test.texts, **self.ways[way][1])
        return self._right([prediction.label for prediction in predicted])

    def counted(self):
        """The scores of the rivals that count words."""
        for way, rival in {BAYES: rivals.BAYES, TFIDF: rivals.TFIDF}.items():
            model = rivals.fitted(rival, self.train.texts, self.train.labels, 5)
            yield way, self._right(model.predict(self.test.texts))

    def _right(self, predicted):
        return [int(a == b) for a, b in zip(predicted, self.test.labels, strict=True)]


class Lines:
    """The lines of episodes, each with its speaker: the tag of each of its words.

    A line is told by the mean of what is said of its words, as the most frequent friend if a
    reading does not hold it.

    Args:
        readings: `Readings`.
        seed: int. Of the episodes to train on.
        stages, token_budget: as of `WholeTexts`.
        count, test_count: ints. Episodes, and how many of them to test on.
    """

    ways = {SHORT: (SHORT, {}), CHUNKS: (CHUNKS, {}), WHOLE: (WHOLE, {})}

    def __init__(self, readings, seed, stages, token_budget, count=160, test_count=40):
        self.seed, self.stages = seed, stages
        self.settings = {"token_budget": token_budget, "task": "tag"}
        self.counting = functools.partial(speakers_of_friends, readings, count, test_count)
        self.tokenizer, self.room = readings.tokenizer, readings.room(512)
        # Episode -> its lines: the words, and who says them.
        episodes = [
            [
                (self.tokenizer.decode(ids).split(), name if name in FRIENDS else OTHERS)
                for name, ids in zip(names, lines, strict=True)
            ]
            for _, names, lines in speaking_episodes(readings, count)
        ]
        self.test = episodes[:test_count]
        train = [episodes[i] for i in drawn_episodes(count, test_count, seed)]
        predicted = [name for lines in train for _, name in lines if name != OTHERS]
        self.most = max(FRIENDS, key=predicted.count)
        self.data = {
            way: _texts([part for lines in train for part in self.parts(way, lines)])
            for way in self.ways
        }

    def parts(self, way, lines):
        """What is read of an episode at once: rows (words, tags)."""
        ends = [len(lines)] if way == WHOLE else self._ends(lines)
        ends = ends[:1] if way == SHORT else ends
        parts = [lines[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        return [
            (sum([words for words, _ in part], []), [tag for words, tag in part for _ in words])
            for part in parts
        ]

    def _ends(self, lines):
        """Where chunks of whole lines end."""
        sizes = [len(ids) for ids in self.tokenizer.contents([" ".join(w) for w, _ in lines])]
        ends, start = [], 0
        while start < len(sizes):
            start += max(1, int((np.cumsum(sizes[start:]) <= self.room).sum()))
            ends.append(start)
        return ends

    def correct(self, way, folder):
        model = load_finetuned(folder)
        columns = [model.label_names.index(name) for name in FRIENDS]
        parts = [self.parts(way, lines) for lines in self.test]
        found = iter(model.judged([words for rows in parts for words, _ in rows], verbose=0)[0])
        scores = []
        for lines, rows in zip(self.test, parts, strict=True):
            logits = np.concatenate([next(found).logits for _ in rows])[:, columns]
            ends = np.cumsum([len(words) for words, _ in lines])
            predicted = [self._predicted(x) for x in np.split(logits, ends[:-1])]
            # As in readings.py, lines of a friend that have words.
            right = [
                correct == name
                for correct, (words, name) in zip(predicted, lines, strict=True)
                if name != OTHERS and words
            ]
            scores.append(round(float(np.mean(right)), 4))
        return scores

    def _predicted(self, logits):
        """Of the words of a line."""
        known = logits[~np.isnan(logits).any(axis=1)]
        return FRIENDS[known.mean(0).argmax()] if len(known) else self.most

    def counted(self):
        task = self.counting()
        for way in (BAYES_LINE, TFIDF_LINE, BAYES_AROUND, TFIDF_AROUND):
            yield way, scored(task, task.ways[way], self.seed)


def _texts(rows):
    """`Texts` of rows (text, label)."""
    return Texts(*map(list, zip(*rows, strict=True)), list(range(1, len(rows) + 1)))


def chunked(texts, readings):
    """Each chunk as a text of its own, with the label of the whole."""
    tokenizer, room = readings.tokenizer, readings.room(512)
    found = [
        (tokenizer.decode(ids[i : i + room]), label)
        for ids, label in zip(tokenizer.contents(texts.texts), texts.labels, strict=True)
        for i in range(0, len(ids), room)
    ]
    return _texts(found)


def digests(readings, seed, count=320, test_count=200):
    """250 updates of digests, 278 to 280 of their chunks."""
    train = digests_to_train_on(count, seed)
    stages = {SHORT: [(512, 5)], MEAN: [(512, 2)], WHOLE: [(512, 1), (LENGTH, 1)]}
    return WholeTexts(readings, train, digest_texts("test", test_count), stages, LENGTH)


def seasons(readings, seed, each=9, test_each=8):
    """180 updates; of chunks 180 to 186."""
    by_season = {}
    for season, _, lines in named_episodes(readings):
        by_season.setdefault(season, []).append(readings.tokenizer.decode(sum(lines, [])))
    parts, rng = ([], []), np.random.default_rng(seed)
    for season, texts in by_season.items():
        order = np.random.default_rng(0).permutation(len(texts))
        test, rest = order[:test_each], rng.permutation(order[test_each:])
        for part, drawn in zip(parts, (rest[:each], test), strict=True):
            part += [(texts[i], season) for i in drawn]
    stages = {SHORT: [(512, 4)], MEAN: [(512, 1)], WHOLE: [(512, 2), (LENGTH, 1)]}
    return WholeTexts(readings, *map(_texts, parts), stages, LENGTH // 2)


def speakers(readings, seed):
    """180 updates; of chunks 180 to 200."""
    stages = {SHORT: [(512, 4)], CHUNKS: [(512, 1)], WHOLE: [(512, 2), (LENGTH, 1)]}
    return Lines(readings, seed, stages, LENGTH // 2)


TASKS = {"digests": digests, "seasons": seasons, "speakers": speakers}
