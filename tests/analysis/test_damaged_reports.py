"""Damaged files of a run: each change gives a page, or one error with the file and the key."""

import copy
import json
import math
import random

import pytest
from analysis.test_report import JUDGED, write_run

from keras_posenc.analysis import write_report, write_stretch_report
from keras_posenc.analysis.run_files import check_metrics, read_metrics
from keras_posenc.analysis.stretching import METRICS
from keras_posenc.training import pretrain_summary, stretch_summary, summary

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of Matplotlib, about what it draws
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

GONE = object()
VALUES = [
    GONE, None, True, 0, -1, 3, 2**63, 10**400, 0.5, math.nan, math.inf, -math.inf, 1e308,
    "", "text", "\ud800", "a\0b", "x" * 100_000, [], {}, [None], [[]], {"a": None}, [1, 2], ["a"],
]  # fmt: skip
CLASSES = {"a": {"support": 1, "precision": 0.5, "recall": 0.5, "f1": 0.5}}
STRETCHED = {
    "agreement": [{"from": 0, "to": 8, "before": 0.5, "after": 0.6, "teacher": 0.7}],
    "old_length": 8,
    "context": {"before": 0.1, "after": 0.7},
    "losses": [0.5, 0.4],
    "seconds": 3.0,
    "versions": {"keras": "3"},
}


def places(value, path=()):
    """The paths of all values in a JSON value; of a long list its first two."""
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:2]) if isinstance(value, list) else pairs
    for key, each in pairs:
        yield from places(each, (*path, key))


def changed(value, path, new):
    """A copy in which another value is at this path."""
    if not path:
        return new
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    if new is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


def attempts(folder, content, expected, write, draw=2):
    """Changes one value after another; returns how many changes were refused.

    A sample of the others is drawn, for a figure takes a hundred times as long as a check.
    """
    path, refused, accepted = folder / "metrics.json", 0, []
    for place in places(content):
        for new in VALUES[not place :]:
            path.write_text(json.dumps(changed(content, place, new)))
            try:
                read_metrics(folder, "run", "function", expected)
                accepted.append(path.read_text())
            except ValueError as error:
                refused += 1
                message = str(error)
                assert message.startswith(f"{path} is damaged ("), (place, new, message)
                assert len(message) < 600 and message.isprintable(), (place, new)
    for text in random.Random(0).sample(accepted, draw):
        path.write_text(text)
        write(folder)
    return refused


@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_metrics_of_a_fine_tuning(tmp_path, kind):
    judged = JUDGED if kind == "classes" else JUDGED | {"classes": CLASSES}
    run = write_run(tmp_path / "run", validation=judged)
    content = json.loads((run / "metrics.json").read_text())
    content["scores"] = {"accuracy": "accuracy", "loss": "loss"}
    if kind == "labels":
        del content["validation"]["confusion"]
        content["labels"] = ["a"]
    assert attempts(run, content, check_metrics, write_report) > 500


def test_metrics_of_a_stretching(tmp_path):
    (tmp_path / "recipe.json").write_text("{}")
    assert attempts(tmp_path, STRETCHED, METRICS, write_stretch_report) > 100


PRETRAINED = {
    "before": {"loss": 2.0, "accuracy": 0.5},
    "after": {"loss": 1.0, "accuracy": 0.6},
    "losses": [2.0],
    "seconds": 1.0,
}


@pytest.mark.parametrize("kind", ["finetune", "pretrain", "stretch"])
def test_summaries_of_damaged_metrics(tmp_path, kind):
    run = write_run(tmp_path / "run", validation=JUDGED)
    of = {"finetune": (json.loads((run / "metrics.json").read_text()), summary)}
    of["pretrain"] = PRETRAINED, pretrain_summary
    both = dict.fromkeys(("within", "beyond"), {"before": 0.1, "after": 0.2, "teacher": 0.3})
    of["stretch"] = STRETCHED | both, stretch_summary
    content, summarize = of[kind]
    assert summarize(content)
    refused = 0
    for place in places(content):
        for new in VALUES[not place :]:
            try:
                summarize(changed(content, place, new))
            except ValueError as error:
                refused += 1
                assert str(error).startswith(
                    "The metrics are damaged, or are of another function ("
                )
                assert len(str(error)) < 600 and str(error).isprintable()
    assert refused > 50


@pytest.mark.parametrize(
    "path, new, words",
    [
        (("train",), GONE, "it lacks train"),
        (("train", "seconds"), "1", "train.seconds should be a number, not '1'"),
        (("validation", "by_length"), [], "validation.by_length should be a list of at least 1"),
        (("validation", "by_length", 0, "documents"), 1.5, "should be a whole number from 0, not"),
        (("validation", "confusion", 1), [1], r"confusion\[1\] should be a list of 3, not \[1\]"),
        (("validation", "accuracy"), GONE, r"by_length|a score|should have"),
        (("train", "lengths", "edges", 1), 0, "edges should be rising numbers"),
        (("versions",), {"keras": 3}, "versions.keras should be a text, not 3"),
        (("labels", 0), "\ud800", r"labels\[0\] should be a text"),
        ((), [], "should be|holds a list"),
    ],
)
def test_the_error_names_the_file_and_the_key(tmp_path, path, new, words):
    run = write_run(tmp_path / "run")
    content = json.loads((run / "metrics.json").read_text())
    if path == ("validation", "accuracy"):
        for key in ("accuracy", "macro_f1", "loss"):
            del content["validation"][key]
        new = None
        path = ("test",)
    (run / "metrics.json").write_text(json.dumps(changed(content, path, new)))
    with pytest.raises(ValueError, match=rf"run/metrics\.json is damaged \(.*({words})"):
        write_report(run)


@pytest.mark.parametrize("name", ["history.csv", "steps.csv"])
@pytest.mark.parametrize(
    "content", ["", "epoch\n1\n", "loss\n1\n", "epoch,loss\n", "epoch,loss\n1,x\n",
                "epoch,loss\ninf,1\n", "epoch,loss\n1,1,1\n", "epoch,loss\n1\n"],
)  # fmt: skip
def test_curves(tmp_path, name, content):
    run = write_run(tmp_path / "run")
    (run / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{name} is damaged \("):
        write_report(run)


def test_a_training_that_diverged_has_a_report(tmp_path):
    judged = JUDGED | {"loss": math.inf, "macro_f1": math.nan}
    run = write_run(tmp_path / "run", validation=judged)
    (run / "steps.csv").write_text("epoch,loss\n0.5,2\n1,nan\n2,inf\n")
    assert "inf" in write_report(run).read_text("utf-8")
