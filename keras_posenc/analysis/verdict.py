"""The verdict of a report in one sentence: better or worse than what needs no model."""

NOT_JUDGED = (
    "Not evaluated: no validation and no test documents were given, so there is no score. "
    "validation=0.2 (--validation 0.2) holds out a fifth of the documents."
)


def verdict(run):
    """Judges a run by the score that matters most on the documents that it was not trained on.

    Args:
        run: `FinetuneRun`.

    Returns:
        str.
    """
    if not run.judged:
        return NOT_JUDGED
    role, metrics = run.judged
    key = next((key for key in run.scores if key in metrics), None)
    title, documents = run.scores[key], f"{metrics['documents']:,} {role} documents"
    if "confusion" in metrics and "interval" in metrics and key == "accuracy":
        return _accuracy(metrics, documents)
    if key in ("spearman", "pearson"):
        return _correlation(metrics[key], metrics["documents"], title, documents)
    return (
        f"{_capital(title)} is {metrics[key]:.3f} on {documents}. Compare it with what a simple "
        "rule reaches on the same documents before you rely on it."
    )


def _accuracy(metrics, documents):
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
        return f"Worse than {rule}: {measured}. Train longer, or with another learning rate."
    return (
        f"Not shown to be better than {rule}: {measured}, which is within the interval. Train for "
        "longer, or evaluate on more documents."
    )


def _correlation(value, count, title, documents):
    bound = min(1.96 / max(count - 1, 1) ** 0.5, 1.0)
    measured = f"{title} is {value:.3f} on {documents}; predictions without any relation to the "
    measured += f"numbers stay below {bound:.2f} in 39 of 40 cases"
    if value > bound:
        return f"Better than chance: {measured}."
    return f"Not shown to be better than chance: {measured}. Train for longer."


def _capital(words):
    return words[:1].upper() + words[1:]
