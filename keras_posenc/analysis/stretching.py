"""A self-contained HTML report on a stretched encoder."""

from keras_posenc.analysis import plot
from keras_posenc.analysis.about import write_run_page
from keras_posenc.analysis.page import details, escaped, picture, section, table
from keras_posenc.analysis.run_files import ORIGIN, STEPS, read_metrics
from keras_posenc.files import saved_records as e

ROW = {"from": e.count, "to": e.count, "before": e.score, "after": e.score, "teacher": e.score}
METRICS = e.keys(
    {"agreement": e.every(e.keys(ROW), fewest=1), "old_length": e.count, **STEPS},
    {"context": e.keys({"before": e.score, "after": e.score}), **ORIGIN},
)


def write_stretch_report(directory, path=None, title="Stretching report"):
    """Writes a page: agreement with the unstretched encoder by position, losses, settings.

    The page needs no other file and no network. Without Matplotlib it has no figures, which is
    logged.

    Args:
        directory: the output directory of `training.stretch`.
        path: where to write; default `report.html` in `directory`.
        title: str. The heading.

    Returns:
        The path written, as a `pathlib.Path`.

    Raises:
        FileNotFoundError: if `directory` holds no finished stretching.

    Example:

    >>> _ = stretch("bert", "train.tsv", "stretched", max_length=24, steps=2, verbose=False)
    >>> write_stretch_report("stretched", "report.html").name
    'report.html'
    """
    report = read_metrics(directory, "stretching", "stretch", METRICS)
    rows, old = report["agreement"], report["old_length"]
    what = "Cosine of the features with the unstretched encoder's, by position."
    parts = [
        f"<p class=verdict>{escaped(_verdict(report))}</p>",
        section(
            "Agreement by position",
            picture(what, plot.agreement_by_position, rows, old, size=(8.6, 3.8))
            + "<p class=note>The unstretched encoder reads windows of its own length; a token's "
            "features are those of the window in which it stands most centrally. It reads twice, "
            "its windows shifted by a quarter; the dashed line is how far the two agree.</p>"
            + details("Numbers", table(["tokens", "before", "after", "teacher"], _numbers(rows))),
        ),
        section("Distant context", _context(report)),
    ]
    return write_run_page("stretch", directory, path, title, report, parts)


def _verdict(report):
    """Whether training has moved the features towards the teacher's."""
    old = report["old_length"]
    rows = [row for row in report["agreement"] if row["to"] > old] or report["agreement"]
    before, after = (sum(row[name] for row in rows) / len(rows) for name in ("before", "after"))
    words = (
        f"the features beyond token {old:,} agree with the unstretched encoder's by a cosine of "
        f"{after:.3f}; before training it was {before:.3f}"
    )
    context = report.get("context")  # not of an earlier version
    if context:
        words += f". Distant context is {context['after']:.3f}, and was {context['before']:.3f}"
    if not report["losses"]:
        return f"Not trained: {words}."
    if after <= before:
        remedy = "Train on more text or with a smaller learning rate."
        return f"No closer to the unstretched encoder: {words}. {remedy}"
    return f"Closer to the unstretched encoder than before training: {words}."


def _numbers(rows):
    return [
        (f"{row['from'] + 1:,}–{row['to']:,}",
         *(f"{row[name]:.3f}" for name in ("before", "after", "teacher")))
        for row in rows
    ]  # fmt: skip


def _context(report):
    if "context" not in report:  # of an earlier version
        return ""
    context = report["context"]
    rows = [(name, f"{context[name]:.3f}") for name in ("before", "after")]
    return table(["training", "kept"], rows) + (
        "<p class=note>A text is read with its opening and with that of another text. Kept is how "
        "much of what this changes in the unstretched encoder's features of a distant passage, "
        "read right after the opening, it changes in the stretched encoder's, which reads the "
        "whole text: 0 is nothing, 1 as much.</p>"
    )
