"""Long texts read by a frozen encoder: the first 512 tokens, chunks, stretched; and word counts.

    KERAS_BACKEND=torch python -m benchmarks.long_texts.readings digests seasons speakers lines
    KERAS_BACKEND=torch python -m benchmarks.long_texts.readings --table  # the results as tables

digests    eight posts of three of five newsgroups, four, two and two, shuffled; the label is the
           group of most of them. Posts to train on and to test on are a month apart.
seasons    of 2,048 tokens of an episode of Friends, its season: twelve episodes of each of ten,
           five folds by episode.
speakers   of each line of 2,048 tokens of an episode of Friends, which of the six friends says it,
           the names before the lines removed: 40 episodes to test on, 90 of 120 others to train on.
lines      of each ten words of a digest, the group of the post that they are of: 100 digests to
           test on, 75 of 120 others to train on.

MiniLM is stretched once, on book excerpts, which no task has, by position distillation without
labels; neither it nor the unstretched one is trained on a task. A way of reading gives a text, or
a line of it, the mean of its last features, and a logistic regression on those says the label. So
what is compared is what the readings tell, at a tenth of the cost of fine-tuning. Chunks of texts
are told twice: by the regression of the first 512 tokens, their probabilities averaged or the
highest taken, and by one of their own on the average of their features. The strength of each
regression and of naive Bayes is chosen by validation within the part to train on, which a seed
draws anew; the texts to test on are the same for all seeds.

benchmarks/results/readings.json has the scores of each task, way and seed by text, or by episode;
features are kept in build/readings, so that a run that was interrupted goes on where it stood.
"""

import argparse
import collections
import itertools
import pathlib
import time

import numpy as np

from benchmarks.long_texts import rivals
from benchmarks.long_texts.reading_tasks import (
    AVERAGED,
    BAYES,
    BAYES_512,
    BAYES_AROUND,
    BAYES_LINE,
    BY_TOKEN,
    CHUNKS,
    MAX,
    MEAN,
    MEAN_BY_TOKEN,
    SHORT,
    TASKS,
    TFIDF,
    TFIDF_512,
    TFIDF_AROUND,
    TFIDF_LINE,
    WHOLE,
    Readings,
)
from benchmarks.shared.kept import read_rows, versions, write_lines

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "readings.json"
# The rows in the order of the table.
WAYS = (
    SHORT, MEAN, MEAN_BY_TOKEN, MAX, AVERAGED, BY_TOKEN, CHUNKS, WHOLE,
    BAYES_512, BAYES, TFIDF_512, TFIDF, BAYES_LINE, TFIDF_LINE,
    BAYES_AROUND, TFIDF_AROUND,
)  # fmt: skip
IN_CHUNKS = (MEAN, MEAN_BY_TOKEN, MAX, AVERAGED, BY_TOKEN, CHUNKS)
IN_WORDS = (BAYES, TFIDF, BAYES_LINE, TFIDF_LINE, BAYES_AROUND, TFIDF_AROUND)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/readings"))
    parser.add_argument("--table", action="store_true", help="only print what the results say")
    arguments = parser.parse_args()
    path = arguments.results
    rows = read_rows(path)
    for name in () if arguments.table else arguments.tasks or TASKS:
        task = TASKS[name](Readings(arguments.output))
        for (way, tell), seed in itertools.product(task.ways.items(), arguments.seeds):
            given = {"task": name, "way": way, "seed": seed}
            if any(given.items() <= row.items() for row in rows):
                continue
            started = time.perf_counter()
            scores = scored(task, tell, seed)
            seconds = round(time.perf_counter() - started)
            rows.append({**given, "scores": scores, "seconds": seconds, "versions": versions()})
            write_lines(path, rows)
            print(f"{name}, {way}, seed {seed}: {np.mean(scores):.1%}, {seconds} s", flush=True)
    for name in dict.fromkeys(row["task"] for row in rows):
        print(f"\n{name}\n\n{table(rows, name)}\n\n{verdict(rows, name)}")


def scored(task, tell, seed):
    """The share that is told right of each unit that is tested, by unit."""
    right = collections.defaultdict(list)
    for train, test in task.parts(seed):
        predicted = tell(train, test, task.validation(train, seed))
        for i, label in zip(test, predicted, strict=True):
            right[task.units[i]].append(bool(label == task.labels[i]))
    return [round(float(np.mean(right[unit])), 4) for unit in sorted(right)]


def by_way(rows, task):
    """For each way that all seeds of a task have, the scores (seeds, units)."""
    found = collections.defaultdict(dict)
    for row in rows:
        if row["task"] == task:
            found[row["way"]][row["seed"]] = row["scores"]
    seeds = set().union(*found.values())
    return {
        way: [found[way][seed] for seed in sorted(seeds)]
        for way in WAYS
        if way in found and set(found[way]) == seeds
    }


def table(rows, task):
    return rivals.table(by_way(rows, task), SHORT)


def verdict(rows, task):
    """The differences between the ways of reading that the intervals support."""
    scores = by_way(rows, task)
    words = (TFIDF_512, BAYES_512)
    pairs = [(WHOLE, (SHORT,)), (WHOLE, IN_CHUNKS), (WHOLE, IN_WORDS)]
    pairs += [(long, (short,)) for long, short in zip((TFIDF, BAYES), words, strict=True)]
    return rivals.comparisons(scores, pairs)


if __name__ == "__main__":
    main()
