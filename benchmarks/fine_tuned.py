"""Digests of posts, told by encoders that are fine-tuned, not frozen as in benchmarks/readings.py.

    KERAS_BACKEND=torch python benchmarks/fine_tuned.py           # forty minutes of a core a seed
    KERAS_BACKEND=torch python benchmarks/fine_tuned.py --table     # the results as a table

The digests of benchmarks/readings.py: eight real posts, whose label is the group of most of them.
Three times MiniLM, with about as many updates each: one learns from the first 512 tokens of each
digest; one from all of its chunks of 512, each with the label of the whole; one is stretched by the
recipe, as in benchmarks/readings.py, and reads digests whole. Nothing was tried on the test, whose
posts are later than those to train on. Intervals are of 95%, paired by digest.

Results go to benchmarks/results/fine_tuned.json, a row for each way and seed; runs that were
interrupted go on in build/fine-tuned.
"""

import csv
import pathlib
import statistics
import time

import numpy as np
import rivals
from data import MINILM
from kept import options, read_rows, spread, versions, write_lines
from reading_tasks import (
    BAYES,
    LENGTH,
    MAX,
    MEAN,
    SHORT,
    TFIDF,
    WHOLE,
    Readings,
    digest_texts,
    drawn_digests,
)

from keras_posenc.text import Texts
from keras_posenc.training import finetune, predict

RESULTS = pathlib.Path(__file__).parent / "results" / "fine_tuned.json"
FIRST_CHUNK = "512-token chunks, the model of the first 512"
# Lengths and epochs of each training: 250 updates of digests, 278 to 280 of their chunks.
STAGES = {SHORT: [(512, 5)], MEAN: [(512, 2)], WHOLE: [(512, 1), (LENGTH, 1)]}
COMMON = {"token_budget": LENGTH, "learning_rate": 1e-4, "dropout_rate": 0.0}
COMMON |= {"attention_dropout_rate": 0.0}
# Way -> the training whose model tells, and how it reads.
READINGS = {
    SHORT: (SHORT, {}),
    FIRST_CHUNK: (SHORT, {"chunks": 512}),
    MEAN: (MEAN, {"chunks": 512}),
    MAX: (MEAN, {"chunks": 512, "pool": "max"}),
    WHOLE: (WHOLE, {}),
}
COUNT, TEST_COUNT = 320, 200


def main():
    parser = options(__doc__, RESULTS, "build/fine-tuned")
    parser.add_argument("--readings", default="build/readings", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = read_rows(arguments.results)
    missing = [seed for seed in arguments.seeds if all(row["seed"] != seed for row in rows)]
    for seed in () if arguments.table else missing:
        rows += measured(seed, Readings(arguments.readings), arguments.folder / str(seed))
        write_lines(arguments.results, rows)
    print(f"{table(rows)}\n\n{verdict(rows)}")


def measured(seed, readings, folder):
    """The rows of a seed: whether each digest of the test is told right."""
    made, test = digest_texts("train", COUNT), digest_texts("test", TEST_COUNT)
    own = drawn_digests(COUNT, seed)
    train = Texts(*([column[i] for i in own] for column in (made.texts, made.labels, made.lines)))
    data = {SHORT: train, MEAN: chunked(train, readings), WHOLE: train}
    rows, seconds = [], {}
    for way, texts in data.items():
        started, output = time.process_time(), folder / way.replace(" ", "-")
        checkpoint = readings.long.checkpoint if way == WHOLE else MINILM
        found = finetune(checkpoint, texts, output, lengths=STAGES[way], seed=seed, **COMMON)
        print(f"{seed} {way}: {found['train']['steps']} updates", flush=True)
        seconds[way] = round(time.process_time() - started)
    for way, (run, how) in READINGS.items():
        said = [p.label for p in predict(folder / run.replace(" ", "-"), test.texts, **how)]
        rows.append({**row(way, seed, said, test), "train_seconds": seconds[run]})
        if way == WHOLE:
            rows[-1]["losses"] = around_growth(folder / run.replace(" ", "-"))
    for way in (BAYES, TFIDF):
        rival = rivals.BAYES if way == BAYES else rivals.TFIDF
        model = rivals.fitted(rival, train.texts, train.labels, 5)
        rows.append(row(way, seed, model.predict(test.texts), test))
    return rows


def around_growth(folder, count=20):
    """The mean loss of so many updates before and after the first epoch, when texts grow."""
    with open(folder / "steps.csv", encoding="utf-8", newline="") as file:
        steps = [(float(row["epoch"]), float(row["loss"])) for row in csv.DictReader(file)]
    short = [loss for epoch, loss in steps if epoch <= 1]
    both = short[-count:], [loss for _, loss in steps[len(short) :][:count]]
    return [round(statistics.fmean(losses), 4) for losses in both]


def row(way, seed, said, test):
    right = [int(a == b) for a, b in zip(said, test.labels, strict=True)]
    return {"way": way, "seed": seed, "right": right, "versions": versions()}


def chunked(texts, readings):
    """Each chunk as a text of its own, with the label of the whole."""
    tokenizer, room = readings.tokenizer, readings.room(512)
    found = [
        (tokenizer.decode(ids[i : i + room]), label)
        for ids, label in zip(tokenizer.contents(texts.texts), texts.labels, strict=True)
        for i in range(0, len(ids), room)
    ]
    return Texts(*map(list, zip(*found, strict=True)), list(range(1, len(found) + 1)))


def scores(rows):
    """For each way its scores (seeds, digests)."""
    found = {}
    for each in rows:
        found.setdefault(each["way"], []).append(each["right"])
    return found


def table(rows):
    return rivals.table(scores(rows), SHORT)


def verdict(rows):
    found = scores(rows)
    said = [rivals.compared(found, WHOLE, [way for way in found if way != WHOLE])]
    losses = np.array([row["losses"] for row in rows if "losses" in row])
    if len(losses):
        before, after = (spread(column, 2) for column in losses.T)
        said.append(
            f"Loss of its training, 20 updates before texts grow from 512 to {LENGTH:,} tokens: "
            f"{before}; 20 after: {after}."
        )
    return " ".join(said)


if __name__ == "__main__":
    main()
