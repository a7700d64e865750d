"""Metrics and predictions as text for a terminal or for another program."""

import json


def summary(metrics):
    """The main numbers of `finetune` or `evaluate`, as lines to print.

    Args:
        metrics: dict with metrics (see `classification`) under "validation" or "test".

    Returns:
        str, a table with one row a set of documents and one a group of lengths.

    Example:

    >>> print(summary(evaluate("out", "test.tsv")))
                              documents  accuracy  (95% interval)   macro F1    loss
    test                            400     84.2%  (80.4% – 87.5%)     0.836   0.512
      1–128 tokens                  120     85.0%  (77.5% – 90.3%)
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
    """One line a `Prediction`: the label, a tab, its probability.

    Example:

    >>> print(to_tsv(predict("out", ["A text."])))
    sci.space	0.9312
    """
    return "\n".join(f"{each.label}\t{each.probability:.4f}" for each in predictions)


def to_jsonl(predictions):
    """One JSON object a `Prediction`: label, probability, and the probabilities of all labels."""
    return "\n".join(json.dumps(each._asdict(), ensure_ascii=False) for each in predictions)
