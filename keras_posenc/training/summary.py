"""Metrics and predictions as text, for a terminal or another program."""

import json


def summary(metrics):
    """Formats the main numbers of `finetune` or `evaluate` as a table.

    Args:
        metrics: dict with metrics (see `classification`) under "validation" or "test".

    Returns:
        str, one row per set of documents and one per length group.

    Example:

    >>> print(summary(evaluate("out", "test.tsv", verbose=0)))
                              documents  accuracy  (95% interval)   macro F1    loss
    test                             24 ...
      1–128 tokens                   24 ...
    """
    lines = [
        f"{'':26}{'documents':>9}{'accuracy':>10}  {'(95% interval)':16}{'macro F1':>9}{'loss':>8}"
    ]
    for role in ("validation", "test"):
        if part := metrics.get(role):
            lines.append(f"{_row(role, part)}{part['macro_f1']:>9.3f}{part['loss']:>8.3f}")
            lines += [_row(f"  {_tokens(group)}", group).rstrip() for group in part["by_length"]]
    if train := metrics.get("train"):
        lines.append(
            f"Trained on {train['documents']:,} documents for {train['epochs']} epochs, "
            f"{train['steps']:,} steps, in {train['seconds']:,.0f} s."
        )
    return "\n".join(lines if len(lines) > 2 or not train else lines[1:])


def _row(name, group):
    low, high = group["interval"]
    interval = f"({low:.1%} – {high:.1%})"
    return f"{name:26}{group['documents']:>9,}{group['accuracy']:>10.1%}  {interval:16}"


def _tokens(group):
    if group["up_to"] is None:
        return f"over {group['more_than']:,} tokens"
    return f"{group['more_than'] + 1:,}–{group['up_to']:,} tokens"


def to_tsv(predictions):
    """Formats predictions one per line: the label, a tab, its probability.

    Args:
        predictions: list of `Prediction`.

    Returns:
        str.

    Example:

    >>> to_tsv([Prediction("b", 0.75, {"a": 0.25, "b": 0.75})])
    'b\\t0.7500'
    """
    return "\n".join(f"{each.label}\t{each.probability:.4f}" for each in predictions)


def to_jsonl(predictions):
    """Formats predictions as JSON lines: label, probability, and the probabilities of all labels.

    Args:
        predictions: list of `Prediction`.

    Returns:
        str.

    Example:

    >>> print(to_jsonl([Prediction("b", 0.75, {"a": 0.25, "b": 0.75})]))
    {"label": "b", "probability": 0.75, "probabilities": {"a": 0.25, "b": 0.75}}
    """
    return "\n".join(json.dumps(each._asdict(), ensure_ascii=False) for each in predictions)
