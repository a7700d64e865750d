"""The table of passkeys that were found, with what its intervals carry."""

import statistics


def passkey_table(results):
    """Formats results of `bench_passkey` as a Markdown table of nDCG@1 in %, with a verdict.

    The last column compares a row with the nearest chunk, over all lengths beyond the checkpoint's
    that both have: the difference, paired by query, and half the width of its 95% interval.

    Args:
        results: list of dict, as `bench_passkey` returns.

    Returns:
        str.

    Example:

    >>> run = {"task": "passkey", "seed": 0, "train_lengths": [1, 512], "chance": 0.25}
    >>> half = {"scores": {"512": [1, 1, 1, 1], "1024": [1, 0, 1, 0]}, "model": "tile", **run}
    >>> all_found = {"scores": {"512": [1, 1, 1, 1], "1024": [1] * 4}, "model": "chunks_max", **run}
    >>> print(passkey_table([half, all_found]))
    | passkey | 512 | 1024 | more than chunks_max |
    |---|---|---|---|
    | tile | 100 | 50 | -50.0 ± 56.6 |
    | chunks_max | 100 | 100 |  |
    <BLANKLINE>
    Chance is 25.0. Beyond 512 tokens, against chunks_max: no significant difference for tile.
    """
    trained = results[0]["train_lengths"][1]
    ways = {}
    for result in results:
        ways.setdefault(result["model"], {})[result["seed"]] = result["scores"]
    lengths = sorted({int(n) for by_seed in ways.values() for one in by_seed.values() for n in one})
    heads = [results[0]["task"], *map(str, lengths), "more than chunks_max"]
    rows, verdicts = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"], {}
    for way, by_seed in ways.items():
        cells = [way]
        for length in map(str, lengths):
            scores = [score for one in by_seed.values() for score in one.get(length, [])]
            cells.append(f"{100 * statistics.fmean(scores):.0f}" if scores else "–")
        more = [] if way == "chunks_max" else _more(by_seed, ways.get("chunks_max", {}), trained)
        if len(more) > 1:
            mean, half = statistics.fmean(more), statistics.stdev(more) * 1.96 / len(more) ** 0.5
            what = "no significant difference for"
            what = what if abs(mean) <= half else "better" if mean > 0 else "worse"
            verdicts.setdefault(what, []).append(way)
        cells.append(f"{100 * mean:+.1f} ± {100 * half:.1f}" if len(more) > 1 else "")
        rows.append(f"| {' | '.join(cells)} |")
    caption = f"Chance is {100 * results[0]['chance']:.1f}."
    if verdicts:
        comparison = "; ".join(
            f"{what} {', '.join(verdicts[what])}"
            for what in ("better", "worse", "no significant difference for")
            if what in verdicts
        )
        caption += f" Beyond {trained:,} tokens, against chunks_max: {comparison}."
    return "\n".join([*rows, "", caption])


def _more(by_seed, chunks, trained):
    """What each query of a way has more than with the chunks, its mean over the longer lengths."""
    more = []
    for seed in by_seed.keys() & chunks.keys():
        both = [n for n in by_seed[seed].keys() & chunks[seed].keys() if int(n) > trained]
        pairs = [zip(by_seed[seed][n], chunks[seed][n], strict=True) for n in both]
        more += [
            statistics.fmean(a - b for a, b in queries) for queries in zip(*pairs, strict=True)
        ]
    return more
