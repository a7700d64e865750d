"""From a command's arguments to the Python program that does it."""

import functools
import pathlib
import sys

from keras_posenc.cli.commands import (
    FORMER_EXTENSION,
    FORMER_READING,
    OPTIMIZER,
    SOURCE,
    TASK_CLASSES,
)
from keras_posenc.cli.signatures import describe
from keras_posenc.cli.wording import Name, call, indented, literal, program, replace_file
from keras_posenc.files.writing import is_same

PREDICTIONS = (".csv", ".tsv", ".jsonl")


# Command of a run: what it reads and returns, and the functions of its summary and its report.
RUNS = {
    "finetune": ("train", "metrics", "summary", "write_report"),
    "pretrain": ("corpus", "metrics", "pretrain_summary", None),
    "contextualize": ("texts", "model, report", "contextual_summary", "write_contextual_report"),
    "stretch": ("texts", "model, report", "stretch_summary", "write_stretch_report"),
}


def _run(name, arguments):
    """The program of a run: the call, its summary and its report."""
    texts, found, summary, report = RUNS[name]
    arguments = _valued(arguments, tasks=name == "finetune")
    if name == "finetune":
        arguments |= _progress()
    positional = [arguments.pop(each) for each in ("checkpoint", texts, "output")]
    report = None if arguments.pop("no_report", False) else report
    return program(
        f"{found} = {call(name, *positional, **arguments)}",
        f"print({summary}({found.rpartition(' ')[2]}))",
        report and f"print({call(report, positional[2])})",
    )


def _evaluate(arguments):
    positional = [arguments.pop(name) for name in ("directory", "data")]
    output = arguments.pop("output", None)
    folder = f"pathlib.Path({literal(output)}).parent"
    return program(
        output and f"{folder}.mkdir(parents=True, exist_ok=True)",
        f"metrics = {call('evaluate', *positional, **arguments, **_progress())}",
        "print(summary(metrics))",
        output and f"write_text({literal(output)}, json.dumps(metrics, indent=1))",
    )


def _predict(arguments):
    directory = arguments.pop("directory")
    texts, file = arguments.pop("texts", None), arguments.pop("file", None)
    if (texts is None) == (file is None):
        raise ValueError("Give the texts as a FILE, or each as --text; not both.")
    texts = file if texts is None else texts
    if (question := arguments.pop("question", None)) is not None:
        if not isinstance(texts, list):
            raise ValueError("--question belongs to --text, the passage; a FILE has its questions.")
        texts = [(question, text) for text in texts]
    form, output = arguments.pop("format", None), arguments.pop("output", None)
    if "part_size" in arguments:
        if form is not None or output is None:
            raise ValueError("--part-size needs --output, a .jsonl file, and no --format.")
        return program(
            f"count = {call('predict', directory, texts, output=output, **arguments)}",
            f'print({literal(output)}, "%d predictions" % count)',
        )
    name, shown = "predictions_table", [Name("predictions"), Name("texts")]
    if output is not None:
        if form is not None:
            raise ValueError("--format is of what is printed; --output is written by its suffix.")
        if pathlib.PurePath(output).suffix not in PREDICTIONS:
            raise ValueError(f"--output: give a {', '.join(PREDICTIONS)} file, not {output!r}.")
        name, shown = "write_predictions", [output, *shown]
    shard = {"shard": arguments["shard"]} if "shard" in arguments else {}
    show = call(name, *shown, **({} if form is None else {"form": form}), **shard)
    return program(
        f"texts = {literal(texts)}",
        f"predictions = {call('predict', directory, Name('texts'), **arguments, verbose=2)}",
        f"print({show})",
    )


# Arguments of opening a model that the calls below have no place for.
OPENING = (
    *("reading", "max_length", "prompt", "dimension", "extension", "ignore", "token_budget"),
    *FORMER_EXTENSION,
    *FORMER_READING,
)


def _embed(arguments):
    model, texts, output = (arguments.pop(name) for name in ("directory", "texts", "output"))
    if {"ignore", "token_budget"} & arguments.keys():
        opened = {name: arguments.pop(name) for name in OPENING if name in arguments}
        model = Name(call("open_embedder", model, **opened))
    progress = {} if "part_size" in arguments else _progress()
    shown = f"print({literal(output)}, describe_vectors(found))"
    if "part_size" in arguments and str(output).endswith(".jsonl"):
        shown = f'print({literal(output)}, "vectors of %d texts" % found)'  # a number
    return program(f"found = {call('embed', model, texts, output, **arguments, **progress)}", shown)


def _search(arguments):
    shown = _shown(arguments)
    directory, vectors = (arguments.pop(name) for name in ("directory", "vectors"))
    queries, file = arguments.pop("queries", []), arguments.pop("file", None)
    if not queries and file is None:
        raise ValueError("Give what to search for after the file of vectors, or in a --file.")
    asked = [f"[{', '.join(map(literal, queries))}]"] if queries else []
    asked += [f"{call('read_texts', file, label=False)}.texts"] if file is not None else []
    if "only" in arguments:
        pairs = [each.partition("=") for each in arguments["only"]]
        columns = {name: value for name, equal, value in pairs if equal}
        if columns and len(columns) < len(pairs):
            raise ValueError("--only has ids, or columns as NAME=VALUE, each once; not both.")
        arguments["only"] = columns or arguments["only"]
    arguments |= _progress()
    lines, model = [], directory
    # With former options, `search` opens the model with all of them.
    if set(OPENING) - {"prompt"} & arguments.keys() and not FORMER_EXTENSION.keys() & arguments:
        opened = {name: arguments.pop(name) for name in OPENING if name in arguments}
        lines = [
            f"vectors = Vectors.load({literal(vectors)})",
            f"model = {call('vectors.open_embedder', directory, **opened)}",
        ]
        model, vectors = Name("model"), Name("vectors")
    return program(
        f"queries = {' + '.join(asked)}",
        *lines,
        f"found = {call('search', model, vectors, Name('queries'), **arguments)}",
        f"print({call('search_table', Name('found'), **shown)})",
    )


def _mine(arguments):
    positional = [arguments.pop(name) for name in ("directory", "pairs", "output")]
    return program(
        f"found = {call('mine_hard_negatives', *positional, **arguments, **_progress())}",
        f'print({literal(positional[2])}, "%d pairs with negatives" % len(found))',
    )


def _rerank(arguments):
    shown = _shown(arguments)
    directory, *texts = (arguments.pop(name) for name in ("directory", "query", "documents"))
    model = directory
    if "token_budget" in arguments:
        opened = {name: arguments.pop(name) for name in OPENING if name in arguments}
        model = Name(call("Reranker", directory, **opened))
    return program(
        f"found = {call('rerank', model, *texts, **arguments, **_progress())}",
        f"print({call('search_table', Name('found'), **shown)})",
    )


def _shown(arguments):
    """Takes out of the arguments those of the table of results."""
    return {name: arguments.pop(name) for name in ("characters",) if name in arguments}


def _inspect(arguments):
    return program(
        f"inspection = {call('inspect_checkpoint', arguments.pop('checkpoint'), **arguments)}",
        "print(inspection)",
        "inspection.check()",
    )


def _convert(arguments):
    checkpoint, output = arguments.pop("checkpoint"), arguments.pop("output")
    form = arguments.pop("format", "huggingface")
    if is_same(checkpoint, output):
        raise ValueError(f"OUTPUT is the checkpoint {output}: give another directory to write.")
    saving = {name: arguments.pop(name) for name in ("positions", "dtype") if name in arguments}
    if "positions" in saving:
        if not FORMER_EXTENSION.keys() & arguments:
            arguments = {"extension": "hierarchical", **arguments}
        arguments["max_position"] = saving["positions"]
    tokenizer = arguments.pop("tokenizer", None)
    if tokenizer is not None:
        if form != "keras_hub":
            raise ValueError("--tokenizer is a part of the format keras_hub: leave it out.")
        saving["tokenizer"] = Name(call("Tokenizer", tokenizer))
    if form == "keras":
        if "dtype" in saving:
            raise ValueError("--dtype belongs to the formats huggingface and google.")
        save = replace_file(output, "model.save(partial)")
    else:
        save = call("save_checkpoint", Name("model"), output, format=form, **saving)
    sources = [each for each in (checkpoint, arguments.get("adapter")) if each is not None]
    length = {"max_length": saving["positions"]} if "positions" in saving else {}
    return program(
        f"model = {call('open_model', checkpoint, **arguments)}",
        save,
        form == "huggingface" and call("copy_settings", sources, output, **length),
        f"print({literal(output)})",
    )


def _list(arguments):
    return program("print(encoding_table())")


def _describe(arguments):
    return program(f"print({call('describe_encoding', arguments['name'])})")


def _plot(arguments):
    what = arguments.pop("what")
    output = arguments.pop("output", f"{what}.svg")
    *lines, figure = PLOTS[what](arguments)
    return program(
        *lines, replace_file(output, f"{figure}.savefig(partial)"), f"print({literal(output)})"
    )


def _decay(arguments):
    length = {"length": arguments.pop("length", 512)}
    return _curves(arguments, "decay_curve", length, "decay_curves")


def _entropy(arguments):
    lengths = {"lengths": arguments.pop("lengths", [64, 128, 256, 512, 1024])}
    return _curves(arguments, "entropy_by_length", lengths, "entropy_curves")


def _curves(arguments, measure, size, picture):
    """A measure of each series of encodings, and their picture."""
    names = arguments.pop("encodings")
    causal = not arguments.pop("bidirectional", False)
    keywords = {**size, **arguments, "causal": causal}
    series = {name: [] if name == "none" else name.split("+") for name in names}
    return [
        "series = {",
        *(f"    {literal(name)}: {literal(specs)}," for name, specs in series.items()),
        "}",
        "curves = {}",
        "for name, encodings in series.items():",
        indented(f"curves[name] = {call(measure, Name('encodings'), **keywords)}"),
        f"pictures.{picture}(curves)",
    ]


def _similarity(arguments):
    checkpoint, count = arguments.pop("checkpoint"), arguments.pop("positions", 2048)
    stretches = arguments.pop("stretch", ["hierarchical"])
    keywords = {"extension": Name("stretch"), "max_position": count, **arguments}
    return [
        f"positions = np.arange(0, {count}, {max(count // 256, 1)})",
        "maps = {}",
        f"for stretch in {literal(stretches)}:",
        indented(f"model = {call('open_model', checkpoint, **keywords)}"),
        '    table = model.get_layer("Embedding-Position")',
        "    maps[stretch] = position_similarity(table, positions)",
        f"pictures.similarity_maps(maps, positions, size=({3 * len(stretches) + 1}, 3.4))",
    ]


def _terms(arguments):
    length, size = arguments.pop("length", 512), arguments.pop("head_size", 64)
    strength = arguments.pop("strength", 1.0)
    return [
        f"q, k = np.random.default_rng(0).normal(size=(2, 1, {length}, 1, {size}))",
        f"bias = np.array([{strength}, 0.0] * {size // 2})[None]",
        "pictures.rotary_terms(rotary_terms(q, k, bias, bias))",
    ]


def _gates(arguments):
    checkpoint, text = arguments.pop("checkpoint"), arguments.pop("text")
    layer, head = arguments.pop("layer", 0), arguments.pop("head", 0)
    return [
        f"tokenizer = Tokenizer({literal(checkpoint)})",
        f"text = {literal(text)}",
        "ids, segments = (np.array([row]) for row in tokenizer.encode(text))",
        'encodings = [{"name": "cope", "bidirectional": True}]',
        f"model = build_transformer_model({literal(checkpoint)}, encodings=encodings)",
        'inputs = {"token_ids": ids, "segment_ids": segments}',
        f"layer, states = list(attention_inputs(model, inputs).items())[{layer}]",
        "result = contextual_positions(layer, states, causal=True)",
        'tokens = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]',
        f"pictures.contextual_positions(result, tokens, head={head}, size=(10, 4.6))",
    ]


def _valued(arguments, tasks=False):
    """The arguments with values in place of the options that are parts of them."""
    owners = {"checkpoint": SOURCE, "optimizer": OPTIMIZER}
    if tasks:
        task = arguments.get("task", "classify")
        owners["task"] = f"training.{TASK_CLASSES[task]}"
        for other, kind in TASK_CLASSES.items():
            for name in describe(f"training.{kind}").keywords.keys() & arguments.keys():
                if name not in describe(owners["task"]).keywords:
                    raise ValueError(f"`{name}` belongs to --task {other}, not to --task {task}.")
    for argument, owner in owners.items():
        fields = [name for name in describe(owner).keywords if name not in ("checkpoint", "name")]
        parts = {name: arguments.pop(name) for name in fields if name in arguments}
        if parts:
            first = [] if argument == "task" or argument not in arguments else [arguments[argument]]
            arguments[argument] = Name(call(owner.rpartition(".")[2], *first, **parts))
    return arguments


def _progress():
    """In a file or a pipe, lines from time to time in place of a bar."""
    return {} if sys.stdout.isatty() else {"verbose": 2}


PROGRAMS = {
    **{name: functools.partial(_run, name) for name in RUNS},
    "evaluate": _evaluate,
    "predict": _predict,
    "embed": _embed,
    "search": _search,
    "mine": _mine,
    "rerank": _rerank,
    "inspect": _inspect,
    "convert": _convert,
    "list": _list,
    "describe": _describe,
    "plot": _plot,
}
PLOTS = {
    "decay": _decay,
    "entropy": _entropy,
    "similarity": _similarity,
    "terms": _terms,
    "gates": _gates,
}
