"""One self-contained HTML page about one fine-tuning, or about several side by side."""

import dataclasses
import pathlib

from keras_posenc.analysis import plot
from keras_posenc.analysis.about import about, settings
from keras_posenc.analysis.page import details, escaped, picture, section, table, write_page
from keras_posenc.analysis.run_files import (
    SCORES,
    SETS,
    check_metrics,
    read_curve,
    read_metrics,
    read_recipe,
)
from keras_posenc.training.finetuning.frozen import chunk_size, is_frozen
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.summary import verdict as compared_with_baselines


@dataclasses.dataclass(frozen=True)
class FinetuneRun:
    """The files of one output directory of `finetune` that a report reads."""

    name: str
    directory: str
    metrics: dict
    recipe: dict
    history: list
    steps: list

    @property
    def judged(self):
        """Name and metrics of the set that judges the run, test before validation; or None."""
        return next(((name, self.metrics[name]) for name in SETS if self.metrics[name]), None)

    @property
    def scores(self):
        """Keys and titles of the scores that it has, the one that matters most first."""
        scores = self.metrics.get("scores", SCORES)
        sets = [self.metrics[name] for name in SETS if self.metrics[name]]
        return {k: title for k, title in scores.items() if any(k in each for each in sets)}

    @property
    def headline(self):
        """Key and title of the score that matters most."""
        return next(iter((self.scores or self.metrics.get("scores", SCORES)).items()))

    @property
    def is_frozen(self):
        """Whether a linear head alone was trained, without epochs."""
        return is_frozen(self.recipe.get("freeze"))

    @property
    def parts(self):
        """What all of a text is read in, "chunks" or "windows"; None if it is cut off."""
        task = TASKS.get(self.metrics.get("task"))
        if task is not None and task.has_windows:
            return "windows"
        return "chunks" if self.is_frozen and chunk_size(self.recipe["freeze"]) else None


def read_run(directory, name=None):
    """Reads what `finetune` left in `directory`, which must be finished."""
    directory = pathlib.Path(directory)
    return FinetuneRun(
        name or directory.resolve().name,
        str(directory),
        read_metrics(directory, "fine-tuning", "finetune", check_metrics),
        read_recipe(directory),
        read_curve(directory, "history.csv"),
        read_curve(directory, "steps.csv"),
    )


def write_report(directories, path=None, title="Fine-tuning report"):
    """Writes a page: a verdict, results, learning curves, each class, lengths, what was run.

    The page needs no other file and no network. Without Matplotlib it has no figures, which is
    logged.

    Args:
        directories: an output directory of `finetune`, or a dict, name -> directory, to compare
            several runs.
        path: where to write; default `report.html` in the only directory.
        title: str. The heading.

    Returns:
        The path written, as a `pathlib.Path`.

    Raises:
        FileNotFoundError: if a directory holds no finished fine-tuning.

    Example:

    >>> write_report({"short, then long": "out"}, "report.html").name
    'report.html'
    """
    if not isinstance(directories, dict):
        path = pathlib.Path(directories) / "report.html" if path is None else path
        directories = {None: directories}
    if path is None:
        raise ValueError("A report on several directories needs a `path` to be written to.")
    runs = [read_run(directory, name) for name, directory in directories.items()]
    metrics = [run.metrics for run in runs]
    sections = [
        *(f"<p class=verdict>{escaped(_named(verdict(run), run, runs))}</p>" for run in runs),
        section("Results", _results(runs)),
        _by_length(runs),
        *(section(_of("Learning curves", run, runs), _learning(run)) for run in runs),
        *(section(_of("Confusion matrix", run, runs), _confusion(run)) for run in runs),
        *(section(_of("Each class", run, runs), _classes(run)) for run in runs),
        section("Document lengths", _lengths(runs)),
        *(section(_of("About this run", run, runs), _about(run)) for run in runs),
        section("Settings", settings({run.name: run.recipe for run in runs}, metrics)),
    ]
    path = pathlib.Path(path)
    write_page(path, title, sections, "write_report")
    return path


def _about(run):
    return about("finetune", run.directory, run.recipe, run.metrics)


def _named(words, run, runs):
    return words if len(runs) == 1 else f"{run.name}: {words}"


def _of(heading, run, runs):
    return heading if len(runs) == 1 else f"{heading}: {run.name}"


def _share(group, key):
    """A score, with its interval if it has one: 84.2% (83.4–85.0)."""
    if not group or not isinstance(group.get(key), float):  # of each class, in another task
        return "–"
    if "interval" not in group:
        return f"{group[key]:.3f}"
    low, high = group["interval"]
    return f"{group[key]:.1%} ({100 * low:.1f}–{100 * high:.1f})"


def _results(runs):
    sets = [(run, name) for run in runs for name in SETS if run.metrics[name]]
    if not sets:
        return ""  # the verdict reports it
    scores = {key: title for run in runs for key, title in run.scores.items()}
    first, *others = scores
    with_interval = any("interval" in run.metrics[name] for run, name in sets)
    columns = ["run", "set", "documents", scores[first] + " (95% interval)" * with_interval,
               *(scores[key] for key in others),
               "over 512 tokens", f"{scores[first]} over 512 tokens",
               "read", "training"]  # fmt: skip
    rows = []
    for run, name in sets:
        train, metrics = run.metrics["train"], run.metrics[name]
        long = metrics["long"]
        read = "both ends, in all" if run.recipe.get("longer") == "ends" else "the first"
        read = f"all, in {run.parts} of" if run.parts else read
        rows.append([
            run.name, name, f"{metrics['documents']:,}", _share(metrics, first),
            *(f"{x:.3f}" if isinstance(x, float) else "–" for x in map(metrics.get, others)),
            f"{long['documents']:,}" if long else "0", _share(long, first),
            f"{read} {train['max_length']:,} tokens", f"{train['seconds'] / 60:.1f} min",
        ])  # fmt: skip
    return table(columns, rows)


def _learning(run):
    key, title = run.headline
    what = f"Loss and {title} over the epochs."
    return picture(what, plot.learning_curves, run.history, run.steps, key, title, size=(8.6, 3.6))


def _by_length(runs):
    """A section on the first score that groups of lengths have."""
    judged = {run.name: run.judged[1]["by_length"] for run in runs if run.judged}
    titles = {key: title for run in runs for key, title in run.scores.items()}
    present = (key for key in titles if any(key in groups[0] for groups in judged.values()))
    if (key := next(present, None)) is None:
        return ""
    title, what = titles[key], f"The {titles[key]} of the documents of each group of lengths."
    series = {name: groups for name, groups in judged.items() if key in groups[0]}
    names = " and ".join(sorted({run.judged[0] for run in runs if run.judged}))
    has_interval = any("interval" in group for groups in series.values() for group in groups)
    body = (
        picture(what, plot.score_by_length, series, key, title, size=(8.6, 3.8))
        + f"<p class=note>{names.capitalize()} documents. "
        + "Lines: 95% intervals (Wilson). " * has_interval
        + "Numbers at the foot: documents in the group.</p>"
    )
    return section(f"{title[0].upper()}{title[1:]} by document length", body)


def _classes(run):
    """Precision, recall and F1 of the classes of a task that has no confusion matrix."""
    if not run.judged or not run.judged[1].get("classes"):
        return ""
    rows = [
        (name, each["support"], *(f"{each[key]:.3f}" for key in ("precision", "recall", "f1")))
        for name, each in run.judged[1]["classes"].items()
    ]
    return table(["class", "support", "precision", "recall", "F1"], rows)


def _confusion(run):
    if not run.judged or "confusion" not in run.judged[1]:
        return ""
    name, metrics = run.judged
    labels, matrix = run.metrics["labels"], metrics["confusion"]
    height = min(3 + 0.24 * len(labels), 8)
    what = "Confusion matrix: documents by true and predicted class."
    classes = [
        (label, sum(row), f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}")
        for label, row, precision, recall, f1 in zip(
            labels, matrix, metrics["precision"], metrics["recall"], metrics["f1"], strict=True
        )
    ]
    return (
        picture(what, plot.confusion_matrix, matrix, labels, size=(min(height + 2, 8.6), height))
        + f"<p class=note>{metrics['documents']:,} {name} documents.</p>"
        + details("Most frequent confusions", _confusions(labels, matrix))
        + details("Each class", table(["class", "documents", "precision", "recall", "F1"], classes))
    )


def _confusions(labels, matrix, most=10):
    pairs = [
        (count, true, predicted)
        for true, row in zip(labels, matrix, strict=True)
        for predicted, count in zip(labels, row, strict=True)
        if count and predicted != true
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [(true, predicted, count) for count, true, predicted in pairs[:most]]
    if not rows:
        return "<p>None.</p>"
    return table(["true class", "predicted class", "documents"], rows)


def _lengths(runs):
    # Runs side by side usually share their documents: those of the first stand for all.
    series = {"training": runs[0].metrics["train"]["lengths"]}
    if runs[0].judged:
        name, metrics = runs[0].judged
        series[name] = metrics["lengths"]
    marks = sorted({run.metrics["train"]["max_length"] for run in runs if not run.parts})
    what = "Documents by their length in tokens."
    return picture(what, plot.length_histogram, series, marks, size=(8.6, 3.6))


UNFREEZE, LONGER = "Train all weights, without freeze", "Train for longer"
NOT_JUDGED = (
    "Not evaluated: no validation and no test documents were given, so there is no score. "
    "validation=0.2 (--validation 0.2) holds out a fifth of the documents."
)


def verdict(run):
    """Judges a `FinetuneRun` by the score that matters most on documents that are new to it."""
    if not run.judged:
        return NOT_JUDGED
    role, metrics = run.judged
    compared = compared_with_baselines(metrics, run.scores, role)
    return " ".join(filter(None, (_alone(run, role, metrics), compared)))


def _alone(run, role, metrics):
    """The verdict without the baselines of a run."""
    key = next((key for key in run.scores if key in metrics), None)
    title, documents = run.scores[key], f"{metrics['documents']:,} {role} documents"
    if "confusion" in metrics and "interval" in metrics and key == "accuracy":
        return _accuracy(metrics, documents, run.is_frozen)
    if key in ("spearman", "pearson"):
        return _correlation(metrics[key], metrics["documents"], title, documents, run.is_frozen)
    return (
        f"{title[:1].upper()}{title[1:]} is {metrics[key]:.3f} on {documents}. Compare it with "
        "what a simple rule reaches on the same documents before you rely on it."
    )


def _accuracy(metrics, documents, is_frozen):
    """Against the class that is the most frequent one in the very documents."""
    counts = [sum(row) for row in metrics["confusion"]]
    constant, (low, high) = max(counts) / max(sum(counts), 1), metrics["interval"]
    measured = (
        f"accuracy is {metrics['accuracy']:.1%} on {documents} (95% interval {100 * low:.1f}–"
        f"{100 * high:.1f}), and that rule gives {constant:.1%}"
    )
    rule = "always predicting the most frequent class"
    if low > constant:
        return f"Better than {rule}: {measured}."
    if high < constant:
        remedy = UNFREEZE if is_frozen else "Train longer, or with another learning rate"
        return f"Worse than {rule}: {measured}. {remedy}."
    return (
        f"Not shown to be better than {rule}: {measured}, which is within the interval. "
        f"{UNFREEZE if is_frozen else LONGER}, or evaluate on more documents."
    )


def _correlation(value, count, title, documents, is_frozen):
    bound = min(1.96 / max(count - 1, 1) ** 0.5, 1.0)
    measured = f"{title} is {value:.3f} on {documents}; predictions without any relation to the "
    measured += f"numbers stay below {bound:.2f} in 39 of 40 cases"
    if value > bound:
        return f"Better than chance: {measured}."
    return f"Not shown to be better than chance: {measured}. {UNFREEZE if is_frozen else LONGER}."
