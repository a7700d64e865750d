"""What a stretching reports: the features that it preserves, by their position."""

import numpy as np

from keras_posenc.training.summary import of_metrics

# Of the old length: how many pieces the agreement by position has.
PIECES = 4
MEASURES = ("before", "after", "teacher")


def by_piece(cosines, old_length):
    """Averages cosines (T,) over pieces whose length is a fraction of the old length."""
    size = max(1, old_length // PIECES)
    return [round(float(cosines[i : i + size].mean()), 5) for i in range(0, len(cosines), size)]


def agreement_table(old_length, length, **measures):
    """A dict of the agreement by position: a row for each piece, and means within and beyond the
    old length. `measures` are lists of cosines by piece, for each of `MEASURES`.

    Example:

    >>> table = agreement_table(4, 5, before=[0.5] * 5, after=[0.75] * 5, teacher=[1.0] * 5)
    >>> table["beyond"], table["agreement"][-1]["from"]
    ({'before': 0.5, 'after': 0.75, 'teacher': 1.0}, 4)
    """
    size = max(1, old_length // PIECES)
    rows = [
        {"from": i * size, "to": min((i + 1) * size, length)}
        | dict(zip(MEASURES, cosines, strict=True))
        for i, cosines in enumerate(zip(*(measures[name] for name in MEASURES), strict=True))
    ]
    parts = {"within": rows[:PIECES], "beyond": rows[PIECES:]}
    means = {
        part: {name: round(float(np.mean([row[name] for row in some])), 4) for name in MEASURES}
        for part, some in parts.items()
    }
    return {**means, "agreement": rows}


@of_metrics
def stretch_summary(report):
    """Formats the main numbers of `stretch` as a table.

    Args:
        report: dict, as `stretch` returns.

    Returns:
        str.

    Example:

    >>> _, report = stretch("bert", "train.tsv", max_length=24, steps=2, verbose=False)
    >>> print(stretch_summary(report))
    tokens                     before     after   teacher with itself
    1–16...
    17–24...
    distant context...
    Mean cosine of features; 2 steps in ... s.
    """
    lines = [f"{'tokens':22}{'before':>11}{'after':>10}{'teacher with itself':>22}"]
    old, new = report["old_length"], report["agreement"][-1]["to"]
    names = {"within": f"1–{old:,}", "beyond": f"{old + 1:,}–{new:,}"}
    for part, name in names.items():
        row = report[part]
        lines.append(f"{name:22}{row['before']:>11.3f}{row['after']:>10.3f}{row['teacher']:>22.3f}")
    context = report["context"]
    lines.append(
        f"{'distant context':22}{context['before']:>11.3f}{context['after']:>10.3f}{1:>22.3f}"
    )
    steps = len(report["losses"])
    lines.append(f"Mean cosine of features; {steps:,} steps in {report['seconds']:,.0f} s.")
    return "\n".join(lines)
