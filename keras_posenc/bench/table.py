"""What a benchmark found: tables of its results, and the lines of its pictures."""

import json
import math
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


def published_results(name):
    """The results of one of this project's own benchmarks, which come with the package.

    Args:
        name: "bucket_sort", "chomsky", "counting", ...

    Returns:
        list of dict, what `bench` returned.

    Raises:
        ValueError: on another name, with those there are.

    Example:

    >>> published_results("bucket_sort")[0]["encodings"]
    'rotary'
    """
    folder = pathlib.Path(__file__).with_name("results")
    names = sorted(path.stem for path in folder.glob("*.json"))
    if name not in names:
        raise ValueError(f"No results {name!r}: there are {', '.join(names)}.")
    return read_results(folder / f"{name}.json")


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

    def by_length(result, split):
        return {int(n): value for n, value in result["accuracy"][split].items()}

    return _lines(results, by_length)


def curves_by_place(results):
    """Accuracy by place in the texts of the longest test: as `curves`, for language tasks.

    A point is the accuracy in as many places as the longest text of the training has; `length` is
    the place where they end.

    Args:
        results: list of dict, all of one task, with `by_place`.

    Returns:
        dict split -> dict name -> dict of four lists.
    """

    def by_place(result, split):
        span, longest = result["train_lengths"][1], max(result["by_place"][split], key=int)
        counts = result["by_place"][split][longest]
        pairs = zip(counts["right"], counts["scored"], strict=True)
        ends = [min((i + 1) * span, int(longest)) for i in range(len(counts["right"]))]
        values = (right / scored if scored else math.nan for right, scored in pairs)
        return dict(zip(ends, values, strict=True))

    return _lines(results, by_place)


def _lines(results, values_of):
    found = {}
    for (_, split), lines in grouped(results).items():
        for name, several in lines.items():
            each = [values_of(result, split) for result in several]
            together = [[values[x] for values in each] for x in each[0]]
            found.setdefault(split, {})[name] = {
                "length": list(each[0]),
                "mean": [statistics.fmean(values) for values in together],
                "best": [max(values) for values in together],
                "worst": [min(values) for values in together],
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


def far_scores(results, split):
    """The accuracy on the tokens beyond the longest text of the training, one a seed.

    Of each longer length, and then their mean. Empty where a result has no counts by place, or no
    length is longer.
    """
    found = []
    for result in results:
        # The first span is that of the training.
        counts = result.get("by_place", {}).get(split, {}).values()
        far = [(sum(c["right"][1:]), sum(c["scored"][1:])) for c in counts]
        found.append([right / scored for right, scored in far if scored])
    return [statistics.fmean(values) for values in found] if all(found) else []


def to_table(results):
    """Markdown: for each task and contender the accuracy in %, mean over the longer lengths.

    "best" is the highest of the seeds, as the papers report; beside it are the mean and the lowest
    of them. Where results of texts have counts by place, "far" is the accuracy on the tokens beyond
    the longest text of the training: mean, lowest and highest of the seeds. "compiling" is the
    share of all seconds that compiling took.

    Args:
        results: list of dict, what `bench` returns.

    Returns:
        str.

    Example:

    >>> print(to_table(bench(["even_pairs"], steps=100)))
    """
    with_far = any("by_place" in result for result in results)
    heads = ["task", "model", "best", "mean", "worst", *["far"] * with_far]
    heads += ["seeds", "steps", "chance", "compiling"]
    rows = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (task, split), lines in grouped(results).items():
        whole = task if len(results[0]["accuracy"]) == 1 and split == "test" else f"{task}, {split}"
        for name, several in lines.items():
            found = [100 * score for score in scores(several, split)]
            seconds = [result["seconds"] for result in several]
            spent = sum(s["training"] + s["testing"] for s in seconds)
            compiling = sum(s["compiling"] for s in seconds) / spent
            cells = [whole, name, *(f"{f(found):.1f}" for f in (max, statistics.fmean, min))]
            if with_far:
                far = [100 * score for score in far_scores(several, split)]
                span = f"({min(far):.1f} to {max(far):.1f})" if far else ""
                cells.append(f"{statistics.fmean(far):.1f} {span}" if far else "–")
            cells += [str(len(several)), f"{several[0]['settings']['steps']:,}"]
            cells += [f"{100 * several[0]['chance']:.1f}", f"{compiling:.0%}"]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
