import dataclasses

import pytest

from keras_posenc.training.recipe import Recipe, open_output, stages

pytestmark = pytest.mark.once

RECIPE = Recipe(
    checkpoint="bert",
    config=None,
    tokenizer=None,
    model="bert",
    lengths=((512, 2), (1536, 1)),
    longer="cut",
    stretch="hierarchical",
    alpha=0.4,
    pooling="mean",
    learning_rate=1e-4,
    schedule="cosine",
    warmup=0.1,
    weight_decay=0.01,
    clip=1.0,
    token_budget=8192,
    dropout_rate=None,
    attention_dropout_rate=None,
    head_dropout=0.1,
    seed=0,
)


def test_stages_become_epochs():
    assert RECIPE.epoch_lengths == [512, 512, 1536]
    assert RECIPE.longest == RECIPE.final_length == 1536


def test_the_longest_stage_need_not_be_the_last():
    recipe = dataclasses.replace(RECIPE, lengths=((1536, 1), (512, 1)))
    assert (recipe.longest, recipe.final_length) == (1536, 512)


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
    with pytest.raises(ValueError, match="give it, or max_length and epochs, not both"):
        stages(*given)


@pytest.mark.parametrize("lengths", [[], [512], [(512, 1, 2)], [("512", 1)], [(512.0, 1)], 512])
def test_stages_that_are_no_pairs_are_refused(lengths):
    with pytest.raises(ValueError, match=r"pairs of whole numbers \(max_length, epochs\)"):
        stages(None, None, lengths)


@pytest.mark.parametrize(
    ("setting", "value", "match"),
    [
        ("stretch", "spline", "stretch must be one of hierarchical, tile, .* Received: 'spline'"),
        ("schedule", "step", "schedule must be one of cosine, linear. Received: 'step'"),
        ("longer", "split", "longer must be one of cut, skip. Received: 'split'"),
        ("learning_rate", 0, "learning_rate must be more than 0. Received: 0"),
        ("learning_rate", "1e-4", "learning_rate must be more than 0. Received: '1e-4'"),
        ("learning_rate", float("nan"), "learning_rate must be finite. Received: nan"),
        ("clip", float("inf"), "clip must be finite. Received: inf"),
        ("warmup", 1, "warmup must be at least 0 and less than 1. Received: 1"),
        ("weight_decay", -1, "weight_decay must be at least 0. Received: -1"),
        ("clip", 0, "clip must be more than 0. Received: 0"),
        ("head_dropout", 1.0, "head_dropout must be at least 0 and less than 1. Received: 1.0"),
        ("token_budget", 0, "token_budget must be more than 0. Received: 0"),
        ("lengths", ((512, 0),), "epochs must be more than 0. Received: 0"),
        ("lengths", ((2, 1),), "max_length must be more than 2. Received: 2"),
    ],
)
def test_a_setting_out_of_range_is_refused(setting, value, match):
    with pytest.raises(ValueError, match=match):
        dataclasses.replace(RECIPE, **{setting: value})


def test_every_keyword_of_finetune_is_checked_or_read():
    import inspect

    from keras_posenc.training import finetune

    fields = {field.name for field in dataclasses.fields(Recipe)}
    keywords = set(inspect.signature(finetune).parameters)
    documents = {"train", "validation", "test", "text", "label"}
    assert fields <= keywords
    assert keywords - fields - documents == {
        "output",
        "stretch_first",
        "max_length",
        "epochs",
        "overwrite",
        "verbose",
    }


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_a_damaged_recipe_is_named(tmp_path, text):
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(ValueError, match=r"recipe\.json is damaged \(.*\)\. Restore or delete it"):
        open_output(tmp_path, {"seed": 0}, overwrite=False)
    assert open_output(tmp_path, {"seed": 0}, overwrite=True) == tmp_path
