"""Long texts told by encoders that are fine-tuned, not frozen as in benchmarks/readings.py.

    KERAS_BACKEND=torch python benchmarks/fine_tuned.py digests     # forty minutes of a core a seed
    KERAS_BACKEND=torch python benchmarks/fine_tuned.py --table     # the results as tables

digests    those of benchmarks/readings.py: eight real posts, whose label is the group of most of
           them. The posts to test on are later than those to train on.
seasons    of 2,048 tokens of an episode of Friends, its season: eight episodes of each of ten
           to test on, nine others of each to train on. Twenty minutes of a core a seed.
speakers   the task and the episodes of benchmarks/readings.py: of each line of 2,048 tokens, which
           of the six friends says it. Fifteen minutes of a core a seed.

Three times MiniLM, with about as many updates each: one learns from the first 512 tokens of each
text; one from all of its chunks of 512, each with the label of the whole, or the lines that it
holds; one is stretched by the recipe, as in benchmarks/readings.py, and reads texts whole. Nothing
was tried on the test. Intervals are of 95%, paired by text or episode.

Results go to benchmarks/results/fine_tuned.json, a row for each task, way and seed; runs that were
interrupted go on in build/fine-tuned.
"""

import csv
import functools
import pathlib
import statistics
import time

import numpy as np
import rivals
from data import MINILM
from kept import options, read_rows, spread, versions, write_lines
from reading_tasks import (
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
    Readings,
    digest_texts,
    drawn_digests,
    drawn_episodes,
    named_episodes,
    speakers_of_friends,
    speaking_episodes,
)
from readings import scored

from keras_posenc.text import Texts
from keras_posenc.training import finetune, load_finetuned, predict

RESULTS = pathlib.Path(__file__).parent / "results" / "fine_tuned.json"
FIRST_CHUNK = "512-token chunks, the model of the first 512"
COMMON = {"learning_rate": 1e-4, "dropout_rate": 0.0, "attention_dropout_rate": 0.0}
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

    def told(self, way, folder):
        said = predict(folder, self.test.texts, **self.ways[way][1])
        return self._right([prediction.label for prediction in said])

    def counted(self):
        """The scores of the rivals that count words."""
        for way, rival in {BAYES: rivals.BAYES, TFIDF: rivals.TFIDF}.items():
            model = rivals.fitted(rival, self.train.texts, self.train.labels, 5)
            yield way, self._right(model.predict(self.test.texts))

    def _right(self, said):
        return [int(a == b) for a, b in zip(said, self.test.labels, strict=True)]


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
        self.rivals = functools.partial(speakers_of_friends, readings, count, test_count)
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
        said = [name for lines in train for _, name in lines if name != OTHERS]
        self.most = max(FRIENDS, key=said.count)
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

    def told(self, way, folder):
        model = load_finetuned(folder)
        columns = [model.labels.index(name) for name in FRIENDS]
        parts = [self.parts(way, lines) for lines in self.test]
        found = iter(model.judged([words for rows in parts for words, _ in rows], verbose=0)[0])
        scores = []
        for lines, rows in zip(self.test, parts, strict=True):
            logits = np.concatenate([next(found).logits for _ in rows])[:, columns]
            ends = np.cumsum([len(words) for words, _ in lines])
            said = [self._said(x) for x in np.split(logits, ends[:-1])]
            # As in benchmarks/readings.py, lines of a friend that have words.
            right = [
                told == name
                for told, (words, name) in zip(said, lines, strict=True)
                if name != OTHERS and words
            ]
            scores.append(round(float(np.mean(right)), 4))
        return scores

    def _said(self, logits):
        """Of the words of a line."""
        known = logits[~np.isnan(logits).any(axis=1)]
        return FRIENDS[known.mean(0).argmax()] if len(known) else self.most

    def counted(self):
        task = self.rivals()
        for way in (BAYES_LINE, TFIDF_LINE, BAYES_AROUND, TFIDF_AROUND):
            yield way, scored(task, task.ways[way], self.seed)


def _texts(rows):
    """`Texts` of rows (text, label)."""
    return Texts(*map(list, zip(*rows, strict=True)), list(range(1, len(rows) + 1)))


def digests(readings, seed, count=320, test_count=200):
    """250 updates of digests, 278 to 280 of their chunks."""
    made, own = digest_texts("train", count), drawn_digests(count, seed)
    train = Texts(*([column[i] for i in own] for column in (made.texts, made.labels, made.lines)))
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
        for part, own in zip(parts, (rest[:each], test), strict=True):
            part += [(texts[i], season) for i in own]
    stages = {SHORT: [(512, 4)], MEAN: [(512, 1)], WHOLE: [(512, 2), (LENGTH, 1)]}
    return WholeTexts(readings, *map(_texts, parts), stages, LENGTH // 2)


def speakers(readings, seed):
    """180 updates; of chunks 180 to 200."""
    stages = {SHORT: [(512, 4)], CHUNKS: [(512, 1)], WHOLE: [(512, 2), (LENGTH, 1)]}
    return Lines(readings, seed, stages, LENGTH // 2)


TASKS = {"digests": digests, "seasons": seasons, "speakers": speakers}


def main():
    parser = options(__doc__, RESULTS, "build/fine-tuned")
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--readings", default="build/readings", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = read_rows(arguments.results)
    for name in () if arguments.table else arguments.tasks or TASKS:
        for seed in arguments.seeds:
            if any((row["task"], row["seed"]) == (name, seed) for row in rows):
                continue
            readings = Readings(arguments.readings)
            task = TASKS[name](readings, seed)
            found = measured(task, seed, readings, arguments.folder / name / str(seed))
            rows += [{"task": name, **row} for row in found]
            write_lines(arguments.results, rows)
    for name in dict.fromkeys(row["task"] for row in rows):
        print(f"\n{name}\n\n{table(rows, name)}\n\n{verdict(rows, name)}")


def measured(task, seed, readings, folder):
    """The rows of a task and a seed: how each text or episode of the test is told."""
    rows, seconds, runs = [], {}, {way: folder / way.replace(" ", "-") for way in task.data}
    for way, texts in task.data.items():
        started, how = time.process_time(), {"lengths": task.stages[way], "seed": seed}
        checkpoint = readings.long.checkpoint if way == WHOLE else MINILM
        found = finetune(checkpoint, texts, runs[way], **how, **task.settings, **COMMON)
        print(f"{folder} {way}: {found['train']['steps']} updates", flush=True)
        seconds[way] = round(time.process_time() - started)
    for way, (training, _) in task.ways.items():
        scores = task.told(way, runs[training])
        print(f"{folder} {way}: {np.mean(scores):.1%}", flush=True)
        rows.append({**row(way, seed, scores), "train_seconds": seconds[training]})
        if way == WHOLE:
            (_, epochs), _ = task.stages[WHOLE]
            rows[-1]["losses"] = around_growth(runs[training], epochs)
    return rows + [row(way, seed, scores) for way, scores in task.counted()]


def around_growth(folder, epochs=1, count=20):
    """The mean loss of so many updates before and after these epochs, when texts grow."""
    with open(folder / "steps.csv", encoding="utf-8", newline="") as file:
        steps = [(float(row["epoch"]), float(row["loss"])) for row in csv.DictReader(file)]
    short = [loss for epoch, loss in steps if epoch <= epochs]
    both = short[-count:], [loss for _, loss in steps[len(short) :][:count]]
    return [round(statistics.fmean(losses), 4) for losses in both]


def row(way, seed, scores):
    return {"way": way, "seed": seed, "scores": scores, "versions": versions()}


def chunked(texts, readings):
    """Each chunk as a text of its own, with the label of the whole."""
    tokenizer, room = readings.tokenizer, readings.room(512)
    found = [
        (tokenizer.decode(ids[i : i + room]), label)
        for ids, label in zip(tokenizer.contents(texts.texts), texts.labels, strict=True)
        for i in range(0, len(ids), room)
    ]
    return Texts(*map(list, zip(*found, strict=True)), list(range(1, len(found) + 1)))


def by_way(rows, task):
    """For each way its scores (seeds, texts or episodes)."""
    found = {}
    for each in rows:
        if each["task"] == task:
            found.setdefault(each["way"], []).append(each["scores"])
    return found


def table(rows, task):
    return rivals.table(by_way(rows, task), SHORT)


def verdict(rows, task):
    found = by_way(rows, task)
    said = [rivals.compared(found, WHOLE, [way for way in found if way != WHOLE])]
    losses = np.array([row["losses"] for row in rows if row["task"] == task and "losses" in row])
    if len(losses):
        before, after = (spread(column, 2) for column in losses.T)
        said.append(
            f"Loss of its training, 20 updates before texts grow from 512 to {LENGTH:,} tokens: "
            f"{before}; 20 after: {after}."
        )
    return " ".join(said)


if __name__ == "__main__":
    main()
