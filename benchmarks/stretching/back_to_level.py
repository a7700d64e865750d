"""How many steps and minutes bring a stretched model back: by hidden tokens, or by distillation.

    KERAS_BACKEND=torch python -m benchmarks.stretching.back_to_level
    KERAS_BACKEND=torch python -m benchmarks.stretching.back_to_level --table  # the results

The small model of characters of recovery.py, pretrained for each seed anew at 32 and
stretched to 96 by hierarchical positions, alpha 0.4. Both ways read the same windows, with the same
characters hidden: one learns to tell these, the other gets the features that the unstretched model
has in the windows of 32 in which each character is most central, as `keras_posenc.stretch` does,
and its head stays as it was. The aim is 95% of the accuracy of the unstretched model, which reads
the same test text in pieces of 32. A training ends at the first mark that is there, or at the last.

Results go to benchmarks/results/back_to_level.json, a row for each way and seed, and are not
computed again; the models before stretching are kept in build/recovery.
"""

import pathlib
import time

import keras
import numpy as np

from benchmarks.shared.kept import Study, keys, markdown, options, spread
from benchmarks.stretching.recovery import FACTOR, SETTINGS, Subject, compiled
from keras_posenc.training.stretching.feature_losses import FeatureDistance
from keras_posenc.training.stretching.windows import most_central, window_starts

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "back_to_level.json"
WAYS = {"hidden characters": "hidden", "position distillation": "distil"}
STRETCH, AIM = "hierarchical, alpha 0.4", 0.95
MARKS = (0, 20, 40, 80, 160, 320, 640, 1280)
TEST_ROWS = 320


def main():
    parser = options(__doc__, RESULTS, "build/recovery")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--marks", type=int, nargs="+", default=MARKS)
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        settings = {**SETTINGS["small"], "test_rows": 4 if arguments.tiny else TEST_ROWS}
        if arguments.tiny:
            settings["first"] = {**settings["first"], "rows": 2, "steps": 2}
            settings["then"] = {**settings["then"], "rows": 1}
        subject = Subject("small", settings, arguments.folder)

        def measure(seed, way):
            return measured(subject, WAYS[way], seed, arguments.marks)

        rows = keys(seed=arguments.seeds, way=arguments.ways)
        study.run(rows, measure, ["level", "accuracy"])
    print(table(study.rows))


def measured(subject, way, seed, marks):
    """Trains in one way until the aim is met; accuracy and seconds at each mark, by block too."""
    weights = subject.before(seed)
    teacher, model = subject.build("unstretched"), subject.build(STRETCH)
    for layer in [*teacher.layers, *model.layers]:
        layer.set_weights(weights[layer.name])
    rate, rows = subject.settings["then"]["rate"], subject.settings["then"]["rows"]
    level = share(subject.score(teacher, 1, seed))
    found = {"level": level, "accuracy": {}, "by_block": {}, "seconds": {}}
    compiled(model, rate)
    trained = model
    if way == "distil":
        read, trained = features(teacher), features(model)
        trained.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0), FeatureDistance())
    length, seconds = FACTOR * subject.length, 0.0
    for step in range(marks[-1] + 1):
        if step in marks:
            score = subject.score(model, FACTOR, seed)
            found["accuracy"][str(step)] = share(score)
            found["by_block"][str(step)] = [share(([r], [n])) for r, n in zip(*score, strict=True)]
            found["seconds"][str(step)] = round(seconds, 1)
            if share(score) >= AIM * level:
                break
        started = time.process_time()
        ids, targets, mask = subject.sample(subject.train, rows, length, (seed, step, 1))
        if way == "distil":
            trained.train_on_batch({"token_ids": ids}, teacher_features(read, ids, subject.length))
        else:
            trained.train_on_batch({"token_ids": ids}, targets, mask.astype("float32"))
        seconds += time.process_time() - started
    return found


def features(model):
    """The model without its head."""
    names = [layer.name for layer in model.layers]
    last = max(name for name in names if name.startswith("Transformer-") and "Norm" in name)
    return keras.Model(model.input, model.get_layer(last).output)


def teacher_features(teacher, ids, size):
    """The teacher's features (B, T, D): of each token in the window in which it is most central."""
    length = ids.shape[1]
    starts = window_starts(length, size, size // 2)
    windows = np.stack([ids[:, start : start + size] for start in starts], axis=1)
    read = teacher.predict_on_batch({"token_ids": windows.reshape(-1, size)})
    read = np.asarray(read).reshape(len(ids), len(starts), size, -1)
    central = most_central(length, size, starts)
    return read[:, central, np.arange(length) - np.array(starts)[central]]


def share(score):
    right, scored = score
    return round(float(sum(right) / sum(scored)), 5)


def back(row):
    """The first mark that has met the aim, or None."""
    return next((m for m, a in row["accuracy"].items() if a >= AIM * row["level"]), None)


def table(rows):
    """Markdown: accuracy in % before, at once and at the end; steps and seconds to the aim."""
    heads = ["", "unstretched", "before training", "at the end"]
    heads += ["at the end, beyond the old length"]
    heads += ["steps to 95%, per seed", "seconds of a core, per seed"]
    lines = [heads]
    for way in dict.fromkeys(row["way"] for row in rows):
        runs = [row for row in rows if row["way"] == way]
        ends = [max(row["accuracy"], key=int) for row in runs]
        both = list(zip(runs, ends, strict=True))
        cells = [way, spread([100 * row["level"] for row in runs])]
        cells.append(spread([100 * row["accuracy"]["0"] for row in runs]))
        cells.append(spread([100 * row["accuracy"][end] for row, end in both]))
        cells.append(spread([100 * float(np.mean(row["by_block"][end][1:])) for row, end in both]))
        cells.append(", ".join(back(row) or f"not in {end}" for row, end in both))
        cells.append(", ".join(f"{row['seconds'][end]:.0f}" for row, end in both))
        lines.append(cells)
    return markdown(lines)


if __name__ == "__main__":
    main()
