import dataclasses
import inspect
import json
import pathlib

import numpy as np
import pytest

from keras_posenc import read_config
from keras_posenc.training import (
    Optimizer,
    Source,
    contextualize,
    finetune,
    pretrain,
    stretch,
)
from keras_posenc.training.finetuning.recipe import FinetuneRecipe, stages
from keras_posenc.training.pretrain import PretrainRecipe
from keras_posenc.training.runs import ADDED, check_same_run, run_once
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

pytestmark = pytest.mark.once

DEFAULTS = {
    name: None if each.default is each.empty else each.default
    for name, each in inspect.signature(finetune).parameters.items()
}
RECIPE = FinetuneRecipe.of({**DEFAULTS, "checkpoint": "bert"}, lengths=((512, 2), (1536, 1)))


def test_stages_become_epochs():
    assert RECIPE.epoch_lengths == [512, 512, 1536]
    assert RECIPE.longest == RECIPE.final_length == 1536


def test_the_longest_stage_need_not_be_the_last():
    recipe = RECIPE.replace(lengths=((1536, 1), (512, 1)))
    assert (recipe.longest, recipe.final_length) == (1536, 512)


def test_a_shorter_run_keeps_the_positions_of_the_run_before(tiny_config):
    """An interpolation to fewer positions would give each of them other rows of the table."""
    recipe = RECIPE.replace(lengths=((20, 1),), extension="interpolate")
    trained = {"stretch": "interpolate", "max_position": 24}
    assert recipe.options(read_config(tiny_config), trained)["max_position"] == 24


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), ((512, 3),)),
        ((256, None, None), ((256, 3),)),
        ((None, 1, None), ((512, 1),)),
        ((None, None, [[512, 3], (1536, 1)]), ((512, 3), (1536, 1))),
    ],
)
def test_lengths_are_given_in_one_of_two_ways(given, expected):
    assert stages(*given) == expected


@pytest.mark.parametrize("given", [(512, None, [(512, 1)]), (None, 2, [(512, 1)])])
def test_lengths_given_in_both_ways_are_refused(given):
    with pytest.raises(ValueError, match="give it, or `max_length` and `epochs`, not both"):
        stages(*given)


@pytest.mark.parametrize("lengths", [[], [512], [(512, 1, 2)], [("512", 1)], [(512.0, 1)], 512])
def test_stages_that_are_no_pairs_are_refused(lengths):
    with pytest.raises(ValueError, match=r"pairs of whole numbers \(max_length, epochs\)"):
        stages(None, None, lengths)


@pytest.mark.parametrize(
    ("setting", "value", "match"),
    [
        (
            "extension",
            "spline",
            "`extension` must be one of .'hierarchical', 'tile', .* Received: 'spline'",
        ),
        ("longer", "split", "`longer` must be one of .'cut', 'ends', 'skip'.. Received: 'split'"),
        ("token_budget", 0, "`token_budget` must be a positive integer. Received: 0"),
        ("lengths", ((512, 0),), "`epochs` must be a positive integer. Received: 0"),
        ("lengths", ((2, 1),), "`max_length` must be an integer of at least 3. Received: 2"),
    ],
)
def test_a_setting_out_of_range_is_refused(setting, value, match):
    with pytest.raises(ValueError, match=match):
        RECIPE.replace(**{setting: value})


@pytest.mark.parametrize("function", [finetune, pretrain, stretch])
def test_a_recipe_has_every_argument_but_the_texts_and_how_to_run(function):
    names = set(inspect.signature(function).parameters)
    arguments = {**dict.fromkeys(names), "checkpoint": pathlib.Path("bert"), "other": 1}
    arguments |= {"task": "tag"} if function is finetune else {}
    kinds = {finetune: FinetuneRecipe, pretrain: PretrainRecipe, stretch: StretchRecipe}

    class Unchecked(kinds[function]):
        def check(self):
            pass

    recipe = Unchecked.of(arguments, other=2, seed=np.int64(3))
    assert json.dumps(recipe.seed) == "3"
    texts = {"train", "corpus", "texts", "validation", "test", "text", "label"}
    how = {"output", "overwrite", "verbose", "devices", "cache"}
    parts = {"max_length", "epochs"} if function is finetune else set()  # of `lengths`
    settings = names - texts - how - parts - {"checkpoint"} | {"source", "other"}
    assert vars(recipe).keys() == settings
    assert (recipe.source, recipe.other) == (Source("bert"), 2)
    record = recipe.record(texts="digest")
    assert record.keys() >= settings - {"source", "max_length"} | {
        "backend",
        "dtype_policy",
        "texts",
    }
    assert record["learning_rate"] == recipe.optimizer.learning_rate


def test_a_run_from_before_a_setting_had_its_default(tmp_path):
    known = {field.name: field for field in dataclasses.fields(Optimizer)}
    for function in (pretrain, finetune, contextualize):
        known |= inspect.signature(function).parameters
    assert ADDED == {name: known[name].default for name in ADDED} | {"weight_decay": 0.0}
    (tmp_path / "recipe.json").write_text('{"seed": 0}')
    check_same_run(tmp_path, {"seed": 0, "freeze": None, "dtype_policy": "float32", **ADDED})
    for name in ADDED:
        with pytest.raises(ValueError, match=f"other settings: {name} was .* and is now 'other'"):
            check_same_run(tmp_path, {"seed": 0, **ADDED, name: "other"})
    with pytest.raises(ValueError, match="other settings: freeze was None and is now 2"):
        check_same_run(tmp_path, {"seed": 0, "freeze": 2})


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_a_damaged_recipe_is_named(tmp_path, text):
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(ValueError, match=r"recipe\.json is damaged \(.*\)\. Restore or delete it"):
        run_once(tmp_path, {"seed": 0}, False, False, None, ())

    class Run:
        def run(self, state, verbose):
            return {"loss": 1.0}

        def save(self, folder):
            (folder / "weights").write_text("w")

    found = run_once(tmp_path, {"seed": 0}, True, False, Run, ("loss",))
    assert found["loss"] == 1.0
    assert run_once(tmp_path, {"seed": 0}, False, False, None, ("loss",)) == found
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == {
        "metrics.json",
        "recipe.json",
        "weights",
    }
