"""The tasks of readings.py: what is to be told, by which part, from which reading."""

import dataclasses
import functools

import numpy as np
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedKFold

from benchmarks.long_texts import rivals
from benchmarks.long_texts.features import CHUNK, FrozenEncoder
from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc.tasks.long_texts import digests
from keras_posenc.text import Texts, Tokenizer, read_texts
from keras_posenc.training import stretch

LENGTH = 2048
STRETCH = {"length": 8192, "local": 256, "global_every": 3, "steps": 24, "seed": 0}
GROUPS = ("comp.graphics", "rec.sport.hockey", "sci.med", "sci.space", "talk.politics.mideast")
FRIENDS = ("Chandler", "Joey", "Monica", "Phoebe", "Rachel", "Ross")
MOST_WORDS = 200  # of a post in a digest
AROUND = 5  # lines to each side
SHORT, WHOLE = "first 512 tokens", "stretched, one pass"
MEAN, MAX = "512-token chunks, mean", "512-token chunks, highest"
AVERAGED, CHUNKS = "512-token chunks, features averaged", "512-token chunks"
# The last chunk of a text is short: here each token counts alike, as in one pass.
MEAN_BY_TOKEN = "512-token chunks, mean by token"
BY_TOKEN = "512-token chunks, features averaged by token"
BAYES, TFIDF = "naive Bayes, all words", "TF-IDF + logistic regression, all words"
BAYES_512, TFIDF_512 = (way.replace("all words", SHORT) for way in (BAYES, TFIDF))
BAYES_LINE, TFIDF_LINE = (way.replace("all words", "the line's words") for way in (BAYES, TFIDF))
BAYES_AROUND, TFIDF_AROUND = (
    way.replace("all words", f"words of {2 * AROUND + 1} lines") for way in (BAYES, TFIDF)
)


@dataclasses.dataclass
class Task:
    """Items to tell, each of a unit that is in one part only, and how to tell them.

    Args:
        labels: list of the items' labels.
        units: list of the items' units: texts or episodes.
        parts: function seed -> list of (indices to train on, indices to test on).
        ways: dict name of a way -> function (train, test, validation) -> labels, where validation
            is what `GridSearchCV` takes.
        validations: int. Splits of the part to train on, by unit, to choose settings by.
    """

    labels: list
    units: list
    parts: callable
    ways: dict
    validations: int = 5

    def validation(self, train, seed):
        """Splits within the part to train on."""
        units = [self.units[i] for i in train]
        splits = (
            GroupShuffleSplit(1, test_size=0.25, random_state=seed)
            if self.validations == 1
            else GroupKFold(self.validations, shuffle=True, random_state=seed)
        )
        return list(splits.split(units, groups=units))


class Readings:
    """Both encoders, and the ways of telling that rest on them.

    Args:
        folder: directory of the stretched checkpoint and of the features.
    """

    def __init__(self, folder):
        self.folder, self.tokenizer = folder, Tokenizer(MINILM)
        self.short = FrozenEncoder(MINILM, folder / "features")

    @functools.cached_property
    def long(self):
        path = self.folder / "stretched"
        tales = f"{CORPORA}/grimm-tales-selected.tab"
        stretch(MINILM, f"{CORPORA}/book-excerpts.tab", path, test=tales, **STRETCH)
        return FrozenEncoder(path, self.folder / "features")

    def room(self, length):
        return length - self.tokenizer.special_tokens()

    def of_texts(self, ids, labels):
        """The ways of telling the label of a whole text, by its token ids."""
        words = [self.tokenizer.decode(row) for row in ids]
        first = [self.tokenizer.decode(row[: self.room(CHUNK)]) for row in ids]
        chunks = functools.cache(lambda i: self.short.chunks(ids[i]))
        passes = functools.cache(lambda i: self.long.one_pass(ids[i]))

        def sizes(i):
            return [len(part) for _, part in self.short.parts(ids[i])]

        def by_token(i):
            return np.average(chunks(i), axis=0, weights=sizes(i))

        def by_chunk(pool):
            def tell(train, test, validation):
                names = [labels[i] for i in train]
                heads = [chunks(i)[0] for i in train]
                model = rivals.fitted(rivals.FEATURES, heads, names, validation)
                found = [pool(model.predict_proba(chunks(i)), sizes(i)).argmax() for i in test]
                return model.classes_[found]

            return tell

        return {
            SHORT: _telling(rivals.FEATURES, lambda i: chunks(i)[0], labels),
            MEAN: by_chunk(lambda found, _: found.mean(0)),
            MEAN_BY_TOKEN: by_chunk(lambda found, n: np.average(found, axis=0, weights=n)),
            MAX: by_chunk(lambda found, _: found.max(0)),
            AVERAGED: _telling(rivals.FEATURES, lambda i: chunks(i).mean(0), labels),
            BY_TOKEN: _telling(rivals.FEATURES, by_token, labels),
            WHOLE: _telling(rivals.FEATURES, passes, labels),
            BAYES_512: _telling(rivals.BAYES, first.__getitem__, labels),
            BAYES: _telling(rivals.BAYES, words.__getitem__, labels),
            TFIDF_512: _telling(rivals.TFIDF, first.__getitem__, labels),
            TFIDF: _telling(rivals.TFIDF, words.__getitem__, labels),
        }

    def of_lines(self, texts, items, labels):
        """The ways of telling a line: items are (text, line), texts lists of the lines' ids."""
        ids = [sum(lines, []) for lines in texts]
        ends = [np.cumsum([len(line) for line in lines]) for lines in texts]
        spans = [
            [(int(end - len(line)), int(end)) for end, line in zip(line_ends, lines, strict=True)]
            for line_ends, lines in zip(ends, texts, strict=True)
        ]
        chunks = functools.cache(lambda t: self.short.lines_in_chunks(ids[t], spans[t]))
        passes = functools.cache(lambda t: self.long.lines(ids[t], spans[t]))
        words = [self.tokenizer.decode(texts[t][line]) for t, line in items]
        around = [
            self.tokenizer.decode(sum(texts[t][max(0, line - AROUND) : line + AROUND + 1], []))
            for t, line in items
        ]

        def in_chunks(i):
            return chunks(items[i][0])[items[i][1]]

        def first_only(train, test, validation):
            """Lines that the first chunk does not hold are told as the most frequent label."""
            read = [spans[t][line][1] <= self.room(CHUNK) for t, line in items]
            known = [n for n, i in enumerate(train) if read[i]]
            place = {n: k for k, n in enumerate(known)}
            inner = [
                [[place[n] for n in part if n in place] for part in split] for split in validation
            ]
            rows = [train[n] for n in known]
            seen = [i for i in test if read[i]]
            predicted = _telling(rivals.FEATURES, in_chunks, labels)(rows, seen, inner)
            values, counts = np.unique([labels[i] for i in train], return_counts=True)
            predicted, most = dict(zip(seen, predicted, strict=True)), values[counts.argmax()]
            return [predicted.get(i, most) for i in test]

        return {
            BAYES_LINE: _telling(rivals.BAYES, words.__getitem__, labels),
            TFIDF_LINE: _telling(rivals.TFIDF, words.__getitem__, labels),
            BAYES_AROUND: _telling(rivals.BAYES, around.__getitem__, labels),
            TFIDF_AROUND: _telling(rivals.TFIDF, around.__getitem__, labels),
            SHORT: first_only,
            CHUNKS: _telling(rivals.FEATURES, in_chunks, labels),
            WHOLE: _telling(rivals.FEATURES, lambda i: passes(items[i][0])[items[i][1]], labels),
        }


def _telling(rival, read, labels):
    def tell(train, test, validation):
        names = [labels[i] for i in train]
        model = rivals.fitted(rival, [read(i) for i in train], names, validation)
        return model.predict([read(i) for i in test])

    return tell


def posts_of(part):
    """The posts of `GROUPS` in a part of 20 Newsgroups, "train" or "test"."""
    posts = read_texts(f"{CORPORA}/20newsgroups-{part}.tab")
    kept = [i for i, group in enumerate(posts.labels) if group in GROUPS]
    return Texts(*([c[i] for i in kept] for c in (posts.texts, posts.labels, posts.lines)))


def digest_texts(part, count):
    """Digests of the posts of a part."""
    return digests(posts_of(part), count, most_words=MOST_WORDS)


def drawn_digests(count, seed):
    """Which of so many digests a seed trains on."""
    return np.random.default_rng(seed).permutation(count)[: 5 * count // 8].tolist()


def digests_to_train_on(count, seed):
    """The `Texts` of those."""
    made, drawn = digest_texts("train", count), drawn_digests(count, seed)
    columns = made.texts, made.labels, made.lines
    return Texts(*([column[i] for i in drawn] for column in columns))


def digests_of_posts(readings, count=320, test_count=200):
    made = [digest_texts("train", count), digest_texts("test", test_count)]
    texts, labels = made[0].texts + made[1].texts, made[0].labels + made[1].labels
    ids = [row[: readings.room(LENGTH)] for row in readings.tokenizer.contents(texts)]
    test = list(range(count, count + test_count))

    def parts(seed):
        return [(drawn_digests(count, seed), test)]

    return Task(labels, list(range(len(texts))), parts, readings.of_texts(ids, labels))


def lines_of_digests(readings, count=120, test_count=100):
    """Lines of ten words, and the group of the post that each is of."""
    texts, items, labels = [], [], []
    for part, made in (("train", count), ("test", test_count)):
        posts = posts_of(part)
        # Cut as in a digest, which parts its posts by an empty line.
        cut = (" ".join(text.split()[:MOST_WORDS]) for text in posts.texts)
        group_of = dict(zip(cut, posts.labels, strict=True))
        for digest in digest_texts(part, made).texts:
            lines, groups = [], []
            for post in digest.split("\n\n"):
                words = post.split()
                pieces = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
                lines += pieces
                groups += [group_of[post]] * len(pieces)
            ids = readings.tokenizer.contents(lines)
            fits = int((np.cumsum([len(line) for line in ids]) <= readings.room(LENGTH)).sum())
            known = [i for i in range(fits) if ids[i]]
            items += [(len(texts), i) for i in known]
            labels += [groups[i] for i in known]
            texts.append(ids[:fits])
    units = [number for number, _ in items]

    def parts(seed):
        both = set(drawn_digests(count, seed)), set(range(count, count + test_count))
        return [tuple([i for i, unit in enumerate(units) if unit in part] for part in both)]

    return Task(labels, units, parts, readings.of_lines(texts, items, labels), 1)


def seasons_of_friends(readings, each=12, folds=5):
    ids, labels = [], []
    for season, _, lines in named_episodes(readings):
        if labels.count(season) < each:
            ids.append(sum(lines, []))
            labels.append(season)

    def parts(seed):
        split = StratifiedKFold(folds, shuffle=True, random_state=seed).split(ids, labels)
        return [(train.tolist(), test.tolist()) for train, test in split]

    return Task(labels, list(range(len(ids))), parts, readings.of_texts(ids, labels), 3)


def speakers_of_friends(readings, count=160, test_count=40):
    items, labels = [], []
    episodes = speaking_episodes(readings, count)
    for number, (_, names, lines) in enumerate(episodes):
        known = [i for i, name in enumerate(names) if name in FRIENDS and lines[i]]
        items += [(number, i) for i in known]
        labels += [names[i] for i in known]
    units = [number for number, _ in items]

    def parts(seed):
        parts = set(drawn_episodes(count, test_count, seed)), set(range(test_count))
        return [tuple([i for i, unit in enumerate(units) if unit in part] for part in parts)]

    texts = [lines for _, _, lines in episodes]
    return Task(labels, units, parts, readings.of_lines(texts, items, labels), 1)


def speaking_episodes(readings, count):
    """So many episodes, the names before the lines removed; the first ones are to test on."""
    episodes = episodes_of_friends(readings, lambda name, line: f"- {line}")
    drawn = np.random.default_rng(0).permutation(len(episodes))[:count]
    return [episodes[i] for i in drawn]


def drawn_episodes(count, test_count, seed):
    """Which of the episodes that are not to test on a seed trains on."""
    rest = np.random.default_rng(seed).permutation(np.arange(test_count, count))
    return rest[: 3 * len(rest) // 4].tolist()


def named_episodes(readings):
    return episodes_of_friends(readings, lambda name, line: f"{name}: {line}")


def episodes_of_friends(readings, written):
    """Of each episode 2,048 tokens from a random line on: (season, names, token ids of lines)."""
    with open(f"{CORPORA}/friends-transcripts.tab", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][3:]
    episodes = {}
    for season, _, number, _, name, line in filter(lambda row: len(row) == 6, rows):
        episodes.setdefault((season, number), []).append((name, line.strip()))
    rng, room, found = np.random.default_rng(0), readings.room(LENGTH), []
    for (season, _), lines in sorted(episodes.items()):
        ids = readings.tokenizer.contents([written(*line) for line in lines])
        sizes = np.cumsum([0, *map(len, ids)])
        start = rng.integers(0, max(1, (sizes[-1] - sizes > room).sum()))
        end = int((sizes - sizes[start] <= room).sum()) - 1
        found.append((season, [name for name, _ in lines[start:end]], ids[start:end]))
    return found


TASKS = {
    "digests": digests_of_posts,
    "seasons": seasons_of_friends,
    "speakers": speakers_of_friends,
    "lines": lines_of_digests,
}
