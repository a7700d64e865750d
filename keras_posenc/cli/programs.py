"""From a command's arguments to the Python program that does it."""

import sys


def _finetune(arguments):
    positional = [arguments.pop(name) for name in ("checkpoint", "train", "output")]
    report = not arguments.pop("no_report", False)
    if not sys.stdout.isatty():
        arguments["verbose"] = 2  # one line an epoch, and no bar
    return _program(
        report and "from keras_posenc.analysis import require_matplotlib, write_report",
        "from keras_posenc.training import finetune, summary",
        "",
        report and "require_matplotlib()",
        f"metrics = {_call('finetune', *positional, **arguments)}",
        "print(summary(metrics))",
        report and f"print({_call('write_report', positional[2])})",
    )


def _evaluate(arguments):
    positional = [arguments.pop(name) for name in ("directory", "data")]
    output = arguments.pop("output", None)
    if not sys.stdout.isatty():
        arguments["verbose"] = 0
    return _program(
        output and "import json\nimport pathlib\n",
        "from keras_posenc.training import evaluate, summary",
        "",
        f"metrics = {_call('evaluate', *positional, **arguments)}",
        "print(summary(metrics))",
        output and f"pathlib.Path({_literal(output)}).write_text(json.dumps(metrics, indent=1))",
    )


def _predict(arguments):
    directory = arguments.pop("directory")
    texts = arguments.pop("texts", None) or arguments.pop("file")
    show = {"tsv": "to_tsv", "jsonl": "to_jsonl"}[arguments.pop("format", "tsv")]
    return _program(
        f"from keras_posenc.training import predict, {show}",
        "",
        f"predictions = {_call('predict', directory, texts, **arguments, verbose=0)}",
        f"print({show}(predictions))",
    )


def _inspect(arguments):
    return _program(
        "from keras_posenc.analysis import inspect_checkpoint",
        "",
        f"print({_call('inspect_checkpoint', arguments.pop('checkpoint'), **arguments)})",
    )


def _convert(arguments):
    checkpoint, output = arguments.pop("checkpoint"), arguments.pop("output")
    form = arguments.pop("format", "huggingface")
    saving = {name: arguments.pop(name) for name in ("positions", "dtype") if name in arguments}
    if "positions" in saving:
        arguments = {"stretch": "hierarchical", **arguments, "max_position": saving["positions"]}
    if form == "keras":
        if "dtype" in saving:
            raise ValueError("--dtype belongs to the formats huggingface and google.")
        save = f"model.save({_literal(output)})"
    else:
        save = _call("save_checkpoint", _Name("model"), output, format=form, **saving)
    return _program(
        "from keras_posenc.analysis import open_model",
        form != "keras" and "from keras_posenc.checkpoints import save_checkpoint",
        "",
        f"model = {_call('open_model', checkpoint, **arguments)}",
        save,
        f"print({_literal(output)})",
    )


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
    if isinstance(value, str) and repr(value)[1:-1] == value and '"' not in value:
        return f'"{value}"'
    return repr(value)


def _program(*lines):
    return "\n".join(line for line in lines if line is not None and line is not False)


PROGRAMS = {
    "finetune": _finetune,
    "evaluate": _evaluate,
    "predict": _predict,
    "inspect": _inspect,
    "convert": _convert,
}
