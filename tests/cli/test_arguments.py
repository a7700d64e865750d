"""Options are read from the source of the functions: names, types, choices, defaults and words."""

import argparse
import dataclasses
import inspect
import math
import re
import shlex
import warnings

import pytest

from keras_posenc import analysis, retrieval, training
from keras_posenc.cli import main, signatures, wording
from keras_posenc.cli.arguments import parser
from keras_posenc.cli.commands import COMMANDS, PLOTS, TASK_CLASSES
from keras_posenc.cli.options import GROUPS
from keras_posenc.cli.programs import PROGRAMS
from keras_posenc.models import pooling
from keras_posenc.training import pretraining, recipe
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.optimizer_settings import SCHEDULES

pytestmark = pytest.mark.once
# Names that a reader of --help cannot type.
PYTHON_ONLY = {
    *("read_texts", "open_embedder", "Reranker", "DenseEmbedder", "LateChunks", "LateSpans"),
    *("TextModel", "LANGUAGES", "MaskedLanguageModelBatches", "CausalBatches"),
}

FUNCTIONS = {
    "finetune": training.finetune,
    "pretrain": training.pretrain,
    "stretch": training.stretch,
    "evaluate": training.evaluate,
    "predict": training.predict,
    "embed": retrieval.embed,
    "search": retrieval.search,
    "mine": retrieval.mine_hard_negatives,
    "inspect": analysis.inspect_checkpoint,
}


def commands():
    """{name: parser} of each command, `plot decay` and the others too."""
    found, todo = {}, [("", parser())]
    while todo:
        prefix, each = todo.pop()
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                todo += [
                    (f"{prefix} {name}".strip(), each) for name, each in action.choices.items()
                ]
        found[prefix] = each
    return found


def actions(name):
    """{keyword: action} of a command."""
    options = commands()[name]._actions
    return {each.dest: each for each in options if each.dest not in ("help", "debug")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_keyword_of_the_function_is_an_option(name):
    without = {"verbose", "callbacks"}
    keywords = set(inspect.signature(FUNCTIONS[name]).parameters) - without
    only_here = {name: {"no_report"} for name in ("finetune", "stretch")}
    former = {"stretch", "alpha", "kept_rows", "rope_scaling"}
    only_here |= {"pretrain": {"length"}, "stretch": {"no_report", "length"}}
    for each in ("finetune", "pretrain", "stretch"):
        only_here[each] |= former
        values = [training.Source, training.Optimizer]
        values += TASKS.values() if each == "finetune" else ()
        fields = {field.name for value in values for field in dataclasses.fields(value)}
        only_here[each] |= fields - {"name"}
    only_here["evaluate"] = {"output"}
    opening = {"ignore", "token_budget"} | former
    only_here["embed"] = opening | {"chunks", "overlap", "late", "multi", "sparse"}
    only_here["search"] = opening | {"file", "max_length", "dimension", "extension", "characters"}
    only_here["predict"] = {"format", "file", "question", "output"}
    assert set(actions(name)) == keywords | only_here.get(name, set())


def test_a_figure_has_the_options_that_its_program_reads():
    """Those of `plot gates` are read one by one; any other would be dropped in silence."""
    assert set(actions("plot gates")) == {"checkpoint", "text", "layer", "head", "output"}


def test_types_choices_and_defaults_are_read_from_the_source():
    found = actions("finetune")
    assert found["epochs"].type is int and found["alpha"].type is float
    assert found["overwrite"].nargs == 0 and found["overwrite"].option_strings == ["--overwrite"]
    assert found["clip"].type("none") is None
    assert "(default: 8192)" in found["token_budget"].help
    assert "(default: 0)" in found["seed"].help
    assert actions("pretrain")["whole_words"].option_strings == [
        "--whole-words",
        "--no-whole-words",
    ]
    assert found["matryoshka"].type("1,2") == [1, 2]
    assert found["class_weight"].type("a=2,b=c=0.5") == {"a": 2.0, "b=c": 0.5}
    assert found["class_weight"].type("balanced") == "balanced"
    assert found["lora_rank"].type is int and found["freeze"].nargs == "+"
    assert list(map(found["freeze"].type, ["embeddings", "6"])) == ["embeddings", 6]
    with pytest.raises(argparse.ArgumentTypeError, match="LABEL=X,LABEL=X, not 'a,b'"):
        found["class_weight"].type("a,b")


def test_the_choices_are_those_of_the_functions():
    for command, name, values in (
        ("finetune", "task", TASKS),
        ("finetune", "longer", recipe.LONGER),
        ("finetune", "schedule", SCHEDULES),
        ("finetune", "pooling", (*pooling.POOLINGS, "head")),
        ("pretrain", "objective", pretraining.OBJECTIVES),
    ):
        assert tuple(actions(command)[name].choices) == tuple(values), (command, name)


def test_help_leaves_former_options_out():
    former = r"--(stretch|alpha|kept-rows|rope-scaling|overlap|late|multi|sparse|length)\b(?!-)"
    for command in COMMANDS:
        text = commands()[command.name].format_help()
        assert not re.search(former, text), command.name


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.name != "list"])
def test_the_example_of_a_command_is_one(command):
    found = parser().parse_args(shlex.split(command.example))
    assert found.command == command.name
    text = commands()[command.name].format_help()
    assert text.endswith(f"example:\n  keras-posenc {command.example}\n")
    assert all(len(line) <= 90 for line in text.splitlines())


def test_long_help_is_in_groups():
    text = commands()["finetune"].format_help()
    assert text.startswith("usage: keras-posenc finetune CHECKPOINT TRAIN OUTPUT [OPTIONS]\n")
    starts = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert starts == sorted(starts) and len(text.splitlines()) < 150
    assert "--output OUTPUT [OPTIONS]" in commands()["embed"].format_help()
    assert "\ntexts:\n" not in commands()["evaluate"].format_help()


def test_each_option_is_in_one_group_at_most():
    names = [name for members in GROUPS.values() for name in members]
    assert len(set(names)) == len(names)
    known = {each for name in commands() if name for each in actions(name)}
    assert set(names) <= known


def test_options_of_a_value_are_written_as_that_value():
    def program(*words):
        found = vars(parser().parse_args(words))
        return PROGRAMS[found.pop("command")](found)

    words = ["finetune", "bert", "train.tsv", "out", "--ignore", "cls*", "--learning-rate", "1e-3"]
    text = program(*words, "--optimizer", "lion", "--task", "embed", "--loss", "cosent")
    assert "from keras_posenc.training import Embed, Optimizer, Source, finetune, summary" in text
    assert 'Source("bert", ignore=["cls*"]),' in text
    assert 'task=Embed(loss="cosent"),' in text
    assert 'optimizer=Optimizer("lion", learning_rate=0.001),' in text
    with pytest.raises(ValueError, match="`loss` belongs to --task embed, not to --task classify"):
        program(*words, "--loss", "cosent")
    text = program("stretch", "bert", "long.txt", "out", "--optimizer", "lion")
    assert 'stretch("bert", "long.txt", "out", optimizer="lion")' in text
    assert list(TASK_CLASSES) == list(TASKS)
    assert [type(task).__name__ for task in TASKS.values()] == list(TASK_CLASSES.values())


def test_every_argument_is_described_in_the_words_of_the_command_line():
    for name, command in commands().items():
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help and not re.search("`|^As in|keras.Model", action.help), (
                name,
                action,
            )
            named = set(re.findall(r"\w+", action.help)) & PYTHON_ONLY
            assert not named and not re.search(r"\w\(\w", action.help), (name, action)


def test_a_keyword_is_named_as_its_option_and_a_path_as_its_place():
    found = actions("finetune")
    assert "as pairs of --max-length and --epochs" in found["lengths"].help
    assert "in the directory of CHECKPOINT" in found["config"].help
    assert "in OUTPUT/stretched" in found["stretch_first"].help
    assert found["lengths"].metavar == "LENGTHxEPOCHS,..."


def test_a_misspelt_keyword_of_the_table_is_found():
    """Whatever a command leaves out or says otherwise is a keyword, or a line in its program."""
    for command in (*COMMANDS, *PLOTS):
        known = {name for each in command.functions for name in signatures.describe(each).keywords}
        assert set(command.without) <= known, command.name
        for name, options in command.more.items():
            assert name in known or "help" in options, (command.name, name)


def test_a_function_that_is_not_there():
    with pytest.raises(LookupError, match="keras_posenc.training has no fintune"):
        signatures.describe("training.fintune")


def test_the_source_of_a_function_says_what_python_says():
    for function in FUNCTIONS.values():
        room = function.__module__.split(".")[1]
        keywords = signatures.describe(f"{room}.{function.__name__}").keywords
        parameters = inspect.signature(function).parameters
        assert list(keywords) == list(parameters)
        for name, (default, text) in keywords.items():
            assert text, (function, name)
            if default is signatures.REQUIRED:
                assert parameters[name].default is inspect.Parameter.empty
            elif default is not signatures.COMPUTED:
                assert parameters[name].default == default


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


def test_the_label_of_rerank_is_an_output_and_no_column():
    words = ["rerank", "model", "query", "texts.txt", "--label", "entailment"]
    assert vars(parser().parse_args(words))["label"] == "entailment"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("convert BERT out --tokenizer BERT", "--tokenizer is a part of the format keras_hub"),
        ("convert BERT out.keras --format keras --dtype float16", "--dtype belongs to the formats"),
        ("search BERT BERT w1 --only 1 title=x", "--only has ids, or columns"),
        ("search BERT BERT w1 --only title=x title=y", "--only has ids, or columns"),
        ("predict BERT BERT --part-size 2", "--part-size needs --output"),
        ("predict BERT BERT --part-size 2 --output o.jsonl --format tsv", "and no --format"),
    ],
)
def test_options_not_together(command, reason, capsys, pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(command.replace("BERT", str(pretrained)).split()) == 2
    assert reason in capsys.readouterr().err


def test_a_number_of_devices():
    devices = actions("predict")["devices"].type
    assert list(map(devices, ["all", "4"])) == ["all", 4]
    with pytest.raises(argparse.ArgumentTypeError, match="a number of devices, or all, not '-1'"):
        devices("-1")


def test_numbers_and_columns_of_options():
    shown, text = actions("search")["characters"].type, actions("predict")["text"].type
    assert shown("80") == 80 and shown("ALL") is None
    with pytest.raises(argparse.ArgumentTypeError, match="a whole number, or all, not 'x'"):
        shown("x")
    assert text("a") == "a" and text("a,b") == ("a", "b")
    assert eval(wording.literal([math.inf, -math.inf]), {}) == [math.inf, -math.inf]


def test_warnings_that_are_not_of_a_user_are_shown_as_python_shows_them(capsys):
    with (
        pytest.warns(FutureWarning, match="of `max_length`"),
        wording.warning_in_options(({"max_length": "--max-length"}, {})),
    ):
        warnings.warn("of `max_length`", FutureWarning, stacklevel=1)
        warnings.warn("of `max_length`", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "keras-posenc: warning: of --max-length\n"
