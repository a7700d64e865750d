"""MiniLM stretched by position distillation: what each start loses, and what minutes bring back.

    KERAS_BACKEND=torch python -m benchmarks.stretching.stretch  # the ways of WAYS, one by one
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretch --ways "all layers global" --seeds 1
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretch --table  # the results as a table

Trained on book excerpts, measured on texts of another kind, Grimm's tales: the mean cosine of the
last features with those of the unstretched model, which reads windows of 512 tokens, within the
first 512 tokens and beyond, at once and after the steps. The unstretched model agrees with itself,
its windows shifted, as the last column says. Results go to benchmarks/results/stretch.json, a row
for each way and seed, and are not computed again; the stretched checkpoints stay in build/stretch.
"""

import hashlib
import json
import pathlib
import platform
import statistics

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from keras_posenc.training import stretch

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "stretch.json"
TRAIN, TEST = f"{CORPORA}/book-excerpts.tab", f"{CORPORA}/grimm-tales.tab"
THIRD = {"local": 256, "global_every": 3}
WAYS = {
    "as published": {"alpha": 0.4, "kept_rows": 0},
    "row 0 kept, alpha 0.4": {"alpha": 0.4},
    "all layers global": {},
    "row 0 kept, alpha 0.1": {"alpha": 0.1},
    "tile": {"stretch": "tile"},
    "interpolate": {"stretch": "interpolate"},
    "every third layer global": THIRD,
    "every layer local": {"local": 256},
}
FIRST = "all layers global"


def main():
    parser = options(__doc__, RESULTS, "build/stretch", seeds=[0])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, nargs="+", default=[64])
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--set", type=json.loads, default={}, help="other settings, as JSON")
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        rows = keys(steps=arguments.steps, way=arguments.ways, seed=arguments.seeds)
        for key in rows:
            settings = {"length": arguments.length, "steps": key.pop("steps")}
            key["settings"] = settings | WAYS[key["way"]] | arguments.set

        def measure(**key):
            return measured(key, arguments.folder)

        study.run(rows, measure, ["within", "beyond"])
    print(table(study.rows))


def measured(key, folder):
    """The report of one way; a run that was interrupted goes on where it stood."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
    output, settings = folder / digest, dict(key["settings"])
    settings["max_length"] = settings.pop("length")
    report = stretch(MINILM, TRAIN, output, test=TEST, seed=key["seed"], **settings).report
    written = ("within", "beyond", "agreement", "losses", "seconds")
    versions = {**report["versions"], "python": platform.python_version()}
    return {**{name: report[name] for name in written}, "versions": versions}


def table(rows):
    """Markdown: means over the seeds, and what is more beyond than in `FIRST`, seed by seed."""
    heads = ["start and layers", "other settings", "seeds", "at once", "after", "teacher"]
    heads += ["minutes", f"beyond, compared with {FIRST}"]
    lines = [heads]
    kinds = {json.dumps([row["way"], row["settings"]]) for row in rows}
    for kind in sorted(kinds):
        way, settings = json.loads(kind)
        runs = [row for row in rows if row["way"] == way and row["settings"] == settings]
        other = others(way, settings)
        cells = [way, " ".join(f"{k}={v}" for k, v in other.items()), str(len(runs))]
        for name in ("before", "after", "teacher"):
            means = [statistics.fmean(r[part][name] for r in runs) for part in ("within", "beyond")]
            cells.append(" / ".join(f"{mean:.3f}" for mean in means))
        cells.append(f"{statistics.fmean(r['seconds'] for r in runs) / 60:.1f}")
        baseline = {
            r["seed"]: r["beyond"]["after"]
            for r in rows
            if r["way"] == FIRST != way and others(FIRST, r["settings"]) == other
        }
        more = [r["beyond"]["after"] - baseline[r["seed"]] for r in runs if r["seed"] in baseline]
        cells.append(spread(more, 3) if more else "")
        lines.append(cells)
    return markdown(lines)


def others(way, settings):
    """The settings that are not those of the way."""
    return {name: value for name, value in settings.items() if WAYS[way].get(name) != value}


if __name__ == "__main__":
    main()
