"""Two facts far apart, which only a reader of the whole text can compare.

    KERAS_BACKEND=torch python -m benchmarks.long_texts.distant_facts  # seed 0
    KERAS_BACKEND=torch python -m benchmarks.long_texts.distant_facts --seeds 0 1 2 --record
    KERAS_BACKEND=torch python -m benchmarks.long_texts.distant_facts --length 4096 --record

"Anna has a red box. ... Anna has a blue box." Between a fact and a true or false statement about it
are hundreds of words of a real book: excerpts of several books for training, Grimm's tales for the
test. MiniLM is stretched by position distillation on the excerpts, without labels, then fine-tuned
on near facts first and distant ones last.

The baselines are a bag of words, and the same MiniLM, trained on all texts that it can read whole
with at most three updates fewer. It reads the first 512 tokens, or chunks of 512 tokens, of whose
probabilities the mean or the highest is taken. Each row has the accuracy on the distant facts and
its difference to the first 512 tokens, paired by text, with 95% intervals.

With --length 4096 the model is stretched to 4,096 tokens, and most facts of the test are up to
2,900 words apart, as in 16 texts of the training.

With --model mpnet, which takes eight times as long, all-mpnet-base-v2 reads whole texts, and only a
bag of words is compared. Its positions are extended without training, its rate is lower, and its
files have its name.

Runs and report are written to build/distant-facts. An interrupted run resumes. With --record, the
rows are added to benchmarks/results/distant_facts.json.
"""

import argparse
import dataclasses
import pathlib
import platform
import time

import numpy as np

from benchmarks.long_texts import rivals
from benchmarks.shared.data import CORPORA, MINILM, mpnet
from benchmarks.shared.kept import read_rows, write_lines
from keras_posenc.analysis import plot, write_report, write_stretch_report
from keras_posenc.files.writing import write_text
from keras_posenc.metrics.scores import accuracy_by_length
from keras_posenc.tasks.long_texts import distant_facts
from keras_posenc.text import Texts, Tokenizer, read_texts
from keras_posenc.training import Classify, finetune, predict, stretch, stretch_summary

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "distant_facts.json"
# Words between the two facts: within 512 tokens, never within, and up to 4,096.
NEAR, FAR, FARTHER = (0, 330), (520, 1000), (1000, 2900)
# How many to train on. The nearest teach to compare, the others how far apart.
TRAIN = [(192, (0, 20)), (64, (40, 120)), (32, (200, 330)), (24, FAR)]
# Lengths of the texts that one training reads after another, and epochs of each.
TO_COMPARE = [(48, 5), (192, 1)]


@dataclasses.dataclass(frozen=True)
class Reach:
    """How far apart the facts are: the texts to train and to test on, and the lengths.

    `stages` are those of the stretched model, `short` those of its baselines, with about as many
    updates.
    """

    train: list
    test: list
    stages: list
    short: list
    borders: tuple
    minutes: int


REACHES = {
    1536: Reach(
        TRAIN,
        [(20, NEAR), (70, FAR)],
        [*TO_COMPARE, (512, 1), (1536, 1)],
        [*TO_COMPARE, (512, 3)],
        (0, 512, 768, 1024, 1280, 1536),
        7,
    ),
    4096: Reach(
        [*TRAIN, (16, FARTHER)],
        [(20, NEAR), (20, FAR), (50, FARTHER)],
        [*TO_COMPARE, (512, 1), (1536, 1), (4096, 1)],
        [*TO_COMPARE, (512, 7)],
        (0, 512, 1536, 2048, 3072, 4096),
        8,
    ),
}
STRETCHED = "stretched"  # the folder of the stretched model
STEPS = {"minilm": 10, "mpnet": 0}  # of stretching
OPTIMIZER = {"minilm": "adamw:3e-4", "mpnet": "adamw:1e-4"}
# Without dropout a step takes two thirds of the time.
COMMON = {
    # One place decides, however long the text: a mean over all of it would hide that.
    "task": Classify(pooling="max"),
    "longer": "skip",
    # A longer text is a batch of its own.
    "token_budget": 1536,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
}
SHORT, MEAN, BEST = "first 512 tokens", "512-token chunks, averaged", "512-token chunks, highest"
WHOLE, WORDS = "stretched, one pass", "naive Bayes, all words"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, choices=REACHES, default=1536)
    parser.add_argument("--model", default="minilm", choices=STEPS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=pathlib.Path, default="build/distant-facts")
    parser.add_argument("--record", action="store_true", help="add the seeds to the results")
    arguments = parser.parse_args()
    length, model = arguments.length, arguments.model
    folders, results = arguments.output / str(length), RESULTS
    if model != "minilm":
        folders, results = folders / model, results.with_stem(f"{results.stem}_{model}")
    minutes = REACHES[length].minutes
    print(f"On two idle cores MiniLM takes about {minutes} minutes for each seed.", flush=True)
    rows = []
    for seed in arguments.seeds:
        folder = folders / f"seed-{seed}"
        report = stretched(seed, length, folder, model)
        rows.append(measured(seed, length, folder, report, model))
        if arguments.record:
            record(rows[-1], results)
    print(f"\n{table(rows)}\n\n{verdict(rows)}")
    folder = folders / f"seed-{arguments.seeds[-1]}"
    minutes = sum(row["seconds"] for row in rows) / 60
    print(f"\n{minutes:.1f} minutes. In {folder}, with pictures: report.html, facts.svg,")
    print("and how well the stretched model keeps its features, stretched/report.html")


def stretched(seed, length, folder, model):
    """Stretches a model, and returns the report of `stretch`; a finished one is read."""
    print(f"\n{model} is stretched to {length:,} tokens, without labels (seed {seed})", flush=True)
    books, output = book_texts("book-excerpts", most_words(length)), folder / STRETCHED
    checkpoint, settings = directory(model), {"steps": STEPS[model], "seed": seed}
    report = stretch(checkpoint, books, output, max_length=length, **settings).report
    write_stretch_report(output)
    print(stretch_summary(report))
    return report


def directory(model):
    return mpnet() if model == "mpnet" else MINILM


def measured(seed, length, folder, report, model):
    """The row of a seed: the lengths of its test texts, and for each way whether each was
    classified correctly.

    Args:
        report: of the stretched model in the folder.
        model: a key of `STEPS`.
    """
    train, test = parts(seed, length)
    seconds = report["seconds"]
    runs = {WHOLE: folder / f"at-{length}"}
    models = {WHOLE: (folder / STRETCHED, REACHES[length].stages)}
    if model == "minilm":
        runs[SHORT], models[SHORT] = folder / "at-512", (MINILM, REACHES[length].short)
    for way, (checkpoint, stages) in models.items():
        print(f"\nFine-tuned for '{way}' (seed {seed})", flush=True)
        settings = {"test": test, "lengths": stages, "seed": seed, **COMMON}
        settings["optimizer"] = OPTIMIZER[model]
        found = finetune(checkpoint, train, runs[way], **settings)
        print(f"{found['train']['steps']} updates in {found['train']['seconds']:.0f} s")
        seconds += found["train"]["seconds"]
    write_report(runs, folder / "report.html")
    print(f"\n{len(test)} texts are read in each way (seed {seed})", flush=True)
    started = time.perf_counter()
    chunks = {"chunks": 512}
    readings = {
        SHORT: (SHORT, {}),
        MEAN: (SHORT, chunks),
        BEST: (SHORT, {**chunks, "pool": "max"}),
        WHOLE: (WHOLE, {}),
    }
    right = {}
    for way, (run, how) in readings.items():
        if run not in runs:
            continue
        print(way, flush=True)
        predicted = [prediction.label for prediction in predict(runs[run], test.texts, **how)]
        right[way] = [int(a == b) for a, b in zip(predicted, test.labels, strict=True)]
    right[WORDS] = naive_bayes(train, test)
    row = {
        "length": length,
        "seed": seed,
        "tokens": [len(ids) + 2 for ids in Tokenizer(directory(model)).contents(test.texts)],
        "right": right,
        "stretched": {part: report[part] for part in ("within", "beyond")},
        # Of all the parts, some of which an interrupted run had done before.
        "seconds": round(seconds + time.perf_counter() - started),
        "versions": {**report["versions"], "python": platform.python_version()},
    }
    picture = plot.score_by_length(by_length([row]), size=(9.6, 4.2))
    write_text(folder / "facts.svg", plot.to_svg(picture))
    return row


def parts(seed, length=1536):
    """Texts to train on, and to test on, from other books."""
    reach, most = REACHES[length], most_words(length)
    excerpts, tales = book_texts("book-excerpts", most), book_texts("grimm-tales", most)
    made = [(excerpts, count, words) for count, words in reach.train]
    train = [distant_facts(*how, seed=seed) for how in made]
    made = [(tales, count, words) for count, words in reach.test]
    test = [distant_facts(*how, seed=seed + 10**6) for how in made]
    return joined(train), joined(test)


def most_words(length):
    """Words between the farthest facts."""
    return max(high for _, (_, high) in REACHES[length].train)


def book_texts(name, words):
    """Texts, the short ones joined to others, so that all have so many words."""
    found = [""]
    for text in read_texts(f"{CORPORA}/{name}.tab", label=False).texts:
        if len(found[-1].split()) >= words:
            found.append("")
        found[-1] = f"{found[-1]} {text}".strip()
    return [text for text in found if len(text.split()) >= words]


def joined(several):
    texts, labels = (
        [row for part in several for row in getattr(part, column)] for column in ("texts", "labels")
    )
    return Texts(texts, labels, list(range(1, len(texts) + 1)))


def naive_bayes(train, test):
    """Whether naive Bayes over all words classifies each text correctly. Its smoothing is chosen by
    folds of the texts to train on."""
    model = rivals.fitted(rivals.BAYES, train.texts, train.labels, 5)
    return (model.predict(test.texts) == np.array(test.labels)).astype(int).tolist()


def together(rows):
    """The lengths (N,) of the test texts of all seeds, and for each way a row (N,) of 0 and 1."""
    tokens = np.concatenate([row["tokens"] for row in rows])
    ways = rows[0]["right"]
    return tokens, {way: np.concatenate([row["right"][way] for row in rows]) for way in ways}


def by_length(rows):
    """For each way its accuracy by the length of the texts."""
    tokens, right = together(rows)
    borders = REACHES[rows[0]["length"]].borders
    return {way: accuracy_by_length(each, tokens, borders) for way, each in right.items()}


def distant(rows):
    """For each way the scores (1, N) of the texts too long for a window that has both facts."""
    tokens, right = together(rows)
    return {way: [each[tokens > 512]] for way, each in right.items()}


def table(rows):
    """The distant facts, with intervals; the same by seed, and all texts by length."""
    scores, groups = distant(rows), by_length(rows)
    seeds = [distant([row]) for row in rows]
    bins = [(g["more_than"] + 1, g["up_to"], g["documents"]) for g in groups[WHOLE]]
    heads = [f"{first:,}–{last:,} ({count})" for first, last, count in bins]
    lines = [
        rivals.table(scores, SHORT if SHORT in scores else WORDS),
        "",
        f"| tokens (texts) | seeds | {' | '.join(heads)} |",
    ]
    lines.append("|---" * (len(heads) + 2) + "|")
    for way in scores:
        cells = [" / ".join(f"{100 * one[way][0].mean():.0f}" for one in seeds)]
        cells += [f"{100 * group['accuracy']:.0f}" for group in groups[way]]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(rows):
    scores = distant(rows)
    return rivals.compared(scores, WHOLE, [way for way in scores if way != WHOLE])


def record(row, results):
    rows = read_rows(results)
    key = row["length"], row["seed"]
    rows = [other for other in rows if (other["length"], other["seed"]) != key] + [row]
    write_lines(results, rows)


if __name__ == "__main__":
    main()
