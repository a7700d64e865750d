"""Long texts where reading further must pay: the first 512 tokens, chunks, stretched, word counts.

    KERAS_BACKEND=torch python benchmarks/long_texts.py digest
    KERAS_BACKEND=torch python benchmarks/long_texts.py digest --seeds 0 1 2

`digest`: eight posts of three newsgroups, four, two and two, shuffled; the label is the group of
most of them. Posts to train on and to test on are those of the collection's two files, a month
apart.

MiniLM is stretched by position distillation on the texts to train on, without their labels. Both
models have the same updates of as many texts each. The chunks are read by the model of the first
512 tokens, their probabilities averaged, or the highest taken. Each row has the
accuracy and, paired by text, what it has more than the first 512 tokens, with 95% intervals.

Runs and report go to build/long-texts; one that was interrupted goes on where it stood. The table
is added to benchmarks/results/long_texts.json with --record.
"""

import argparse
import collections
import json
import math
import pathlib
import platform
import time

import keras
import numpy as np
from data import CORPORA, MINILM

from keras_posenc.analysis import write_report, write_stretch_report
from keras_posenc.tasks.long_texts import digests
from keras_posenc.text import Texts, Tokenizer, read_texts
from keras_posenc.training import finetune, predict, stretch, stretch_summary

RESULTS = pathlib.Path(__file__).parent / "results" / "long_texts.json"
LENGTH = 2048
GROUPS = ("comp.graphics", "rec.sport.hockey", "sci.med", "sci.space", "talk.politics.mideast")
STRETCH = {"length": LENGTH, "local": 256, "global_every": 3, "steps": 24}
# Without dropout a step takes two thirds of the time.
COMMON = {"learning_rate": 3e-4, "dropout_rate": 0.0, "attention_dropout_rate": 0.0, "verbose": 2}
SHORT, WHOLE = "first 512 tokens", "stretched, one pass"
# Texts an update, of whatever length.
ROWS = 8


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS, nargs="?", default="digest")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--texts", type=int, nargs=2, default=[160, 150], help="to train, to test")
    parser.add_argument("--epochs", type=int, default=2, help="of either model")
    parser.add_argument("--steps", type=int, default=STRETCH["steps"], help="of the stretching")
    parser.add_argument("--output", type=pathlib.Path, default="build/long-texts")
    parser.add_argument("--record", action="store_true", help="add the table to the results")
    arguments = parser.parse_args()
    print("On two quiet cores this takes about a quarter of an hour for each seed.", flush=True)
    started, right = time.perf_counter(), collections.defaultdict(list)
    for seed in arguments.seeds:
        train, test = TASKS[arguments.task](*arguments.texts, seed)
        folder = arguments.output / f"{arguments.task}-{seed}"
        for name, found in rows(train, test, folder, seed, arguments).items():
            right[name] += found
    found = {name: interval(values, right[SHORT]) for name, values in right.items()}
    print(f"\n{table(found)}\n\n{verdict(found)}")
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes. Reports: {folder}/report.html")
    print(f"and {folder}/stretched/report.html")
    if arguments.record:
        record(arguments, found, time.perf_counter() - started)


def rows(train, test, folder, seed, arguments):
    """For each row whether each test text was told right."""
    print(f"Seed {seed}: stretching MiniLM to {LENGTH:,} tokens, without labels", flush=True)
    settings = {**STRETCH, "steps": arguments.steps}
    report = stretch(MINILM, train.texts, folder / "stretched", seed=seed, **settings).report
    print(stretch_summary(report))
    write_stretch_report(folder / "stretched")
    tokens = np.array([len(ids) + 2 for ids in Tokenizer(MINILM).contents(train.texts)])
    runs = {}
    for name, checkpoint, length in ((SHORT, MINILM, 512), (WHOLE, folder / "stretched", LENGTH)):
        print(f"Seed {seed}, {name}: {len(train)} texts to train on, {len(test)} to test on")
        runs[name] = folder / f"at-{length}"
        # At either length as many texts an update, but for padding, and so as many updates.
        budget = int(ROWS * np.minimum(tokens, length).mean())
        metrics = finetune(
            checkpoint,
            train,
            runs[name],
            lengths=[(length, arguments.epochs)],
            token_budget=budget,
            seed=seed,
            **COMMON,
        )
        print(f"{metrics['train']['steps']} updates in {metrics['train']['seconds']:.0f} s")
    write_report(runs, folder / "report.html")
    readings = {
        SHORT: (runs[SHORT], {}),
        "512-token chunks, mean": (runs[SHORT], {"chunks": 512}),
        "512-token chunks, highest": (runs[SHORT], {"chunks": 512, "pool": "max"}),
        WHOLE: (runs[WHOLE], {}),
    }
    found = {}
    for name, (run, how) in readings.items():
        said = [each.label for each in predict(run, test.texts, verbose=0, **how)]
        found[name] = [a == b for a, b in zip(said, test.labels, strict=True)]
    found["naive Bayes, all words"] = naive_bayes(train, test)
    return found


def digest_task(count, test_count, seed):
    parts = []
    for part, number in (("train", count), ("test", test_count)):
        posts = read_texts(f"{CORPORA}/20newsgroups-{part}.tab")
        kept = [i for i, group in enumerate(posts.labels) if group in GROUPS]
        posts = Texts(
            *([column[i] for i in kept] for column in (posts.texts, posts.labels, posts.lines))
        )
        parts.append(digests(posts, number, seed=seed, most_words=200))
    return parts


TASKS = {"digest": digest_task}


def naive_bayes(train, test):
    """Whether multinomial naive Bayes over all words, add-one smoothed, tells each text right."""
    labels = sorted(set(train.labels))
    counts = {label: collections.Counter() for label in labels}
    for text, label in zip(train.texts, train.labels, strict=True):
        counts[label].update(text.lower().split())
    known = set().union(*counts.values())
    logs = {}
    for label in labels:
        total = sum(counts[label].values()) + len(known)
        logs[label] = {word: math.log((counts[label][word] + 1) / total) for word in known}
    priors = collections.Counter(train.labels)
    right = []
    for text, true in zip(test.texts, test.labels, strict=True):
        words = [word for word in text.lower().split() if word in known]
        scores = {
            label: math.log(priors[label]) + sum(logs[label][word] for word in words)
            for label in labels
        }
        right.append(max(scores, key=scores.get) == true)
    return right


def interval(right, other):
    """Accuracy, and the mean difference to another row, paired by text, each with the half width of
    its 95% interval."""
    right, more = np.array(right, float), np.array(right, float) - np.array(other, float)
    half = [1.96 * x.std(ddof=1) / math.sqrt(len(x)) for x in (right, more)]
    values = right.mean(), half[0], more.mean(), half[1]
    return dict(zip(("accuracy", "half", "more", "more_half"), map(float, values), strict=True))


def table(found):
    lines = ["| | accuracy | more than the first 512 tokens |", "|---|---|---|"]
    for name, row in found.items():
        more = f"{100 * row['more']:+.1f} ± {100 * row['more_half']:.1f}" if name != SHORT else ""
        lines.append(f"| {name} | {row['accuracy']:.1%} ± {100 * row['half']:.1f} | {more} |")
    return "\n".join(lines)


def verdict(found):
    """What the intervals carry, and no more."""
    row = found[WHOLE]
    best = max(found, key=lambda name: found[name]["accuracy"])
    if row["more"] > row["more_half"]:
        words = "Reading all of the text pays: the gain is larger than its interval."
    else:
        words = "Nothing is shown: the gain is not larger than its interval."
    return f"{words} Best here: {best}."


def record(arguments, found, seconds):
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []
    given = {name: getattr(arguments, name) for name in ("task", "seeds", "texts", "epochs")}
    results = [row for row in results if any(row[k] != v for k, v in given.items())]
    versions = {"keras": keras.__version__, "backend": keras.backend.backend()}
    versions["python"] = platform.python_version()
    results.append({**given, "rows": found, "seconds": round(seconds), "versions": versions})
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
