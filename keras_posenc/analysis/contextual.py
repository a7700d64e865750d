"""A self-contained HTML report on a contextual training."""

from keras_posenc.analysis import plot
from keras_posenc.analysis.about import write_run_page
from keras_posenc.analysis.page import details, escaped, picture, section, table
from keras_posenc.analysis.run_files import ORIGIN, STEPS, read_metrics
from keras_posenc.files import saved_records as e
from keras_posenc.training.summary import WAYS, left_out_summary

LEAST = 0.95  # rank correlation with the original, below which sentences have changed places
ROW = {"tokens": e.count, **dict.fromkeys(WAYS, e.score)}
EXAMPLE = {
    "query": e.text,
    "passage": e.text,
    "document": e.text,
    "tokens": e.count,
    "found": e.by_name(e.text),
}
METRICS = e.keys(
    {
        "found": e.every(e.keys(ROW), fewest=1),
        "chance": e.score,
        "sentences": e.keys({"similarity": e.number, "agreement": e.number}),
        "examples": e.every(e.keys(EXAMPLE)),
        "targets": e.text,
        **STEPS,
    },
    ORIGIN | {"left_out": e.by_name(e.count)},
)


def write_contextual_report(directory, path=None, title="Contextual training report"):
    """Writes a page: what is found by a distant name before and after, examples, losses, settings.

    The page needs no other file and no network. Without Matplotlib it has no figures, which is
    logged.

    Args:
        directory: the output directory of `training.contextualize`.
        path: where to write; default `report.html` in `directory`.
        title: str. The heading.

    Returns:
        The path written, as a `pathlib.Path`.

    Raises:
        FileNotFoundError: if `directory` holds no finished training.

    Example:

    >>> from keras_posenc.training import contextualize
    >>> story = "Ada is here. Ada reads well. Ada was kind. I saw Ada sleep. We like Ada. "
    >>> texts = [story.replace("Ada", name) for name in ("Ada", "Otto", "Nora")]
    >>> _ = contextualize("bert", texts, "contextual", test=texts, steps=2, max_length=200,
    ...                   train_length=128, verbose=False)
    >>> write_contextual_report("contextual", "report.html").name
    'report.html'
    """
    report = read_metrics(directory, "contextual training", "contextualize", METRICS)
    found, chance = report["found"], report["chance"]
    what = "Passages found first, by the distance back to the name."
    heads = ["tokens back to the name", *WAYS.values()]
    rows = [[f"{row['tokens']:,}", *(f"{row[way]:.0%}" for way in WAYS)] for row in found]
    parts = [
        f"<p class=verdict>{escaped(verdict(report))}</p>",
        section(
            "Passages found by a name far before them",
            picture(what, plot.found_by_distance, found, WAYS, chance, size=(8.6, 3.8))
            + "<p class=note>Held-out texts are copied with other names in their first sentence; "
            "later passages have a pronoun in place of the name. The query has the name, and the "
            "passage of the right copy should be the nearest.</p>"
            + details("Numbers", table(heads, rows)),
        ),
        section("Examples", _examples(report)),
    ]
    return write_run_page("contextualize", directory, path, title, report, parts)


def verdict(report):
    """What was found far from the name, before and after, and what it cost; then a remedy."""
    far = [row for row in report["found"] if row["tokens"] > 512] or report["found"]
    windows, trained = (sum(row[way] for row in far) / len(far) for way in ("windows", "trained"))
    similarity, cosine = (report["sentences"][key] for key in ("similarity", "agreement"))
    what = "name more than a window" if far[0]["tokens"] > 512 else "distant name"
    found = (
        f"By a {what} before them, {trained:.0%} of the passages are found after training, and "
        f"{windows:.0%} by the original encoder in windows; chance is {report['chance']:.0%}. "
    )
    if not report["losses"]:
        return f"Nothing was trained. {found}".strip()
    cost = (
        f"Vectors of single sentences have the cosine {cosine:.3f} with the original, and their "
        f"similarities correlate by {similarity:.3f} with it"
    )
    if trained <= windows:
        return f"{found}{cost}. Training brought nothing: give more texts or more steps."
    if similarity < LEAST:
        return f"{found}{cost}, below {LEAST}: take fewer steps or a smaller learning rate."
    return f"{found}{cost}."


def _examples(report):
    parts = []
    for example in report["examples"]:
        right = example["document"]
        rows = [
            (title, example["found"][way], "right" if example["found"][way] == right else "wrong")
            for way, title in WAYS.items()
        ]
        parts.append(
            f"<p>Query: {escaped(example['query'])}</p>"
            f"<p>Passage, {example['tokens']:,} tokens after the name: "
            f"{escaped(example['passage'])}</p>"
            + table(["way", "beginning of the document found", ""], rows)
        )
    if left_out := left_out_summary(report.get("left_out", {})):
        parts.append(f"<p class=note>In the texts that were trained on, {escaped(left_out)}.</p>")
    return "".join(parts)
