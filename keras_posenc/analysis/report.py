"""One self-contained HTML page about one fine-tuning, or about several side by side."""

import csv
import dataclasses
import html
import io
import json
import pathlib

from keras_posenc.analysis import plot
from keras_posenc.analysis.page import PAGE, details, picture, section, table
from keras_posenc.checkpoints.folder import newest
from keras_posenc.untrusted import read_bytes, read_json, shorten

SETS = ("test", "validation")
METRICS = ("labels", "train", *SETS, "versions")


@dataclasses.dataclass(frozen=True)
class Run:
    """The files of one output directory of `finetune` that a report reads."""

    name: str
    metrics: dict
    recipe: dict
    history: list
    steps: list

    @property
    def judged(self):
        """Name and metrics of the set that judges the run, test before validation; or None."""
        return next(((name, self.metrics[name]) for name in SETS if self.metrics[name]), None)


def read_run(directory, name=None):
    """Reads what `finetune` left in `directory`.

    Raises:
        FileNotFoundError: if `directory` holds no finished fine-tuning.
    """
    directory = pathlib.Path(directory)
    if not newest(directory, "metrics.json").is_file():
        raise FileNotFoundError(
            f"{directory} holds no finished fine-tuning: it has no metrics.json. "
            "Run finetune to its end first."
        )
    return Run(
        name or directory.resolve().name,
        read_json(newest(directory, "metrics.json"), METRICS),
        read_json(directory / "recipe.json"),
        _read_numbers(newest(directory, "history.csv")),
        _read_numbers(newest(directory, "steps.csv")),
    )


def write_report(directories, path=None, title="Fine-tuning report"):
    """Writes a page: results, learning curves, confusion matrices, accuracy by document length.

    The page needs no other file and no network.

    Args:
        directories: an output directory of `finetune`, or a dict, name -> directory, to compare
            several runs.
        path: where to write; default `report.html` in the only directory.
        title: str. The heading.

    Returns:
        The path written, as a `pathlib.Path`.

    Raises:
        FileNotFoundError: if a directory holds no finished fine-tuning.
        ImportError: if Matplotlib is not installed.
        ValueError: if there are several directories and no `path`.

    Example:

    >>> write_report({"short, then long": "out"}, "report.html").name
    'report.html'
    """
    plot.require_matplotlib()
    if not isinstance(directories, dict):
        path = pathlib.Path(directories) / "report.html" if path is None else path
        directories = {None: directories}
    if path is None:
        raise ValueError("A report on several directories needs a `path` to be written to.")
    runs = [read_run(directory, name) for name, directory in directories.items()]
    sections = [
        section("Results", _results(runs)),
        *(section(_of("Learning curves", run, runs), _learning(run)) for run in runs),
        section("Accuracy by document length", _by_length(runs)),
        *(section(_of("Confusion matrix", run, runs), _confusion(run)) for run in runs),
        section("Document lengths", _lengths(runs)),
        section("Recipe", _recipes(runs)),
    ]
    path = pathlib.Path(path)
    page = PAGE.substitute(title=html.escape(title), body="\n".join(filter(None, sections)))
    path.write_text(page, encoding="utf-8")
    return path


def _of(heading, run, runs):
    return heading if len(runs) == 1 else f"{heading}: {run.name}"


def _share(group):
    """Accuracy with its interval: 84.2% (83.4–85.0)."""
    if not group:
        return "–"
    low, high = group["interval"]
    return f"{group['accuracy']:.1%} ({100 * low:.1f}–{100 * high:.1f})"


def _results(runs):
    columns = ["run", "set", "documents", "accuracy (95% interval)", "macro F1", "loss",
               "over 512 tokens", "their accuracy", "cut at", "training"]  # fmt: skip
    rows = []
    for run in runs:
        train = run.metrics["train"]
        for name in SETS:
            metrics = run.metrics[name]
            if metrics:
                long = metrics["long"]
                rows.append([
                    run.name, name, f"{metrics['documents']:,}", _share(metrics),
                    f"{metrics['macro_f1']:.3f}", f"{metrics['loss']:.3f}",
                    f"{long['documents']:,}" if long else "0", _share(long),
                    f"{train['max_length']:,} tokens", f"{train['seconds'] / 60:.1f} min",
                ])  # fmt: skip
    if not rows:
        return "<p>No validation and no test documents were given, so there is no accuracy.</p>"
    return table(columns, rows)


def _learning(run):
    figure = plot.learning_curves(run.history, run.steps, size=(8.6, 3.6))
    return picture(figure, "Loss and accuracy over the epochs.")


def _by_length(runs):
    series = {run.name: run.judged[1]["by_length"] for run in runs if run.judged}
    if not series:
        return ""
    figure = plot.accuracy_by_length(series, size=(8.6, 3.8))
    names = " and ".join(sorted({run.judged[0] for run in runs if run.judged}))
    return (
        picture(figure, "Accuracy of the documents of each group of lengths.")
        + f"<p class=note>{names.capitalize()} documents. Lines: 95% intervals (Wilson). Numbers "
        "at the foot: documents in the group.</p>"
    )


def _confusion(run):
    if not run.judged:
        return ""
    name, metrics = run.judged
    labels, matrix = run.metrics["labels"], metrics["confusion"]
    side = min(4 + 0.24 * len(labels), 10)
    figure = plot.confusion_matrix(matrix, labels, size=(side * 1.25, side))
    classes = [
        (label, sum(row), f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}")
        for label, row, precision, recall, f1 in zip(
            labels, matrix, metrics["precision"], metrics["recall"], metrics["f1"], strict=True
        )
    ]
    return (
        picture(figure, "Confusion matrix: documents by true and predicted class.")
        + f"<p class=note>{metrics['documents']:,} {name} documents.</p>"
        + details("Most frequent confusions", _confusions(labels, matrix))
        + details("Each class", table(["class", "documents", "precision", "recall", "F1"], classes))
    )


def _confusions(labels, matrix, most=10):
    pairs = [
        (count, true, said)
        for true, row in zip(labels, matrix, strict=True)
        for said, count in zip(labels, row, strict=True)
        if count and said != true
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [(true, said, count) for count, true, said in pairs[:most]]
    if not rows:
        return "<p>None.</p>"
    return table(["true class", "predicted class", "documents"], rows)


def _lengths(runs):
    # Runs side by side usually share their documents: those of the first stand for all.
    series = {"training": runs[0].metrics["train"]["lengths"]}
    if runs[0].judged:
        name, metrics = runs[0].judged
        series[name] = metrics["lengths"]
    marks = sorted({run.metrics["train"]["max_length"] for run in runs})
    figure = plot.length_histogram(series, marks, size=(8.6, 3.6))
    return picture(figure, "Documents by their length in tokens.")


def _recipes(runs):
    keys = list(dict.fromkeys(key for run in runs for key in run.recipe))
    rows = [(key, *(json.dumps(run.recipe.get(key)) for run in runs)) for key in keys]
    versions = "; ".join(
        dict.fromkeys(
            ", ".join(f"{name} {version}" for name, version in run.metrics["versions"].items())
            for run in runs
        )
    )
    recipes = table(["setting", *(run.name for run in runs)], rows)
    return recipes + f"<p class=note>{html.escape(versions)}</p>"


def _read_numbers(path):
    """The rows of a CSV file of numbers as dicts; an empty cell is left out."""
    try:
        rows = csv.DictReader(io.StringIO(read_bytes(path).decode(), newline=""), strict=True)
        return [{key: float(value) for key, value in row.items() if value} for row in rows]
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{path} is damaged ({shorten(error)}).") from None
