"""The files of a fine-tuning that a report reads, checked key by key."""

import csv
import io
import pathlib

from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import read_bytes, read_json, shorten
from keras_posenc.folders.folder import Folder

SETS = ("test", "validation")
# Keys of the metrics and their titles; of files from before there were tasks.
SCORES = {"accuracy": "accuracy", "macro_f1": "macro F1", "loss": "loss"}

# Of any run: where its texts are from, and when it ended.
ORIGIN = {"data": e.by_name(e.anything), "finished": e.text}
# Of a run without labels.
STEPS = {"losses": e.every(e.loss), "seconds": e.number, "versions": e.by_name(e.text)}
INTERVAL = {"interval": e.every(e.score, 2)}
GROUP = {"more_than": e.count, "up_to": e.maybe(e.count), "documents": e.count}
CLASS = {"support": e.count, "precision": e.score, "recall": e.score, "f1": e.score}


def _histogram(value, where):
    e.keys({"counts": e.every(e.count, fewest=1), "edges": e.every(e.number, fewest=2)})(
        value, where
    )
    e.every(e.anything, len(value["counts"]) + 1)(value["edges"], f"{where}.edges")
    edges = value["edges"]
    if edges[0] < 0 or any(low >= high for low, high in zip(edges, edges[1:], strict=False)):
        raise ValueError(f"{where}.edges should be rising numbers from 0")


def _groups(scores):
    """Groups of documents by length; all have the same scores."""
    group = e.keys(GROUP, scores | INTERVAL)

    def check(value, where):
        e.every(group, fewest=1)(value, where)
        for index, each in enumerate(value):
            if each.keys() != value[0].keys():
                raise ValueError(f"{where}[{index}] should have the keys of {where}[0]")

    return check


# What only some sets of documents have.
MORE = {"classes": e.maybe(e.by_name(e.keys(CLASS))), "baselines": e.by_name(e.by_name(e.number))}


def _judged(scores, classes):
    """The scores of a set of documents."""
    documents = e.keys({"documents": e.count}, scores | INTERVAL)
    several = {
        "precision": e.every(e.score, classes),
        "recall": e.every(e.score, classes),
        "f1": e.every(e.score, classes),
        "confusion": e.every(e.every(e.count, classes), classes),
    }

    def check(value, where):
        needed = {"by_length": _groups(scores), "lengths": _histogram, "long": e.maybe(documents)}
        e.both(documents, e.keys(needed, MORE))(value, where)
        if "confusion" in value:
            e.keys(several)(value, where)
        if not scores.keys() & value.keys():
            raise ValueError(f"{where} should have a score, one of {', '.join(scores)}")

    return e.maybe(check)


def check_metrics(value, where):
    """What the metrics of a fine-tuning must be."""
    train = {"max_length": e.count, "seconds": e.number, "lengths": _histogram}
    needed = {"labels": e.every(e.text), "train": e.keys(train), "versions": e.by_name(e.text)}
    optional = {"scores": e.by_name(e.text), **ORIGIN}
    e.keys(needed, optional)(value, where)
    names = value.get("scores", SCORES)
    if not names or not all(names.values()):
        raise ValueError("scores should name a score, each by a title")
    scores = {key: e.loss if key == "loss" else e.score for key in names}
    e.keys(dict.fromkeys(SETS, _judged(scores, len(value["labels"]))))(value, where)


def read_metrics(directory, run, function, expected):
    """The metrics.json of a run, such as "fine-tuning" of the function "finetune", which must be as
    expected; FileNotFoundError if there is no finished run in the directory."""
    path = _newest(directory, "metrics.json")
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} holds no finished {run}: it has no metrics.json. Run {function} to its "
            "end first."
        )
    return e.checked(path, read_json(path), expected)


def read_recipe(directory):
    """The recipe.json of a run: an object of anything."""
    path = _newest(directory, "recipe.json")
    return e.checked(path, read_json(path), e.by_name(e.anything))


def read_curve(directory, name):
    """The rows of a CSV file of numbers, an epoch each, as dicts; an empty cell is left out."""
    path = _newest(directory, name)
    try:
        rows = csv.DictReader(io.StringIO(read_bytes(path).decode(), newline=""), strict=True)
        # A metric of the user may have several values.
        rows = [
            {key: float(value) for key, value in row.items() if value and value[0] != "["}
            for row in rows
        ]
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{path} is damaged ({shorten(error)}).") from None
    needed, optional = {"epoch": e.number, "loss": e.loss}, {"max_length": e.number}
    return e.checked(path, rows, e.every(e.keys(needed, optional), fewest=1))


def _newest(directory, name):
    folder = Folder.of(directory)
    if not folder.is_directory:  # beside a missing one may be the results of another run
        return pathlib.Path(str(folder)) / name
    return folder.place(folder.newest(name))
