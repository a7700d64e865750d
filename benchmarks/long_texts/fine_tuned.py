"""Long texts told by encoders that are fine-tuned, not frozen as in readings.py.

    KERAS_BACKEND=torch python -m benchmarks.long_texts.fine_tuned digests  # 40 minutes a seed
    KERAS_BACKEND=torch python -m benchmarks.long_texts.fine_tuned --table  # the results as tables

digests    those of readings.py: eight real posts, whose label is the group of most of
           them. The posts to test on are later than those to train on.
seasons    of 2,048 tokens of an episode of Friends, its season: eight episodes of each of ten
           to test on, nine others of each to train on. Twenty minutes of a core a seed.
speakers   the task and the episodes of readings.py: of each line of 2,048 tokens, which
           of the six friends says it. Fifteen minutes of a core a seed.

Three times MiniLM, with about as many updates each: one learns from the first 512 tokens of each
text; one from all of its chunks of 512, each with the label of the whole, or the lines that it
holds; one is stretched by the recipe, as in readings.py, and reads texts whole. Nothing
was tried on the test. Intervals are of 95%, paired by text or episode.

Results go to benchmarks/results/fine_tuned.json, a row for each task, way and seed; runs that were
interrupted go on in build/fine-tuned.
"""

import csv
import pathlib
import statistics
import time

import numpy as np

from benchmarks.long_texts import rivals
from benchmarks.long_texts.fine_tuned_tasks import TASKS
from benchmarks.long_texts.reading_tasks import SHORT, WHOLE, Readings
from benchmarks.shared.data import MINILM
from benchmarks.shared.kept import options, read_rows, spread, versions, write_lines
from keras_posenc.training import finetune

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "fine_tuned.json"
COMMON = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}


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
        scores = task.correct(way, runs[training])
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
    text = [rivals.compared(found, WHOLE, [way for way in found if way != WHOLE])]
    losses = np.array([row["losses"] for row in rows if row["task"] == task and "losses" in row])
    if len(losses):
        before, after = (spread(column, 2) for column in losses.T)
        text.append(
            f"Its mean training loss over 20 updates, before texts grow to full length: {before}. "
            f"Over 20 updates after: {after}."
        )
    return "\n\n".join(text)


if __name__ == "__main__":
    main()
