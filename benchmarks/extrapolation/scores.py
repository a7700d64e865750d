"""Scores of results by seed, and the words that follow from them."""

import statistics

# Shares of the way from chance to no mistake: below the first something is not there, from the
# second on it is.
BOUNDS = 0.2, 0.8


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


def verdict(result, split):
    """Whether a run learned its task, and whether longer texts keep what it learned.

    Both are fractions of an accuracy above chance. "Learned" is measured at the training lengths,
    in the split that the run was trained on, relative to perfect accuracy. "Kept" is measured at
    the longer lengths, relative to what was learned. Below 0.2 the verdict is "not learned" or
    "lost", and from 0.8 on "learned" or "kept". Between them it is "in part".

    Args:
        result: dict, as `bench` returns.
        split: str. One of its splits.

    Returns:
        str. If no training length was tested, only whether the longer ones are near chance. For
        texts it is empty, because it is not known how much of a text can be predicted.

    Example:

    >>> run = {"task": "even_pairs", "train_lengths": [1, 40], "chance": 0.5}
    >>> verdict({**run, "accuracy": {"test": {"40": 1.0, "50": 0.55}}}, "test")
    'learned, lost'
    >>> verdict({**run, "accuracy": {"test": {"40": 0.58, "50": 0.52}}}, "test")
    'not learned'
    """
    if "by_place" in result:
        return ""
    chance = result["chance"]
    (longer,) = scores([result], split)
    gain = (longer - chance) / (1 - chance)
    trained = trained_scores([result], next(iter(result["accuracy"])))
    if not trained:
        return "near chance" if gain < BOUNDS[0] else "above chance"
    share = (trained[0] - chance) / (1 - chance)
    if share < BOUNDS[0]:
        return "not learned"
    learned = "learned" if share >= BOUNDS[1] else "learned in part"
    if not any(int(n) > result["train_lengths"][1] for n in result["accuracy"][split]):
        return learned
    retained = gain / share
    ends = "lost" if retained < BOUNDS[0] else "kept" if retained >= BOUNDS[1] else "kept in part"
    return f"{learned}, {ends}"


def verdicts(results, split):
    """The verdicts of all seeds in words, with how many seeds where they differ."""
    all_verdicts = [verdict(result, split) for result in results]
    distinct = dict.fromkeys(all_verdicts)
    if len(distinct) == 1:
        return all_verdicts[0]
    return "; ".join(f"{word} ({all_verdicts.count(word)})" for word in distinct)


def compared(seeds, control):
    """The difference of two means in points, and whether the ranges of the seeds overlap.

    Args:
        seeds, control: lists of float, in [0, 1].

    Returns:
        str.

    Example:

    >>> compared([0.7, 0.8], [0.5, 0.6]), compared([0.7, 0.8], [0.5, 0.75])
    ('+20.0', '+12.5, overlaps')
    """
    difference = f"{100 * (statistics.fmean(seeds) - statistics.fmean(control)):+.1f}"
    if min(len(seeds), len(control)) < 2:
        return f"{difference}, one seed"
    apart = min(seeds) > max(control) or max(seeds) < min(control)
    return difference if apart else f"{difference}, overlaps"
