"""What pages ask for by `<!-- table: NAME ARGUMENTS -->`: tables, made of files of results.

`python docs/generate/blocks.py` writes them into the pages of the site, so that these can be read
on a code host as well; tests/test_docs.py compares.
"""

import functools
import json
import re
import shlex
import statistics

import chips
import extrapolation
import tables
from sources import AGAIN, benchmark, commands_for, results, seeds_of, with_source

ROOT = tables.ROOT
RESULTS = tables.RESULTS
BENCH = tables.BENCH
MARKER = re.compile(r"^<!-- table: (\S+)((?: \S+)*) -->$", re.MULTILINE)


# A marker, with the table behind it once that was written.
TABLE = re.compile(
    MARKER.pattern + r"(?:\n(?:(?!<!-- table: ).*\n)*?<!-- /table -->)?", re.MULTILINE
)
# Names of ways in the files of results -> the field's words for them.
WORDS = {
    "one pass": "full context",
    "at once": "before training",
    "hidden token": "masked token",
    "hidden character": "masked character",
    "counted words": "bag-of-words",
    "as published": "original settings",
    "but for the rows": "except in the rows",
    "by turns": "alternately",
    "length of the training": "training length",
}


def filled(text):
    """`text` with the table of today behind each marker."""
    return TABLE.sub(
        lambda m: f"<!-- table: {m[1]}{m[2]} -->\n\n{_shown(m)}\n\n<!-- /table -->", text
    )


def _shown(marker):
    """A block in the field's words, except for the commands in it."""
    parts = re.split(r"(```.*?```)", BLOCKS[marker[1]](*marker[2].split()), flags=re.DOTALL)
    for old, new in WORDS.items():
        parts[::2] = [part.replace(old, new) for part in parts[::2]]
    # From a page of docs/; on the site the files of results are elsewhere (hooks.py).
    return "".join(parts).replace("](../results/", "](../../benchmarks/results/").strip()


def recovery(model):
    """What stretching loses, and how fast it returns: `model` is small or minilm."""
    module = benchmark("stretching.recovery")
    rows = [row for row in results("recovery") if row["model"] == model]
    command = f"stretching.recovery --models {model}"
    return with_source(module.table(rows), rows, command, "recovery", "torch")


def stretch():
    """What each start of an extended MiniLM loses, and what training recovers."""
    module, rows = benchmark("stretching.stretch"), results("stretch")

    def asked(row):
        given = module.others(row["way"], row["settings"])
        note = f"--length {given.pop('length')} --steps {given.pop('steps')}"
        return f"{note} --set {shlex.quote(json.dumps(given))}" if given else note

    command = commands_for("stretching.stretch", rows, asked)
    return with_source(module.table(rows), rows, command, "stretch", "torch")


def readings(task):
    """The accuracy of each way to read the texts of a task with a frozen encoder."""
    module = benchmark("long_texts.readings")
    rows = [row for row in results("readings") if row["task"] == task]
    both = f"{module.table(rows, task)}\n\n{module.verdict(rows, task)}"
    return with_source(both, rows, f"long_texts.readings {task}", "readings", "torch")


def retrieval(task):
    """How well each way of reading finds one sentence of a long document, by length."""
    from benchmarks.long_texts.passkey_table import passkey_table

    rows, measured = results(task), {}
    for length in sorted({int(length) for row in rows for length in row["scores"]}):
        runs = [row for row in rows if str(length) in row["scores"]]
        measured.setdefault(seeds_of(runs), []).append(str(length))
    command = AGAIN.join(
        f"long_texts.passkey {seeds} --lengths {' '.join(lengths)}"
        + " --needles" * (task == "needle")
        for seeds, lengths in measured.items()
    )
    return with_source(passkey_table(rows), rows, command, task, "torch")


def fine_tuned(task):
    """The accuracy of each way after fine-tuning, and the verdict."""
    module = benchmark("long_texts.fine_tuned")
    rows = [row for row in results("fine_tuned") if row["task"] == task]
    both = f"{module.table(rows, task)}\n\n{module.verdict(rows, task)}"
    command = f"long_texts.fine_tuned {task} {seeds_of(rows)}"
    return with_source(both, rows, command, "fine_tuned", "torch")


def growth():
    """Time and memory of attention by length, and the exponents."""
    table = benchmark("steps.growth").table(results("growth"))
    return with_source(table, [], "steps.growth   # and jax", "growth", "torch")


def distant_facts(length, model=None):
    """The accuracy of each way on two distant facts, and the verdict."""
    module, name = benchmark("long_texts.distant_facts"), "distant_facts"
    command = f"long_texts.distant_facts --length {length}"
    if model is not None:
        name, command = f"{name}_{model}", f"{command} --model {model}"
    rows = [row for row in results(name) if row["length"] == int(length)]
    both = f"{module.table(rows)}\n\n{module.verdict(rows)}"
    return with_source(both, rows, f"{command} {seeds_of(rows)}", name, "torch")


def gpu_models():
    """Whole models on a GPU, beside transformers and KerasHub."""
    found = results("gpu")["rows"]
    devices = ", ".join(sorted({row["device"] for row in found if "device" in row}))
    cases = " ".join(f'"{case}"' for case in dict.fromkeys(row["case"] for row in found))
    command = f"KERAS_BACKEND=torch python -m benchmarks.accelerators.gpu --cases {cases}"
    end = f"{devices}; [gpu.json](../../benchmarks/results/gpu.json).\n\n```\n{command}\n```"
    return f"{benchmark('accelerators.gpu').table(found)}\n\n{end}"


def of_seeds(path):
    """The table of a benchmark whose command has its seeds alone."""
    name = path.rpartition(".")[2]
    rows = results(name)
    command, backend = f"{path} {seeds_of(rows)}", rows[0]["versions"]["backend"]
    return with_source(benchmark(path).table(rows), rows, command, name, backend)


def distant_context_mpnet():
    """Distant context with a second model, before training."""
    module, rows = benchmark("retrieval.distant_context"), results("distant_context_mpnet")
    libraries = " ".join(map(shlex.quote, dict.fromkeys(row["library"] for row in rows)))
    options = f"--model mpnet --libraries {libraries}"
    command = commands_for("retrieval.distant_context", rows, lambda row: options)
    return with_source(module.table(rows), rows, command, "distant_context_mpnet", "torch")


def by_position():
    """Documents found by a passage, by its depth and the document's length."""
    module, rows = benchmark("retrieval.by_position"), results("by_position")
    command = commands_for(
        "retrieval.by_position",
        rows,
        lambda row: f"--models {row['model']} --corpora {row['corpus']}",
    )
    return with_source(module.table(rows), rows, command, "by_position", "torch")


def mteb():
    """Scores by MTEB of sentence-transformers and of ours."""
    module, rows = benchmark("retrieval.mteb_scores"), results("mteb")
    table = module.markdown(module.lines(rows))
    return with_source(table, rows, "retrieval.mteb_scores", "mteb", "torch")


def many_texts():
    """What a million vectors cost by engine."""
    module, rows = benchmark("jobs.many_texts"), results("many_texts")
    table = module.markdown(module.lines(rows))
    return with_source(table, rows, "jobs.many_texts", "many_texts", "torch")


def context_tools():
    module = benchmark("encodings.context_tools")
    rows = results("context_tools")
    return with_source(module.table(rows), rows, "encodings.context_tools", "context_tools")


def encodings_2026():
    """The loss of a small language model up to 8 times the trained length, by encoding."""
    module, rows = benchmark("encodings.encodings_2026"), results("encodings_2026")
    command = commands_for("encodings.encodings_2026", rows)
    return with_source(module.table(rows), rows, command, "encodings_2026", "torch")


def summary_2026():
    """The mean of each test of the encodings of 2026, those with the lowest loss first."""
    from benchmarks.extrapolation.scores import scores

    def means(rows, name_of, value_of):
        found = {}
        for row in rows:
            found.setdefault(name_of(row), []).append(value_of(row))
        return {name: statistics.fmean(values) for name, values in found.items()}

    module = benchmark("encodings.encodings_2026")
    loss = means(results("encodings_2026"), lambda r: r["way"], lambda r: r["loss"]["512"])
    tests = [
        means(
            results("text_retrieval"),
            lambda r: r["reading"],
            lambda r: 100 * r["right"]["4 at 512"] / r["asked"],
        )
    ]
    for task, split in (("bucket_sort", "test"), ("counting", "train")):
        tests.append(
            means(
                tables.bench(f"{task}_2026"),
                lambda r: r["encodings"].split(":")[0],
                lambda r, split=split: 100 * scores([r], split)[0],
            )
        )
    rows = [("", "new", "loss", "facts, %", "sorting, %", "counting, %")]
    for way in sorted(loss, key=loss.get):
        # As bench and text_retrieval name it.
        names = way, way.lower().replace("-", "_").replace(" ", "_").removesuffix("_as_it_is")
        cells = [next((f"{t[n]:.0f}" for n in names if n in t), "–") for t in tests]
        rows.append((way, "yes" if way in module.NEW else "", f"{loss[way]:.2f}", *cells))
    return tables.markdown(rows)


def text_retrieval(readings):
    """Facts far back in a text, of the `TOOL_READINGS` or the `ENCODINGS_2026`."""
    module, rows = benchmark("encodings.text_retrieval"), results("text_retrieval")
    table = module.table(rows, getattr(module, readings))
    return with_source(table, rows, "encodings.text_retrieval", "text_retrieval", "torch")


def rotary_collapse():
    """Accuracy far beyond the trained length by way, and the terms of the layers."""
    module, rows = benchmark("encodings.rotary_collapse"), results("rotary_collapse")
    both = f"{module.table(rows)}\n\n{module.terms_table(rows)}"
    return with_source(
        both, rows, commands_for("encodings.rotary_collapse", rows), "rotary_collapse", "jax"
    )


def gates():
    """Which tokens the gates of CoPE count."""
    module, rows = benchmark("encodings.gates"), results("gates")
    tasks = " ".join(shlex.quote(task) for task in dict.fromkeys(row["task"] for row in rows))
    command = f"encodings.gates --tasks {tasks} {seeds_of(rows)}"
    return with_source(module.table(rows), rows, command, "gates", "jax")


def stretched_mlm():
    """MLM accuracy of extended models before training and after a few steps."""
    module, rows = benchmark("stretching.stretched_mlm"), results("stretched_mlm")
    both = f"{module.table(rows)}\n\n{module.verdict(rows)}"
    command = commands_for("stretching.stretched_mlm", rows, lambda row: f"--steps {row['steps']}")
    return with_source(both, rows, command, "stretched_mlm", "torch")


def stretched_reactions():
    """MLM accuracy of a pretrained model with its own head, within its length and beyond."""
    module, rows = benchmark("stretching.stretched_reactions"), results("stretched_reactions")
    steps = " ".join(f"--steps {steps}" for steps in sorted({row["steps"] for row in rows}))
    alphas = " ".join(str(alpha) for alpha in sorted({row["alpha"] for row in rows}))
    command = f"stretching.stretched_reactions --packages FOLDER --alphas {alphas} {steps}"
    command += f" {seeds_of(rows)}"
    return with_source(module.table(rows), rows, command, "stretched_reactions", "torch")


def stretch_base():
    """Seconds and memory of a step of stretching a model of BERT-base's shape."""
    module, rows = benchmark("stretching.stretch_base"), results("stretch_base")
    command = commands_for(
        "stretching.stretch_base", rows, lambda row: f"--steps {len(row['core_seconds'])}"
    )
    return with_source(module.table(rows), rows, command, "stretch_base", "torch OMP_NUM_THREADS=1")


def natural(what="table"):
    """Passages of real documents that each way of searching finds first."""
    module, rows = benchmark("retrieval.natural"), results("natural")
    steps = " ".join(f"--steps {n}" for n in sorted({r["steps"] for r in rows} - {0}))
    command = f"retrieval.natural {steps} {seeds_of([r for r in rows if r['steps']])}"
    return with_source(getattr(module, what)(rows), rows, command, "natural", "torch")


def words_and_vectors():
    """How much words should count beside vectors."""
    module, rows = benchmark("retrieval.words_and_vectors"), results("words_and_vectors")
    counts = {row["documents"] for row in rows}
    command = f"retrieval.words_and_vectors --documents {max(counts)}"
    return with_source(module.table(rows), rows, command, "words_and_vectors", "torch")


def cost():
    """What a million passages cost."""
    module, rows = benchmark("retrieval.cost"), results("cost")
    return with_source(
        module.table(rows), rows, "retrieval.cost", "cost", "torch OMP_NUM_THREADS=1"
    )


def few_texts():
    """What trains best on some dozens of texts with labels."""
    module, rows = benchmark("long_texts.few_texts"), results("few_texts")
    command = commands_for("long_texts.few_texts", rows)
    return with_source(module.table(rows), rows, command, "few_texts", "torch")


def translation():
    """An encoder-decoder and its baselines, with parts of its recipe switched off once."""
    module, rows = benchmark("encodings.translation"), results("translation")

    def asked(row):
        return f"--steps {row['steps']}" + " --beams 4" * ("4 beams" in row["test"])

    command = commands_for("encodings.translation", [row for row in rows if "way" in row], asked)
    return with_source(module.table(rows), rows, command, "translation", "torch")


def quantized():
    """Files and vectors of quantized models."""
    module, command = benchmark("numerics.quantized"), "numerics.quantized"
    stretched = '--models "MiniLM, stretched" --tokens 24576'
    commands = f"{command} --models MiniLM{AGAIN}{command} {stretched}"
    return with_source(module.table(results("quantized")), [], commands, "quantized", "torch")


def precision():
    command = "numerics.precision --train 320 --test 160   # torch: --test 48"
    return with_source(
        benchmark("numerics.precision").table(results("precision")), [], command, "precision"
    )


def loading():
    report = results("loading")
    rows = [
        ("backend", "file", "`import keras`", "`import keras_posenc`", "build and load", "peak")
    ]
    for row in report["rows"]:
        peak = row.get("peak over weights")
        seconds = [row.get(f"{k} s") for k in ("keras import", "import", "build + load")]
        cells = [f"{s:.1f} s" if s is not None else "–" for s in seconds]
        cells.append(f"{peak:.2f} x weights" if peak else "–")
        rows.append((row["backend"], f"`{row['file']}`", *cells))
    return with_source(
        tables.markdown(rows), [], f"jobs.loading --turns {report['turns']}", "loading"
    )


def newsgroups():
    """Accuracy with the test texts cut, after each stage that was tested."""
    report = results("newsgroups")
    stages = [stage for stage in report["stages"] if "test" in stage]
    heads = ["test texts cut at"]
    heads += [f"{which}, after the epoch at {s['length']}" for which in ("all", "long texts")
              for s in stages]  # fmt: skip
    rows = [tuple(heads)]
    for i, length in enumerate(report["arguments"]["lengths"]):
        cells = [f"{length:,}"]
        for key in ("accuracy", "accuracy_long"):
            cells += [f"{100 * stage['test'][i][key]:.1f}" for stage in stages]
        rows.append(tuple(cells))
    return with_source(
        tables.markdown(rows), [{"seed": 0}], "long_texts.newsgroups", "newsgroups", "tensorflow"
    )


def included(path):
    """A page of results as its benchmark wrote it, its headings one level down."""
    text = (RESULTS / path).read_text("utf-8")
    text = re.sub(r"^# .*\n+", "", text)
    text = re.sub(r"\]\((\w[\w-]*\.(?:png|svg|json))\)", r"](../results/\1)", text)
    return text.strip()


def encodings():
    """All encodings, each with a link to its page."""
    from keras_posenc.analysis import encoding_table

    table = re.sub(r"^\| `(\w+)` +\|", r"| [`\1`](\1.md) |", encoding_table(), flags=re.MULTILINE)
    return re.sub(r"\| https://([^/\s]+)(\S*) +\|", r"| [\1](https://\1\2) |", table)


def encoding_figures():
    """The attention weights of each encoding, two a row, each with a link to its page."""
    from keras_posenc.encodings import ENCODINGS

    cells = [f"[![{n}]({n}-map.svg)]({n}.md)<br>[`{n}`]({n}.md)" for n in ENCODINGS]
    cells += [""] * (-len(cells) % 2)
    rows = [" | ".join(cells[at : at + 2]) for at in range(0, len(cells), 2)]
    return "\n".join(["| | |", "|---|---|", *(f"| {row} |" for row in rows)])


def verdicts():
    """The results of all pages of evidence."""
    shown = tables.markdown([tables.HEAD, *tables.results().values()])
    return shown.replace("](docs/evidence/", "](").replace("](docs/", "](../")


def comparisons():
    """What changes of the code cost or gained, as benchmarks/steps/compare.py wrote it."""
    found = sorted(RESULTS.glob("compare-*.md"))
    return "\n\n".join(f"## Since {p.stem.partition('-')[2]}\n\n{included(p.name)}" for p in found)


def families():
    """Every family: `model_type`, positions, reference, and the largest difference."""
    from keras_posenc.models.families import FAMILIES

    rows = [("`model=`", "family", "`model_type`", "positions", "compared to", "within")]
    found = tables.differences()
    for model, family in FAMILIES.items():
        name = f"[{family.title}]({family.paper})" if family.paper else family.title
        kinds = ", ".join(f"`{kind}`" for kind in family.model_types)
        near = f"{found[model]:.1e}" if model in found else "tests"
        page = f"[`{model}`](../families/{model}.md)"
        rows.append((page, name, kinds, family.positions, family.compared, near))
    return with_source(
        tables.markdown(rows), [], "numerics.families   # on each backend", "families"
    )


_NAMED = (
    families, comparisons, encodings, encoding_figures, verdicts, natural, words_and_vectors, cost,
    few_texts, recovery, stretch, readings, growth, distant_facts, distant_context_mpnet,
    by_position, mteb, many_texts, retrieval, fine_tuned, context_tools, encodings_2026,
    summary_2026, text_retrieval, translation, rotary_collapse, stretched_mlm,
    stretched_reactions, stretch_base, precision, quantized, loading, newsgroups, gpu_models,
    gates,
)  # fmt: skip
_OF_SEEDS = (
    "encodings.lookup", "retrieval.distant_context", "stretching.back_to_level",
    "long_texts.by_length",
)  # fmt: skip
BLOCKS = {block.__name__: block for block in _NAMED} | {
    **{path.rpartition(".")[2]: functools.partial(of_seeds, path) for path in _OF_SEEDS},
    "bench": extrapolation.bench,
    "grid": extrapolation.grid,
    "ranges": extrapolation.ranges,
    "tpu_batches": chips.batches,
    "tpu_layers": chips.layers,
    "gpu_layers": chips.gpu_layers,
    "gpu_programs": chips.gpu_programs,
    "tpu_sequence": chips.over_chips,
    "page": included,
}


if __name__ == "__main__":
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        if TABLE.search(text):
            page.write_text(filled(text), "utf-8")
