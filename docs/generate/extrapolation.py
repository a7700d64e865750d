"""The files of `benchmarks.extrapolation`: in full, in short, and by length."""

import statistics

import tables
from figures import FIGURES


def bench(name):
    """A file of `benchmarks.extrapolation`: table, command, seeds, versions, pictures."""
    from benchmarks.extrapolation.perplexity_table import perplexity_table
    from benchmarks.extrapolation.published_results import published, source
    from benchmarks.extrapolation.shell_command import commands_of
    from benchmarks.extrapolation.table import name_of, to_table

    found = tables.bench(name)
    seeds = sorted({one["seed"] for one in found})
    versions = sorted({f"Keras {one['versions']['keras']}" for one in found})
    backends = sorted({one["versions"]["backend"] for one in found})
    drawn = f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    note = f"{drawn}; {', '.join(versions)} on {', '.join(backends)}; "
    note += f"[{name}.json](../results/bench/{name}.json)."
    figure, sources = published, filter(None, dict.fromkeys(map(source, found)))
    if name in FIGURES:
        runs, figures = FIGURES[name]
        figure, sources = (lambda one, split: figures.get(name_of(one))), [runs]
    note += "".join(f" Published: {text}" for text in sources)
    pictures = sorted(tables.BENCH.glob(f"{name}[.-]*svg"))
    shown = [f"![{p.stem}: accuracy by length](../results/bench/{p.name})" for p in pictures]
    commands = f"```\n{commands_of(found)}\n```"
    table = perplexity_table(found, figure) or to_table(found, figure)
    return "\n\n".join([table, note, commands, *shown])


def grid(name):
    """A file of `benchmarks.extrapolation` in short: a row per model, a column per task."""
    from benchmarks.extrapolation.published_results import published
    from benchmarks.extrapolation.scores import scores
    from benchmarks.extrapolation.table import name_of

    cells = {}
    for one in tables.bench(name):
        cells.setdefault(name_of(one), {}).setdefault(one["task"], []).append(one)
    tasks = list(dict.fromkeys(task for row in cells.values() for task in row))
    rows = [("", *(task.replace("_", " ") for task in tasks))]
    for contender, row in cells.items():
        row = [row.get(task, []) for task in tasks]
        rows.append(
            (contender, *(_in_short(scores(runs, "test"), runs, published) for runs in row))
        )
    chance = {one["task"]: one["chance"] for one in tables.bench(name)}
    rows.append(("chance", *(f"{100 * chance[task]:.0f}" for task in tasks)))
    return tables.markdown(rows)


def ranges(name):
    """Lowest to highest seed at each longer length: a row a task and split."""
    from benchmarks.extrapolation.table import grouped

    rows = [("", "tokens")]
    for (task, split), lines in grouped(tables.bench(name)).items():
        rows[0] = (*rows[0][:2], *lines)
        first = next(iter(lines.values()))[0]
        for length in (n for n in first["accuracy"][split] if int(n) > first["train_lengths"][1]):
            values = [[one["accuracy"][split][length] for one in runs] for runs in lines.values()]
            ends = [(min(runs), max(runs))[: len(runs)] for runs in values]
            cells = [" to ".join(f"{100 * end:.0f}" for end in each) for each in ends]
            rows.append((f"{task}, {split}", length, *cells))
    return tables.markdown(rows)


def _in_short(values, runs, published):
    """Mean, lowest to highest, and what the papers have: "50 (48 to 52); 50.4"."""
    if not runs:
        return "–"
    low, mean, high = (100 * x for x in (min(values), statistics.fmean(values), max(values)))
    paper = published(runs[0])
    spread = f" ({low:.0f} to {high:.0f})" if len(values) > 1 else ""
    return f"{mean:.0f}{spread}" + (f"; {paper:.0f}" if paper else "")
