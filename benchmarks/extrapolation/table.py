"""Tables of benchmark results, and the curves of their pictures."""

import math
import statistics

from benchmarks.extrapolation.published_results import published
from benchmarks.extrapolation.scores import compared, far_scores, scores, trained_scores, verdicts
from keras_posenc.files.untrusted import read_json

# Columns that a table has whatever is in them, and those where nothing is written as a dash.
ALWAYS = ("task", "model", "best", "mean", "worst", "seeds", "steps", "chance")
DASHED = ("trained", "far", "published")


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

    >>> import pathlib
    >>> _ = pathlib.Path("results.json").write_text('[{"task": "even_pairs", "seed": 0}]')
    >>> read_results("results.json")
    [{'task': 'even_pairs', 'seed': 0}]
    """
    return [result for path in paths for result in read_json(path, kind=list)]


def name_of(result):
    """Names a row: its model unless a transformer, its encodings and its positions."""
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


def to_table(results, figure=published):
    """Formats results as a Markdown table of accuracies in %, averaged over the longer lengths.

    | column | meaning |
    |---|---|
    | trained | mean accuracy at the training lengths, where these were tested |
    | best | the best seed, as the papers report |
    | mean, worst | of the seeds |
    | far | language tasks: accuracy beyond the longest training text; mean, lowest and highest |
    | verdict | whether the task was learned and kept, see `scores.verdict` |
    | against | difference of means to the row that this row extends; whether the seeds overlap |
    | published | the figure of the papers, see `published_results.SOURCES` |

    Args:
        results: list of dict, as `bench` returns.
        figure: function or None. Maps (result, split) to the published figure.

    Returns:
        str.

    Example:

    >>> run = {"task": "parity_check", "model": "gau", "positions": "consecutive"}
    >>> run |= {"encodings": "rotary", "train_lengths": [1, 40], "chance": 0.5}
    >>> run |= {"accuracy": {"test": {"40": 1.0, "50": 0.55}}, "settings": {"steps": 5}}
    >>> print(to_table([run]))
    | task | model | trained | best | mean | worst | verdict | seeds | steps | chance |
    |---|---|---|---|---|---|---|---|---|---|
    | parity_check | gau rotary | 100.0 | 55.0 | 55.0 | 55.0 | learned, lost | 1 | 5 | 50.0 |
    """
    rows = []
    for (task, split), lines in grouped(results).items():
        whole = task if len(results[0]["accuracy"]) == 1 and split == "test" else f"{task}, {split}"
        for name, seeds in lines.items():
            paper = figure(seeds[0], split)
            paper = f"{paper:.1f}" if isinstance(paper, int | float) else paper or ""
            rows.append({"task": whole, "model": name, **_cells(seeds, split), "published": paper})
            rows[-1]["against"] = "; ".join(
                f"{control} {compared(scores(seeds, split), scores(lines[control], split))}"
                for control in _controls(seeds[0], lines)
            )
    # What no row has is left out.
    heads = [head for head in rows[0] if head in ALWAYS or any(row[head] for row in rows)]
    cells = [[row[head] or "–" * (head in DASHED) for head in heads] for row in rows]
    lines = [heads, *cells]
    lines = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([lines[0], f"|{'---|' * len(heads)}", *lines[1:]])


def _cells(seeds, split):
    """The verdict on the seeds of a row; an empty string if there is none."""
    trained = [100 * score for score in trained_scores(seeds, split)]
    longer = [100 * score for score in scores(seeds, split)]
    far = [100 * score for score in far_scores(seeds, split)]
    taken = [result.get("steps", result["settings"]["steps"]) for result in seeds]
    steps = [f"{steps:,}" for steps in sorted({min(taken), max(taken)})]
    return {
        "trained": f"{statistics.fmean(trained):.1f}" if trained else "",
        "best": f"{max(longer):.1f}",
        "mean": f"{statistics.fmean(longer):.1f}",
        "worst": f"{min(longer):.1f}",
        "far": f"{statistics.fmean(far):.1f} ({min(far):.1f} to {max(far):.1f})" if far else "",
        "verdict": verdicts(seeds, split),
        "against": "",
        "seeds": str(len(seeds)),
        "steps": " to ".join(steps),
        "chance": f"{100 * seeds[0]['chance']:.1f}",
    }


def _controls(result, lines):
    """Of these lines those that `result` adds something to; the first one for any other."""
    encodings, _, _ = result["encodings"].rpartition("+")
    plain, _, _ = result["encodings"].partition(":")
    less = [{"positions": "consecutive"}, {"encodings": encodings}, {"encodings": plain}]
    names = [name_of({**result, **one}) for one in less]
    tested, first = name_of(result), next(iter(lines))
    controls = [name for name in dict.fromkeys(names) if name in lines and name != tested]
    return controls or [first] * (first != tested)
