"""From a command's arguments to the Python program that does it."""

import math
import pathlib
import sys
import textwrap

from keras_posenc.cli.commands import OPTIMIZER, SOURCE, TASK_CLASSES
from keras_posenc.cli.signatures import describe

PREDICTIONS = (".csv", ".tsv", ".jsonl")
REPLACING = "from keras_posenc.writing import replacing"


def _finetune(arguments):
    arguments, names = _valued(_extended(arguments, "hierarchical"), tasks=True)
    positional = [arguments.pop(name) for name in ("checkpoint", "train", "output")]
    report = not arguments.pop("no_report", False)
    return _program(
        report and "from keras_posenc.analysis import write_report",
        _import("finetune", "summary", *names),
        "",
        f"metrics = {_call('finetune', *positional, **arguments, **_progress())}",
        "print(summary(metrics))",
        report and f"print({_call('write_report', positional[2])})",
    )


def _stretch(arguments):
    arguments, names = _valued(_extended(arguments, "hierarchical", alpha=0.2, kept_rows=1))
    positional = [arguments.pop(name) for name in ("checkpoint", "texts", "output")]
    report = not arguments.pop("no_report", False)
    return _program(
        report and "from keras_posenc.analysis import write_stretch_report",
        _import("stretch", "stretch_summary", *names),
        "",
        f"model, report = {_call('stretch', *positional, **arguments)}",
        "print(stretch_summary(report))",
        report and f"print({_call('write_stretch_report', positional[2])})",
    )


def _contextualize(arguments):
    arguments, names = _valued(arguments)
    positional = [arguments.pop(name) for name in ("checkpoint", "texts", "output")]
    report = not arguments.pop("no_report", False)
    return _program(
        report and "from keras_posenc.analysis import write_contextual_report",
        _import("contextual_summary", "contextualize", *names),
        "",
        f"model, report = {_call('contextualize', *positional, **arguments)}",
        "print(contextual_summary(report))",
        report and f"print({_call('write_contextual_report', positional[2])})",
    )


def _pretrain(arguments):
    arguments, names = _valued(_extended(arguments, "hierarchical"))
    positional = [arguments.pop(name) for name in ("checkpoint", "corpus", "output")]
    return _program(
        _import("pretrain", "pretrain_summary", *names),
        "",
        f"metrics = {_call('pretrain', *positional, **arguments)}",
        "print(pretrain_summary(metrics))",
    )


def _evaluate(arguments):
    positional = [arguments.pop(name) for name in ("directory", "data")]
    output = arguments.pop("output", None)
    folder = f"pathlib.Path({_literal(output)}).parent"
    return _program(
        output and "import json\nimport pathlib\n",
        "from keras_posenc.training import evaluate, summary",
        output and "from keras_posenc.writing import write_text",
        "",
        output and f"{folder}.mkdir(parents=True, exist_ok=True)",
        f"metrics = {_call('evaluate', *positional, **arguments, **_progress())}",
        "print(summary(metrics))",
        output and f"write_text({_literal(output)}, json.dumps(metrics, indent=1))",
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
        return _program(
            "from keras_posenc.training import predict",
            "",
            f"count = {_call('predict', directory, texts, output=output, **arguments)}",
            f'print({_literal(output)}, "%d predictions" % count)',
        )
    name, shown = "predictions_table", [_Name("predictions"), _Name("texts")]
    if output is not None:
        if form is not None:
            raise ValueError("--format is of what is printed; --output is written by its suffix.")
        if pathlib.PurePath(output).suffix not in PREDICTIONS:
            raise ValueError(f"--output: give a {', '.join(PREDICTIONS)} file, not {output!r}.")
        name, shown = "write_predictions", [output, *shown]
    show = _call(name, *shown, **({} if form is None else {"form": form}))
    return _program(
        f"from keras_posenc.training import predict, {name}",
        "",
        f"texts = {_literal(texts)}",
        f"predictions = {_call('predict', directory, _Name('texts'), **arguments, verbose=2)}",
        f"print({show})",
    )


def _embed(arguments):
    positional = [arguments.pop(name) for name in ("directory", "texts", "output")]
    progress = {} if "part_size" in arguments else _progress()
    what = '"%d vectors of %d numbers" % found.shape'
    if {"late", "multi"} & arguments.keys():
        what = '"%d vectors of %d numbers" % found.vectors.shape'
    if "sparse" in arguments:
        what = '"%d sparse vectors with %d weights" % (len(found), len(found.values))'
    if "part_size" in arguments and str(positional[2]).endswith(".jsonl"):
        what = '"vectors of %d texts" % found'  # `embed` returns their number
    return _program(
        "from keras_posenc.retrieval import embed",
        "",
        f"found = {_call('embed', *positional, **arguments, **progress)}",
        f"print({_literal(positional[2])}, {what})",
    )


def _search(arguments):
    positional = [arguments.pop(name) for name in ("directory", "vectors")]
    queries, file = arguments.pop("queries", []), arguments.pop("file", None)
    if not queries and file is None:
        raise ValueError("Give what to search for after the file of vectors, or in a --file.")
    asked = [f"[{', '.join(map(_literal, queries))}]"] if queries else []
    asked += [f"{_call('read_texts', file, label=False)}.texts"] if file is not None else []
    arguments |= _progress()
    return _program(
        "from keras_posenc.retrieval import search, search_table",
        file is not None and "from keras_posenc.text import read_texts",
        "",
        f"queries = {' + '.join(asked)}",
        f"found = {_call('search', *positional, _Name('queries'), **arguments)}",
        "print(search_table(found))",
    )


def _mine(arguments):
    positional = [arguments.pop(name) for name in ("directory", "pairs", "output")]
    return _program(
        "from keras_posenc.retrieval import mine_hard_negatives",
        "",
        f"found = {_call('mine_hard_negatives', *positional, **arguments, **_progress())}",
        f'print({_literal(positional[2])}, "%d pairs with negatives" % len(found))',
    )


def _rerank(arguments):
    positional = [arguments.pop(name) for name in ("directory", "query", "documents")]
    return _program(
        "from keras_posenc.retrieval import rerank",
        "",
        f"for each in {_call('rerank', *positional, **arguments, **_progress())}:",
        _indented('print("%8.4f  %d  %r" % (each["score"], each["corpus_id"], each["text"][:72]))'),
    )


def _inspect(arguments):
    return _program(
        "from keras_posenc.analysis import inspect_checkpoint",
        "",
        f"inspection = {_call('inspect_checkpoint', arguments.pop('checkpoint'), **arguments)}",
        "print(inspection)",
        "inspection.check()",
    )


def _convert(arguments):
    checkpoint, output = arguments.pop("checkpoint"), arguments.pop("output")
    form = arguments.pop("format", "huggingface")
    arguments = _extended(arguments)
    saving = {name: arguments.pop(name) for name in ("positions", "dtype") if name in arguments}
    if "positions" in saving:
        arguments = {"extension": "hierarchical", **arguments}
        arguments["max_position"] = saving["positions"]
    if form == "keras":
        if "dtype" in saving:
            raise ValueError("--dtype belongs to the formats huggingface and google.")
        save = _replacing(output, "model.save(partial)")
    else:
        save = _call("save_checkpoint", _Name("model"), output, format=form, **saving)
    return _program(
        "from keras_posenc.analysis import open_model",
        form != "keras" and "from keras_posenc.checkpoints import save_checkpoint",
        form == "keras" and REPLACING,
        "",
        f"model = {_call('open_model', checkpoint, **arguments)}",
        save,
        f"print({_literal(output)})",
    )


def _bench(arguments):
    tasks = arguments.pop("tasks")
    arguments.setdefault("output", "bench")
    output, pictures = arguments["output"], not arguments.pop("no_pictures", False)
    return _program(
        f"from keras_posenc.bench import bench, {'save_pictures, ' * pictures}to_table",
        "",
        f"results = {_call('bench', tasks, **arguments)}",
        "print(to_table(results))",
        pictures and f"print(*save_pictures(results, {_literal(output)}))",
    )


def _bench_passkey(arguments):
    checkpoint = arguments.pop("checkpoint")
    arguments.setdefault("output", "bench-passkey")
    output, pictures = arguments["output"], not arguments.pop("no_pictures", False)
    return _program(
        "from keras_posenc.bench import bench_passkey, passkey_table",
        pictures and "from keras_posenc.bench import save_pictures",
        "",
        f"results = {_call('bench_passkey', checkpoint, **arguments)}",
        "print(passkey_table(results))",
        pictures and f"print(*save_pictures(results, {_literal(output)}))",
    )


def _list(arguments):
    return _program(
        "from keras_posenc.analysis import encoding_table",
        "",
        "print(encoding_table())",
    )


def _describe(arguments):
    return _program(
        "from keras_posenc.analysis import describe_encoding",
        "",
        f"print({_call('describe_encoding', arguments['name'])})",
    )


def _plot(arguments):
    what = arguments.pop("what")
    output = arguments.pop("output", f"{what}.svg")
    imports, *lines, figure = PLOTS[what](arguments)
    return _program(
        imports,
        REPLACING,
        "",
        *lines,
        _replacing(output, f"{figure}.savefig(partial)"),
        f"print({_literal(output)})",
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
        f"from keras_posenc.analysis import {measure}, pictures",
        "series = {",
        *(f"    {_literal(name)}: {_literal(specs)}," for name, specs in series.items()),
        "}",
        "curves = {}",
        "for name, encodings in series.items():",
        _indented(f"curves[name] = {_call(measure, _Name('encodings'), **keywords)}"),
        f"pictures.{picture}(curves)",
    ]


def _similarity(arguments):
    checkpoint, count = arguments.pop("checkpoint"), arguments.pop("positions", 2048)
    stretches = arguments.pop("stretch", ["hierarchical"])
    keywords = {"extension": _Name("stretch"), "max_position": count, **arguments}
    return [
        "import numpy as np\n\n"
        "from keras_posenc.analysis import open_model, pictures, position_similarity",
        f"positions = np.arange(0, {count}, {max(count // 256, 1)})",
        "maps = {}",
        f"for stretch in {_literal(stretches)}:",
        _indented(f"model = {_call('open_model', checkpoint, **keywords)}"),
        '    table = model.get_layer("Embedding-Position")',
        "    maps[stretch] = position_similarity(table, positions)",
        f"pictures.similarity_maps(maps, positions, size=({3 * len(stretches) + 1}, 3.4))",
    ]


def _terms(arguments):
    length, size = arguments.pop("length", 512), arguments.pop("head_size", 64)
    strength = arguments.pop("strength", 1.0)
    return [
        "import numpy as np\n\nfrom keras_posenc.analysis import pictures, rotary_terms",
        f"q, k = np.random.default_rng(0).normal(size=(2, 1, {length}, 1, {size}))",
        f"bias = np.array([{strength}, 0.0] * {size // 2})[None]",
        "pictures.rotary_terms(rotary_terms(q, k, bias, bias))",
    ]


def _gates(arguments):
    checkpoint, text = arguments.pop("checkpoint"), arguments.pop("text")
    layer, head = arguments.pop("layer", 0), arguments.pop("head", 0)
    return [
        "import numpy as np\n\nfrom keras_posenc import Tokenizer, build_transformer_model\n"
        "from keras_posenc.analysis import attention_inputs, contextual_positions, pictures",
        f"tokenizer = Tokenizer({_literal(checkpoint)})",
        f"text = {_literal(text)}",
        "ids, segments = (np.array([row]) for row in tokenizer.encode(text))",
        'encodings = [{"name": "cope", "bidirectional": True}]',
        f"model = build_transformer_model({_literal(checkpoint)}, encodings=encodings)",
        'inputs = {"token_ids": ids, "segment_ids": segments}',
        f"layer, states = list(attention_inputs(model, inputs).items())[{layer}]",
        "result = contextual_positions(layer, states, causal=True)",
        'tokens = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]',
        f"pictures.contextual_positions(result, tokens, head={head}, size=(10, 4.6))",
    ]


def _extended(arguments, table=None, **usual):
    """The arguments with `extension` in its short form, in place of the options for its parts."""
    parts = {
        name: arguments[name] for name in ("stretch", "alpha", "kept_rows") if name in arguments
    }
    if not parts:
        return arguments
    arguments = {name: value for name, value in arguments.items() if name not in parts}
    if "extension" in arguments:
        raise ValueError(f"Give --extension, or --{min(parts).replace('_', '-')}; not both.")
    table = parts.pop("stretch", table or "hierarchical")
    belongs = {"hierarchical": ("alpha", "kept_rows"), "tile": ("kept_rows",)}.get(table, ())
    numbers = {name: value for name, value in usual.items() if name in belongs} | parts
    texts = [f"{numbers.pop('alpha'):g}"] if "alpha" in numbers else []
    texts += [f"{name}={value}" for name, value in numbers.items()]
    return {**arguments, "extension": ":".join([table, ",".join(texts)] if texts else [table])}


def _valued(arguments, tasks=False):
    """The arguments with values in place of the options that are parts of them, and the names of
    these values, to import."""
    owners = {"checkpoint": SOURCE, "optimizer": OPTIMIZER}
    if tasks:
        task = arguments.get("task", "classify")
        owners["task"] = f"training.{TASK_CLASSES[task]}"
        for other, kind in TASK_CLASSES.items():
            for name in describe(f"training.{kind}").keywords.keys() & arguments.keys():
                if name not in describe(owners["task"]).keywords:
                    raise ValueError(f"`{name}` belongs to --task {other}, not to --task {task}.")
    names = []
    for argument, owner in owners.items():
        fields = [name for name in describe(owner).keywords if name not in ("checkpoint", "name")]
        parts = {name: arguments.pop(name) for name in fields if name in arguments}
        if parts:
            first = [] if argument == "task" or argument not in arguments else [arguments[argument]]
            names.append(owner.rpartition(".")[2])
            arguments[argument] = _Name(_call(names[-1], *first, **parts))
    return arguments, names


def _import(*names):
    return f"from keras_posenc.training import {', '.join(sorted(names, key=_isort))}"


def _isort(name):
    """Classes before functions, as ruff sorts imports."""
    return name[0].islower(), name


def _progress():
    """In a file or a pipe, lines from time to time in place of a bar."""
    return {} if sys.stdout.isatty() else {"verbose": 2}


class _Name(str):
    """A name in a program, in contrast to a string."""


def _call(function, *positional, **keywords):
    """The text of a call: on one line if it is short, else an argument a line."""
    parts = [_literal(value) for value in positional]
    parts += [f"{name}={_literal(value)}" for name, value in keywords.items()]
    short = f"{function}({', '.join(parts)})"
    if len(short) <= 80:
        return short
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _literal(value):
    """How a value is written in Python: as `repr` does, strings in double quotes where possible."""
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple) and len(value) > 1:
        return f"({', '.join(map(_literal, value))})"
    if isinstance(value, str) and repr(value)[1:-1] == value and '"' not in value:
        return f'"{value}"'
    return repr(value)


def _replacing(output, save):
    """The text that saves to a new file, which then takes the place of what has its name."""
    return f"with replacing({_literal(output)}) as partial:\n{_indented(save)}"


def _indented(text):
    return textwrap.indent(text, "    ")


def _program(*lines):
    return "\n".join(line for line in lines if line is not None and line is not False)


PROGRAMS = {
    "finetune": _finetune,
    "pretrain": _pretrain,
    "contextualize": _contextualize,
    "stretch": _stretch,
    "evaluate": _evaluate,
    "predict": _predict,
    "embed": _embed,
    "search": _search,
    "mine": _mine,
    "rerank": _rerank,
    "inspect": _inspect,
    "convert": _convert,
    "bench": _bench,
    "bench passkey": _bench_passkey,
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
