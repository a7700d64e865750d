"""Settings as values: short forms, checks, former arguments, and records of earlier runs."""

import dataclasses
import json
import pathlib
import re

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG

from keras_posenc import build_transformer_model
from keras_posenc.training import (
    Answer,
    Classify,
    Embed,
    MultiLabel,
    Optimizer,
    Regress,
    Source,
    Tag,
    contextualize,
    finetune,
    pretrain,
    stretch,
)
from keras_posenc.training.contextual.contextualize import ContextualRecipe
from keras_posenc.training.finetuning.recipe import FinetuneRecipe
from keras_posenc.training.finetuning.tasks import TASKS, task_of, task_of_record
from keras_posenc.training.optimizer_settings import make_optimizer
from keras_posenc.training.pretrain import PretrainRecipe
from keras_posenc.training.runs import check_same_run
from keras_posenc.training.settings import former_settings, renamed
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

pytestmark = pytest.mark.once

RECORDS = pathlib.Path(__file__).parents[1] / "references" / "records"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adamw", Optimizer()),
        ("lion", Optimizer("lion")),
        ("adamw:2e-5", Optimizer(learning_rate=2e-5)),
        (
            "lion:2e-5, warmup=0, weight_decay=0.1, schedule=linear",
            Optimizer("lion", 2e-5, "linear", 0.0, 0.1),
        ),
        ("adamw:clip=none,use_ema=true", Optimizer(clip=None, use_ema=True)),
        ("adamw:layer_decay=0.9", Optimizer(layer_decay=0.9)),
        (None, Optimizer()),
    ],
)
def test_a_short_string_is_an_optimizer(text, expected):
    assert Optimizer.of(text) == expected


@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer(),
        Optimizer("lion", 2e-5, "linear", 0.0, 0.1, None, True),
        Optimizer(layer_decay=0.9, clip=0.5),
    ],
)
def test_an_optimizer_is_read_from_its_short_form_and_from_a_record(optimizer):
    assert Optimizer.of(str(optimizer)) == optimizer
    usual = {"learning_rate": 1e-4, "weight_decay": 0.01}
    record = optimizer.filled(**usual).record()
    assert Optimizer.of_record(json.loads(json.dumps(record)), usual) == optimizer


@pytest.mark.parametrize("task", [*TASKS.values(), Embed(loss="cosent"), Answer(stride=3)])
def test_a_task_is_read_from_a_record(task):
    found = task_of_record(json.loads(json.dumps(task.record())))
    assert found == (task.name if task == TASKS[task.name] else task)


def test_an_optimizer_of_keras_stays():
    optimizer = keras.optimizers.Adam(1e-3)
    assert Optimizer.of(optimizer) is optimizer
    again = make_optimizer(optimizer, keras.Sequential([keras.Input((2,))]), 10)
    assert again is not optimizer and again.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "adamw:fast",
            "`optimizer` must be a name.* or like 'adamw:2e-5' .*: 'adamw:fast'",
        ),
        ("adamw:rate=1", "`optimizer` must be a name.*Received: 'adamw:rate=1'"),
        ("adamw:name=lion", "`optimizer` must be a name.*Received: 'adamw:name=lion'"),
        ("adamm", "`optimizer` must be 'adamw', or the name of an optimizer .*Received: 'adamm'"),
        ("adamw:0", "`learning_rate` must be a positive number. Received: 0"),
        ("adamw:nan", "`learning_rate` must be a positive number. Received: nan"),
        ("adamw:schedule=step", "`schedule` must be one of .'cosine', 'linear'.. Received: 'step'"),
        ("adamw:warmup=1", "`warmup` must be a number of at least 0 and below 1. Received: 1"),
        ("adamw:weight_decay=-1", "`weight_decay` must be a number of at least 0. Received: -1"),
        ("adamw:clip=0", "`clip` must be a positive number. Received: 0"),
        ("adamw:clip=inf", "`clip` must be a positive number. Received: inf"),
        ("adamw:layer_decay=2", "`layer_decay` must be a number above 0 and at most 1. Rec.*: 2"),
        ("lion:layer_decay=0.9", "layer_decay=0.9 belongs to 'adamw'. Received: name='lion'"),
    ],
)
def test_what_describes_no_optimizer_is_refused(text, match):
    with pytest.raises(ValueError, match=match):
        Optimizer.of(text)


@pytest.mark.parametrize("given", [3, ["adamw"], {"learning_rate": 1.0}])
def test_what_is_no_optimizer_is_refused(given):
    with pytest.raises(TypeError, match="`optimizer` must be an Optimizer, a keras.optimizers"):
        Optimizer.of(given)
    with pytest.raises(TypeError, match="`name` must be the name of an optimizer. Received: "):
        Optimizer(given)


def test_layers_further_down_learn_slower():
    model = build_transformer_model(TINY_CONFIG)
    made = Optimizer("adamw", 1e-3, layer_decay=0.5).filled(1.0, 0.01).make(model, 10)
    expected = {"Embedding-": 0.125, "Transformer-0-": 0.25, "Transformer-1-": 0.5}
    assert made.rates == expected
    for layer in model.layers:
        layer.trainable = not layer.name.startswith("Embedding")
    made = Optimizer("adamw", 1e-3, layer_decay=0.5).filled(1.0, 0.01).make(model, 10)
    assert made.rates == {name: expected[name] for name in expected if "Embedding" not in name}


def test_a_value_shows_what_differs_from_the_defaults():
    assert repr(Optimizer()) == "Optimizer()"
    assert repr(Optimizer("lion", clip=None)) == "Optimizer(name='lion', clip=None)"
    assert repr(Embed(loss="cosent")) == "Embed(loss='cosent')"
    assert repr(Source("a", model="bert")) == "Source(checkpoint='a', model='bert')"


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Classify(head_dropout=1.0), ValueError, "`head_dropout` must be a number of at "),
        (lambda: MultiLabel(head_dropout=-1), ValueError, "`head_dropout` must be a number of at "),
        (lambda: Regress(head_dropout="x"), ValueError, "`head_dropout` must be a number of at "),
        (lambda: Tag(head_dropout=2), ValueError, "`head_dropout` must be a number of at least 0"),
        (lambda: Answer(head_dropout=2), ValueError, "`head_dropout` must be a number of at least"),
        (lambda: Answer(stride=-1), ValueError, "`stride` must be an integer of at least 0"),
        (lambda: Embed(document_prompt=3), TypeError, "`document_prompt` must be a str. Rec.*: 3"),
        (lambda: Tag(stride=4), TypeError, "unexpected keyword argument 'stride'"),
        (
            lambda: task_of("clasify"),
            ValueError,
            "`task` must .* did you mean 'classify'",
        ),
        (lambda: task_of(3), ValueError, "`task` must be one of .*Received: 3"),
    ],
)
def test_settings_of_a_task_are_checked_where_they_are_given(make, error, match):
    with pytest.raises(error, match=match):
        make()


# A call as it was until version 0.4, and the new arguments that its warning has.
CALLS = [
    (finetune, {"learning_rate": 1e-3}, "optimizer=Optimizer(learning_rate=0.001)"),
    (
        finetune,
        {"optimizer": "lion", "clip": None, "use_ema": True},
        "optimizer=Optimizer(name='lion', clip=None, use_ema=True)",
    ),
    (finetune, {"class_weight": "balanced"}, "task=Classify(class_weight='balanced')"),
    (finetune, {"task": "embed", "loss": "cosent"}, "task=Embed(loss='cosent')"),
    (finetune, {"task": "qa", "stride": 8, "pooling": "mean"}, "task=Answer(stride=8)"),
    (finetune, {"task": "tag", "loss": None}, "task=Tag()"),
    (finetune, {"model": "bert"}, "checkpoint=Source(checkpoint='none', model='bert')"),
    (finetune, {"stretch": "tile"}, "extension='tile'"),
    (
        finetune,
        {"pooling": "cls", "warmup": 0.2, "config": "c"},
        "checkpoint=Source(checkpoint='none', config='c'), task=Classify(pooling='cls'), "
        "optimizer=Optimizer(warmup=0.2)",
    ),
    (pretrain, {"length": 24}, "max_length=24"),
    (pretrain, {"weight_decay": 0.0}, "optimizer=Optimizer(weight_decay=0.0)"),
    (stretch, {"length": 24}, "max_length=24"),
    (stretch, {"keep": "features"}, "nothing"),
    (stretch, {"keep": "features", "length": 24}, "max_length=24"),
    (stretch, {"learning_rate": 1e-5}, "optimizer=Optimizer(learning_rate=1e-05)"),
    (stretch, {"alpha": 0.3}, "extension='hierarchical:0.3,kept_rows=1'"),
    (contextualize, {"learning_rate": 1e-5}, "optimizer=Optimizer(learning_rate=1e-05)"),
]


@pytest.mark.parametrize(("function", "given", "new"), CALLS)
def test_a_former_argument_warns_with_the_new_call(function, given, new, tmp_path):
    names = {"optimizer", "task"}
    former = [name for name in given if name not in names]
    match = re.escape(f"{function.__name__}: give ") + ".*" + re.escape(new)
    with pytest.warns(DeprecationWarning, match=match) as warned, pytest.raises(FileNotFoundError):
        function("none", str(tmp_path / "none.tsv"), str(tmp_path / "out"), **given)
    (warned,) = warned
    assert warned.filename == __file__
    text = str(warned.message)
    assert all(f"`{name}`" in text for name in former) and "until version 0.7." in text


def test_an_argument_and_the_former_one_are_refused_together():
    for function, given in (
        (pretrain, {"length": 24, "max_length": 24}),
        (finetune, {"stretch": "tile", "extension": "tile"}),
    ):
        with pytest.raises(TypeError, match="the argument that replaced it is given, too"):
            function("none", "none.tsv", "out", **given)


def test_former_settings_of_another_task_are_refused():
    with pytest.raises(ValueError, match="stride=4: task='tag' has no such setting; leave it out"):
        finetune("none", "none.tsv", "out", task="tag", stride=4)
    with pytest.raises(ValueError, match="pooling='head': task='qa' has no such setting"):
        finetune("none", "none.tsv", "out", task="qa", pooling="head")
    with pytest.raises(ValueError, match="learning_rate=0.01: the optimizer object .* has its own"):
        adam = keras.optimizers.Adam(1e-3)
        finetune("none", "none.tsv", "out", optimizer=adam, learning_rate=1e-2)


def test_a_call_by_position_keeps_its_arguments():
    @former_settings(last=renamed("end"))
    def function(first, last=None, *, more=0):
        return first, last, more

    assert function(1, 2, more=3) == (1, 2, 3)
    with pytest.warns(DeprecationWarning, match="function: give last=0 in place of `end`"):
        assert function(1, end=0) == (1, 0, 0)


KINDS = {
    "finetune": FinetuneRecipe,
    "pretrain": PretrainRecipe,
    "stretch": StretchRecipe,
    "contextualize": ContextualRecipe,
}


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_a_run_of_version_0_4_is_the_same_run(path, tmp_path):
    """recipe.json as version 0.4 wrote it, beside the new call with the same settings."""
    content = json.loads(path.read_text("utf-8"))
    names = {"Embed": Embed, "Tag": Tag, "Classify": Classify, "Answer": Answer}
    names |= {"Optimizer": Optimizer, "Source": Source}
    arguments = eval(f"dict({content['call']})", names)
    recipe = KINDS[content["function"]](**arguments)
    record = recipe.record() | {key: content["record"].get(key) for key in ("backend", "texts")}
    for role in ("train", "validation", "test"):
        if role in content["record"]:
            record[role] = content["record"][role]
    record["dtype_policy"] = content["record"]["dtype_policy"]
    (tmp_path / "recipe.json").write_text(json.dumps(content["record"]))
    check_same_run(tmp_path, json.loads(json.dumps(record)))
    with pytest.raises(ValueError, match="other settings: clip was .* and is now 7.0"):
        other = recipe.replace(optimizer=dataclasses.replace(recipe.optimizer, clip=7.0))
        check_same_run(tmp_path, record | {"clip": other.record()["clip"]})


def test_there_is_a_record_of_each_function_and_task():
    contents = [json.loads(path.read_text("utf-8")) for path in RECORDS.glob("*.json")]
    assert {each["function"] for each in contents} == set(KINDS) - {"contextualize"}  # it was new
    tasks = {each["record"].get("task") for each in contents}
    assert tasks >= {"classify", "tag", "qa", "embed"} and tasks - {None} <= TASKS.keys()


def test_numbers_of_numpy_are_stored():
    recipe = StretchRecipe(
        checkpoint="a", max_length=30, train_length=20, local=None,
        global_every=None, steps=1, log_n=None, optimizer=None, extension="tile", seed=np.int64(3),
    )  # fmt: skip
    assert recipe.record()["learning_rate"] == 4e-5 and recipe.record()["weight_decay"] == 0.0
