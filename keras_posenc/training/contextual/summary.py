"""The main numbers of a contextual training as a table."""

from keras_posenc.training.summary import of_metrics

WAYS = {
    "windows": "in windows",
    "first_sentence": "with the first sentence",
    "trained": "after training",
}


@of_metrics
def contextual_summary(report):
    """Formats the main numbers of `contextualize` as a table.

    Args:
        report: dict, as `contextualize` returns.

    Returns:
        str.

    Example:

    >>> from keras_posenc.training import contextual_summary
    >>> row = {"tokens": 812, "windows": 0.25, "first_sentence": 1.0, "trained": 0.95}
    >>> kept = {"similarity": 0.98, "agreement": 0.99}
    >>> report = {"found": [row], "chance": 0.25, "sentences": kept, "losses": [2.0, 1.5],
    ...           "seconds": 190, "targets": "30 names and 60 words of 8 of 9 texts"}
    >>> print(contextual_summary(report))
    tokens back to the name   in windows   with the first sentence   after training
                        812         25%                      100%              95%
    Passages of held-out texts found by a name far before them; chance is 25%.
    Single sentences: rank correlation of their similarities with the original 0.980, cosine 0.990.
    Trained on 30 names and 60 words of 8 of 9 texts, 2 steps in 190 s.
    """
    head = "tokens back to the name"
    lines = [head + "".join(f"   {title}" for title in WAYS.values())]
    for row in report["found"]:
        cells = (f"   {row[way]:>{len(title) - 1}.0%} " for way, title in WAYS.items())
        lines.append(f"{row['tokens']:>{len(head)},}" + "".join(cells).rstrip())
    kept = report["sentences"]
    return "\n".join([
        *lines,
        f"Passages of held-out texts found by a name far before them; chance is "
        f"{report['chance']:.0%}.",
        f"Single sentences: rank correlation of their similarities with the original "
        f"{kept['similarity']:.3f}, cosine {kept['agreement']:.3f}.",
        f"Trained on {report['targets']}, {len(report['losses']):,} steps in "
        f"{report['seconds']:,.0f} s.",
    ])  # fmt: skip


def left_out_summary(left_out):
    """How many repeated capitalised words are no names, and why, as a line; "" if there is none.

    Example:

    >>> left_out_summary({"also in lower case": 2, "behind an article": 1})
    '3 capitalised words are no names (2 also in lower case, 1 behind an article)'
    """
    reasons = [f"{count:,} {reason}" for reason, count in sorted(left_out.items())]
    total = sum(left_out.values())
    return f"{total:,} capitalised words are no names ({', '.join(reasons)})" if reasons else ""
