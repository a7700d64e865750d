"""What a benchmark found: tables of its results, and the lines of its pictures."""

import json
import pathlib
import statistics


def read_results(*paths):
    """The results in these files, results.json of a benchmark's folder or of another name.

    Example:

    >>> results = read_results("bench/results.json")
    """
    return [
        result for path in paths for result in json.loads(pathlib.Path(path).read_text("utf-8"))
    ]


def name_of(result):
    """How a line is called: the model unless it is a transformer, its encodings and positions."""
    if result["model"] not in ("transformer", "gau"):
        return result["model"]
    words = [] if result["model"] == "transformer" else [result["model"]]
    words.append(result["encodings"])
    if result["positions"] != "consecutive":
        words.append(f"{result['positions']} ids")
    return " ".join(words)


def grouped(results):
    """The results of all seeds together: dict (task, split) -> dict name -> list of results."""
    found = {}
    for result in results:
        for split in result["accuracy"]:
            lines = found.setdefault((result["task"], split), {})
            lines.setdefault(name_of(result), []).append(result)
    return found


def curves(results):
    """Accuracy by length: dict name -> `length`, and `mean`, `best` and `worst` of the seeds.

    Args:
        results: list of dict, all of one task.

    Returns:
        dict split -> dict name -> dict of four lists.
    """
    found = {}
    for (_, split), lines in grouped(results).items():
        for name, several in lines.items():
            lengths = list(several[0]["accuracy"][split])
            by_length = [[r["accuracy"][split][length] for r in several] for length in lengths]
            found.setdefault(split, {})[name] = {
                "length": [int(length) for length in lengths],
                "mean": [statistics.fmean(values) for values in by_length],
                "best": [max(values) for values in by_length],
                "worst": [min(values) for values in by_length],
            }
    return found


def scores(results, split):
    """The mean over the lengths longer than any trained on, one a seed."""
    found = []
    for result in results:
        values = result["accuracy"][split]
        longer = [v for n, v in values.items() if int(n) > result["train_lengths"][1]]
        found.append(statistics.fmean(longer or values.values()))
    return found


def to_table(results):
    """Markdown: for each task and contender the accuracy in %, mean over the longer lengths.

    "best" is the highest of the seeds, as the papers report; beside it are the mean and the lowest
    of them. "compiling" is the share of all seconds that compiling took.

    Args:
        results: list of dict, what `bench` returns.

    Returns:
        str.

    Example:

    >>> print(to_table(bench(["even_pairs"], steps=100)))
    """
    rows = [
        "| task | model | best | mean | worst | seeds | steps | chance | compiling |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (task, split), lines in grouped(results).items():
        whole = task if len(results[0]["accuracy"]) == 1 and split == "test" else f"{task}, {split}"
        for name, several in lines.items():
            found = [100 * score for score in scores(several, split)]
            seconds = [result["seconds"] for result in several]
            spent = sum(s["training"] + s["testing"] for s in seconds)
            compiling = sum(s["compiling"] for s in seconds) / spent
            cells = [whole, name, *(f"{f(found):.1f}" for f in (max, statistics.fmean, min))]
            cells += [str(len(several)), f"{several[0]['settings']['steps']:,}"]
            cells += [f"{100 * several[0]['chance']:.1f}", f"{compiling:.0%}"]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
