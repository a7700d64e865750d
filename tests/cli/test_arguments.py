import inspect

import pytest

from keras_posenc import analysis, training
from keras_posenc.cli.arguments import COMMANDS, PLOTS, STRETCHES, parser
from keras_posenc.training import recipe

pytestmark = pytest.mark.once

FUNCTIONS = {
    "finetune": training.finetune,
    "evaluate": training.evaluate,
    "predict": training.predict,
    "inspect": analysis.inspect_checkpoint,
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
    only_here = {"finetune": {"no_report"}, "evaluate": {"output"}, "predict": {"format"}}
    only_there = {"predict": {"texts", "text"}}
    here, there = destinations(name), keywords - {"verbose"}
    assert here - there == only_here.get(name, set())
    assert there - here == only_there.get(name, set())


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
