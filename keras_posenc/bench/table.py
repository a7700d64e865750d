"""Tables of benchmark results, and the curves of their pictures."""

import math
import pathlib
import statistics

from keras_posenc.untrusted import read_json


def read_results(*paths):
    """Reads the results of one or several benchmarks.

    Args:
        *paths: paths of results.json files, as `bench` writes them.

    Returns:
        list of dict, one per run.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a file holds no list of JSON.

    Example:

    >>> _ = pathlib.Path("results.json").write_text('[{"task": "even_pairs", "seed": 0}]')
    >>> read_results("results.json")
    [{'task': 'even_pairs', 'seed': 0}]
    """
    return [result for path in paths for result in read_json(path, kind=list)]


def published_results(name):
    """Reads the results of one of this project's own benchmarks, which ship with the package.

    Args:
        name: "bucket_sort", "chomsky", "counting", ...

    Returns:
        list of dict, as `bench` returned them.

    Raises:
        ValueError: on an unknown name.

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
    """Names a contender: its model unless a transformer, its encodings and its positions."""
    if result["model"] not in ("transformer", "gau"):
        return result["model"]
    words = [] if result["model"] == "transformer" else [result["model"]]
    words.append(result["encodings"])
    if result["positions"] != "consecutive":
        words.append(f"{result['positions']} ids")
    return " ".join(words)


def grouped(results):
    """Groups results over the seeds: dict (task, split) -> dict name -> list of results."""
    groups = {}
    for result in results:
        for split in result["accuracy"]:
            lines = groups.setdefault((result["task"], split), {})
            lines.setdefault(name_of(result), []).append(result)
    return groups


def curves(results):
    """Computes accuracy by length: the mean, best and worst of the seeds.

    Args:
        results: list of dict, as `bench` returns, all of one task.

    Returns:
        dict split -> dict name -> dict of four lists: `length`, `mean`, `best`, `worst`.

    Example:

    >>> run = {"task": "parity_check", "model": "transformer", "positions": "consecutive"}
    >>> run |= {"encodings": "rotary", "train_lengths": [1, 40], "chance": 0.5}
    >>> run["accuracy"] = {"test": {"41": 1.0, "50": 0.75}}
    >>> curves([run])["test"]["rotary"]["mean"]
    [1.0, 0.75]
    """

    def by_length(result, split):
        return {int(n): value for n, value in result["accuracy"][split].items()}

    return _lines(results, by_length)


def curves_by_place(results):
    """Computes accuracy by position in the longest test texts of a language task.

    A point is the accuracy over a span of positions as long as the longest training text; `length`
    is the position where the span ends.

    Args:
        results: list of dict, as `bench` returns, all of one task, with `by_place`.

    Returns:
        dict split -> dict name -> dict of four lists: `length`, `mean`, `best`, `worst`.

    Example:

    >>> run = {"task": "parity_check", "model": "transformer", "positions": "consecutive"}
    >>> run |= {"encodings": "rotary", "train_lengths": [1, 40], "chance": 0.5}
    >>> run["accuracy"] = {"test": {"80": 0.5}}
    >>> run["by_place"] = {"test": {"80": {"right": [30, 10], "scored": [40, 40]}}}
    >>> curves_by_place([run])["test"]["rotary"]["mean"]
    [0.75, 0.25]
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
    curves = {}
    for (_, split), lines in grouped(results).items():
        for name, seeds in lines.items():
            by_seed = [values_of(result, split) for result in seeds]
            by_length = [[values[x] for values in by_seed] for x in by_seed[0]]
            curves.setdefault(split, {})[name] = {
                "length": list(by_seed[0]),
                "mean": [statistics.fmean(values) for values in by_length],
                "best": [max(values) for values in by_length],
                "worst": [min(values) for values in by_length],
            }
    return curves


def scores(results, split):
    """Mean accuracy over the lengths beyond those of training, one number per seed."""
    means = []
    for result in results:
        values = result["accuracy"][split]
        longer = [v for n, v in values.items() if int(n) > result["train_lengths"][1]]
        means.append(statistics.fmean(longer or values.values()))
    return means


def trained_scores(results, split):
    """Mean accuracy over the lengths within those of training, one number per seed.

    The list is empty if no such length was tested, as in results of before 2026-11-25.
    """
    means = []
    for result in results:
        values = result["accuracy"][split]
        within = [v for n, v in values.items() if int(n) <= result["train_lengths"][1]]
        means += [statistics.fmean(within)] if within else []
    return means if len(means) == len(results) else []


def far_scores(results, split):
    """Accuracy on the tokens beyond the longest training text, one number per seed.

    It is computed for each longer length and then averaged. The list is empty if a result has no
    counts by position, or no length is longer.
    """
    accuracies = []
    for result in results:
        # The first span is that of the training.
        counts = result.get("by_place", {}).get(split, {}).values()
        far = [(sum(c["right"][1:]), sum(c["scored"][1:])) for c in counts]
        accuracies.append([right / scored for right, scored in far if scored])
    return [statistics.fmean(values) for values in accuracies] if all(accuracies) else []


def to_table(results):
    """Formats results as a Markdown table of accuracies in %, averaged over the longer lengths.

    "best" is the best seed, as the papers report; "mean" and "worst" are over the seeds too. For
    language tasks "far" is the accuracy on the tokens beyond the longest training text: the mean,
    lowest and highest of the seeds. "compiling" is the share of the time spent on compilation.

    Args:
        results: list of dict, as `bench` returns.

    Returns:
        str.

    Example:

    >>> run = {"task": "parity_check", "model": "transformer", "positions": "consecutive"}
    >>> run |= {"encodings": "rotary", "train_lengths": [1, 40], "chance": 0.5}
    >>> run["accuracy"] = {"test": {"41": 1.0, "50": 0.75}}
    >>> run |= {"seconds": {"training": 9, "testing": 1, "compiling": 1}, "settings": {"steps": 5}}
    >>> print(to_table([run]))
    | task | model | best | mean | worst | seeds | steps | chance | compiling |
    |---|---|---|---|---|---|---|---|---|
    | parity_check | rotary | 87.5 | 87.5 | 87.5 | 1 | 5 | 50.0 | 10% |
    """
    with_far = any("by_place" in result for result in results)
    heads = ["task", "model", "best", "mean", "worst", *["far"] * with_far]
    heads += ["seeds", "steps", "chance", "compiling"]
    rows = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (task, split), lines in grouped(results).items():
        whole = task if len(results[0]["accuracy"]) == 1 and split == "test" else f"{task}, {split}"
        for name, seeds in lines.items():
            accuracies = [100 * score for score in scores(seeds, split)]
            seconds = [result["seconds"] for result in seeds]
            total = sum(s["training"] + s["testing"] for s in seconds)
            compiling = sum(s["compiling"] for s in seconds) / total
            cells = [whole, name, *(f"{f(accuracies):.1f}" for f in (max, statistics.fmean, min))]
            if with_far:
                far = [100 * score for score in far_scores(seeds, split)]
                span = f"({min(far):.1f} to {max(far):.1f})" if far else ""
                cells.append(f"{statistics.fmean(far):.1f} {span}" if far else "–")
            cells += [str(len(seeds)), f"{seeds[0]['settings']['steps']:,}"]
            cells += [f"{100 * seeds[0]['chance']:.1f}", f"{compiling:.0%}"]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
