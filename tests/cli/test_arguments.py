import dataclasses
import inspect

import pytest

from keras_posenc import analysis, bench, training
from keras_posenc.bench import reading
from keras_posenc.cli.arguments import COMMANDS, parser
from keras_posenc.cli.benchmarks import EMBEDDINGS
from keras_posenc.cli.options import STRETCHES
from keras_posenc.cli.plots import PLOTS
from keras_posenc.cli.training import OBJECTIVES, POOLINGS, STARTS
from keras_posenc.models import heads
from keras_posenc.training import pretraining, recipe
from keras_posenc.training.stretching import recipe as stretch_recipe

pytestmark = pytest.mark.once

FUNCTIONS = {
    "finetune": training.finetune,
    "pretrain": training.pretrain,
    "stretch": training.stretch,
    "evaluate": training.evaluate,
    "predict": training.predict,
    "embed": training.embed,
    "inspect": analysis.inspect_checkpoint,
    "bench passkey": bench.bench_passkey,
}


def destinations(name):
    for command, _, positional, options in COMMANDS:
        if command == name:
            entries = [*positional, *options]
            return {
                more.get("dest", flag.strip("-").replace("-", "_")) for flag, _, more in entries
            }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_keyword_of_the_function_is_an_option(name):
    keywords = set(inspect.signature(FUNCTIONS[name]).parameters)
    only_here = {name: {"no_report"} for name in ("finetune", "stretch")}
    only_here |= {"evaluate": {"output"}, "predict": {"format"}, "bench passkey": {"no_pictures"}}
    only_there = {"predict": {"texts", "text"}}
    here, there = destinations(name), keywords - {"verbose"}
    assert here - there == only_here.get(name, set())
    assert there - here == only_there.get(name, set())


def test_every_keyword_and_setting_of_the_benchmark_is_an_option():
    keywords = set(inspect.signature(bench.bench).parameters) - {"verbose", "settings"}
    keywords |= {field.name for field in dataclasses.fields(bench.Settings)}
    assert destinations("bench") == keywords | {"no_pictures"}


def test_defaults_in_the_help_of_the_benchmark_are_those_of_its_settings():
    ((_, _, _, options),) = [entry for entry in COMMANDS if entry[0] == "bench"]
    words = {flag[2:].replace("-", "_"): text for flag, text, _ in options}
    for field in dataclasses.fields(bench.Settings):
        if isinstance(field.default, int | float):
            assert f"(default: {field.default:g})" in words[field.name]


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("64", [64]), ("50,100", [50, 100]), ("1-4,9", [1, 2, 3, 4, 9]), ("4-8:2", [4, 6, 8])],
)
def test_lengths(text, lengths):
    found = parser().parse_args(["bench", "even_pairs", "--train-lengths", text])
    assert found.train_lengths == lengths


def test_lengths_that_are_none_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(["bench", "even_pairs", "--train-lengths", "1-"])
    assert "every second, 4-64:2, not '1-'" in capsys.readouterr().err


def test_defaults_in_the_help_are_those_of_the_function():
    options = {flag: words for _, _, _, options in COMMANDS[:1] for flag, words, _ in options}
    for name, parameter in inspect.signature(training.finetune).parameters.items():
        words = options.get(f"--{name.replace('_', '-')}", "")
        if parameter.default is not inspect.Parameter.empty and "(default: " in words:
            shown = words.split("(default: ")[1].rstrip(")")
            if parameter.default is not None:
                try:
                    assert float(shown) == parameter.default
                except ValueError:
                    assert shown == parameter.default
    assert "(default: 512)" in options["--max-length"] and "(default: 3)" in options["--epochs"]


def test_defaults_in_the_help_of_the_curves_are_those_of_the_functions():
    functions = {"decay": analysis.decay_curve, "entropy": analysis.entropy_by_length}
    for name, _, _, options in PLOTS:
        if name in functions:
            words = {flag: text for flag, text, _ in options}
            parameters = inspect.signature(functions[name]).parameters
            for flag in ("--num-heads", "--head-size", "--sharpness"):
                if flag in words:
                    default = parameters[flag[2:].replace("-", "_")].default
                    assert f"(default: {default:g})" in words[flag]


def test_the_choices_are_those_of_the_recipe():
    assert STRETCHES == recipe.STRETCHES
    assert POOLINGS == heads.POOLINGS
    assert OBJECTIVES == tuple(pretraining.OBJECTIVES)
    assert STARTS == stretch_recipe.STARTS
    assert EMBEDDINGS == reading.POOLINGS
    ((_, _, _, options),) = [entry for entry in COMMANDS if entry[0] == "finetune"]
    choices = {flag: how.get("choices") for flag, _, how in options}
    assert choices["--longer"] == recipe.LONGER and choices["--schedule"] == recipe.SCHEDULES


@pytest.mark.parametrize("command", ["pretrain", "stretch"])
def test_defaults_in_the_help_are_numbers_of_the_function(command):
    ((_, _, _, options),) = [entry for entry in COMMANDS if entry[0] == command]
    words = {flag[2:].replace("-", "_"): text for flag, text, _ in options}
    for name, parameter in inspect.signature(FUNCTIONS[command]).parameters.items():
        if name in words and type(parameter.default) in (int, float):
            assert f"(default: {parameter.default:g}" in words[name]


def test_options_that_are_not_given_are_not_there():
    found = vars(parser().parse_args(["finetune", "a", "b", "c", "--validation", "0.2"]))
    assert found == {
        "command": "finetune",
        "checkpoint": "a",
        "train": "b",
        "output": "c",
        "validation": 0.2,
    }


def test_a_validation_that_is_no_number_is_a_path():
    found = parser().parse_args(["finetune", "a", "b", "c", "--validation", "v.tsv"])
    assert found.validation == "v.tsv"
