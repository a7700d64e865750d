"""Metrics and predictions as text for terminals and other programs."""

import functools
import json
import math

from keras_posenc.files.untrusted import cell, shorten, visible_json

SCORES = {"accuracy": "accuracy", "macro_f1": "macro F1", "loss": "loss"}  # of older files
# How `contextualize` finds a passage -> its title.
WAYS = {
    "windows": "in windows",
    "first_sentence": "with the first sentence",
    "trained": "after training",
}


def of_metrics(summarize):
    """Makes one clear error of what a summary does not find in metrics, as from a damaged file."""

    @functools.wraps(summarize)
    def checked(*args, **kwargs):
        try:
            return summarize(*args, **kwargs)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise ValueError(
                f"The metrics are damaged, or are of another function ({shorten(error)}). Restore "
                "metrics.json, or run again with overwrite=True (--overwrite)."
            ) from None

    return checked


@of_metrics
def summary(metrics):
    """Formats the main numbers of `finetune` or `evaluate` as a table.

    Args:
        metrics: dict with metrics under "validation" or "test", and the titles of its `scores`.

    Returns:
        str, one row per set of documents and one per length group.

    Example:

    >>> print(summary(evaluate("out", "test.tsv", verbose=0)))
                              documents  accuracy  (95% interval)   macro F1    loss
    test                             24 ...
      1–128 tokens                   24 ...
    """
    scores = metrics.get("scores", SCORES)
    parts = {role: metrics[role] for role in ("validation", "test") if metrics.get(role)}
    shown = {key: title for key, title in scores.items() if any(key in p for p in parts.values())}
    first, *others = shown or ["accuracy"]
    has_intervals = any("interval" in part for part in parts.values())
    interval = f"  {'(95% interval)':16}" if has_intervals else ""
    widths = {key: max(len(shown[key]) + 1, 8) for key in others}
    head = f"{'':26}{'documents':>9}{shown.get(first, first):>{_wide(first, shown)}}{interval}"
    lines = [head + "".join(f"{shown[key]:>{width}}" for key, width in widths.items())]
    for role, part in parts.items():
        more = "".join(f"{part[key]:>{width}.3f}" for key, width in widths.items())
        lines.append(_row(role, part, first, shown) + more)
        key = next((key for key in shown if key in part["by_length"][0]), first)
        groups = part["by_length"] if key == first else []
        lines += [_row(f"  {_tokens(each)}", each, first, shown).rstrip() for each in groups]
        for title, scores in part.get("baselines", {}).items():
            row = {name: scores.get(name, float("nan")) for name in (first, *others)}
            cell = f"{row[first]:.1%}" if has_intervals else f"{row[first]:.3f}"
            more = "".join(f"{row[key]:>{width}.3f}" for key, width in widths.items())
            start = f"{title:26}{part['documents']:>9,}{cell:>{_wide(first, shown)}}"
            lines.append(f"{start}{'':{len(interval)}}{more}".replace("nan", "  –"))
    lines += [line for role, part in parts.items() if (line := verdict(part, shown, role))]
    if train := metrics.get("train"):
        counts = (
            (train["documents"], "document"),
            (train["epochs"], "epoch"),
            (train["steps"], "step"),
        )
        documents, epochs, steps = (f"{n:,} {unit}{'s' * (n != 1)}" for n, unit in counts)
        lines.append(f"Trained on {documents} for {epochs}, {steps}, in {train['seconds']:,.0f} s.")
    return "\n".join(lines if parts or not train else lines[1:])


def verdict(part, scores, role):
    """Whether a model is better than the simplest baselines, as a sentence; None without any."""
    baselines = part.get("baselines") or {}
    names = [key for key in scores if any(key in each for each in baselines.values())]
    name = next((key for key in names if key != "loss" and key in part), None)
    if name is None:
        return None
    sign = -1 if name.endswith("error") else 1
    title = max(baselines, key=lambda each: sign * baselines[each].get(name, -sign * math.inf))
    score, best = part[name], baselines[title][name]
    shown = f"{scores[name]} on {role} {score:.3f}, {title} {best:.3f}"
    if sign * score <= sign * best:
        return f"The training did not pay: {shown}."
    if name == "accuracy" and "interval" in part and part["interval"][0] <= best:
        return f"Whether the training paid is uncertain: {shown}, which is within the interval."
    return f"The training paid: {shown}."


def _wide(first, shown):
    return max(len(shown.get(first, first)) + 2, 10)


def _row(name, group, first, shown):
    """The name, the documents and the first score, as a share with its interval if it has one."""
    width = _wide(first, shown)
    start = f"{name:26}{group['documents']:>9,}"
    if "interval" not in group:
        return f"{start}{group[first]:>{width}.3f}"
    low, high = group["interval"]
    interval = f"({low:.1%} – {high:.1%})"
    return f"{start}{group[first]:>{width}.1%}  {interval:16}"


def _tokens(group):
    if group["up_to"] is None:
        return f"over {group['more_than']:,} tokens"
    return f"{group['more_than'] + 1:,}–{group['up_to']:,} tokens"


@of_metrics
def pretrain_summary(metrics):
    """Returns the main numbers of `pretrain` as a table.

    Args:
        metrics: dict, as `pretrain` returns.

    Example:

    >>> measured = {"loss": 2.0, "accuracy": 0.5}
    >>> metrics = {"before": measured, "after": measured, "losses": [2.0, 2.0], "seconds": 1.0}
    >>> print(pretrain_summary(metrics))
                      before     after
    loss               2.000     2.000
    accuracy           50.0%     50.0%
    2 steps in 1 s.
    """
    before, after = metrics["before"], metrics["after"]
    return "\n".join(
        [
            f"{'':14}{'before':>10}{'after':>10}",
            f"{'loss':14}{before['loss']:>10.3f}{after['loss']:>10.3f}",
            f"{'accuracy':14}{before['accuracy']:>10.1%}{after['accuracy']:>10.1%}",
            f"{len(metrics['losses']):,} steps in {metrics['seconds']:,.0f} s.",
        ]
    )


@of_metrics
def stretch_summary(report):
    """Returns the main numbers of `stretch` as a table.

    Args:
        report: dict, as `stretch` returns.

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


@of_metrics
def contextual_summary(report):
    """Returns the main numbers of `contextualize` as a table.

    Args:
        report: dict, as `contextualize` returns.

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


def to_tsv(predictions):
    """Returns predictions as text, one per line, with tabs: of a classifier label and probability.

    A cell that begins with =, +, - or @ and is no number gets an apostrophe in front: a spreadsheet
    would run it as a formula. Control characters are escaped. `to_jsonl` keeps labels as they are.

    Args:
        predictions: what `predict` returns.

    Example:

    >>> to_tsv([Prediction("b", 0.75, {"a": 0.25, "b": 0.75})])
    'b\\t0.7500'
    """
    rows = [each.cells() for each in predictions]
    return "\n".join("\t".join(map(cell, row)) for row in rows)


def to_jsonl(predictions):
    """Returns predictions as JSON lines, with all their fields.

    Args:
        predictions: what `predict` returns.

    Example:

    >>> print(to_jsonl([Prediction("b", 0.75, {"a": 0.25, "b": 0.75})]))
    {"label": "b", "probability": 0.75, "probabilities": {"a": 0.25, "b": 0.75}}
    """
    lines = (json.dumps(each._asdict(), ensure_ascii=False) for each in predictions)
    return "\n".join(map(visible_json, lines))
