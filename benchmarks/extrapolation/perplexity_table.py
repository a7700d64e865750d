"""The table of perplexities of one set of tokens, read with more and more context."""

import math
import statistics

from benchmarks.extrapolation.table import name_of


def perplexity_table(results, figure=None):
    """Formats results of causal language models as a Markdown table of perplexities.

    The columns are the lengths of the windows that were read, from the longest training length on.
    All are scored on the same tokens, the last of each window. A row that does not rise loses
    nothing from a longer text, and a row that falls uses it. A cell has the mean of the seeds and,
    in parentheses, the lowest and the highest. The column "longest against trained" is the ratio of
    the last column to the first, seed by seed. If it is below 1 with every seed, distant context
    helps.

    Args:
        results: list of dict, as `bench` returns. Those without `by_context` are left out.
        figure: function or None. Maps (result, split) to the published figure of a row, or None.
            The figures make the last column.

    Returns:
        str; empty if there are no perplexities.

    Example:

    >>> run = {"task": "language_model", "model": "transformer", "positions": "consecutive"}
    >>> run |= {"encodings": "alibi", "by_context": {"test": {"64": 1.2, "128": 1.1}}}
    >>> print(perplexity_table([run]))
    | language_model | 64 | 128 | longest against trained |
    |---|---|---|---|
    | alibi | 3.32 | 3.00 | 0.905 |
    """
    rows, tables, papers = {}, [], {}
    for result in results:
        for split, losses in result.get("by_context", {}).items():
            task = result["task"] if split == "test" else f"{result['task']}, {split}"
            rows.setdefault((task, *losses), {}).setdefault(name_of(result), []).append(losses)
            if figure is not None:
                papers[task, name_of(result)] = figure(result, split) or "–"
    for (task, *lengths), lines in rows.items():
        heads = [task, *lengths, "longest against trained", *["published"] * bool(papers)]
        cells = [
            [name, *_cells(seeds, lengths), *[papers.get((task, name))] * bool(papers)]
            for name, seeds in lines.items()
        ]
        written = [f"| {' | '.join(row)} |" for row in (heads, *cells)]
        tables.append("\n".join([written[0], f"|{'---|' * len(heads)}", *written[1:]]))
    return "\n\n".join(tables)


def _cells(seeds, lengths):
    for length in lengths:
        yield _ranged([math.exp(losses[length]) for losses in seeds], 2)
    yield _ranged([math.exp(losses[lengths[-1]] - losses[lengths[0]]) for losses in seeds], 3)


def _ranged(values, digits):
    ends = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{ends}"
