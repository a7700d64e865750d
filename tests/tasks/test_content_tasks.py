"""Flip-flop, selective copy and counting against programs that run them step by step."""

import random

import numpy as np
import oracles_tasks
import pytest

from keras_posenc import tasks

pytestmark = pytest.mark.once

CASES = [
    (name, {"split": s})
    for name in ("flip_flop", "selective_copy", "counting")
    for s in ("train", "sparse", "dense")
]
CASES += [("counting", {"variables": count}) for count in (1, 5)]
LENGTHS = {
    "flip_flop": range(4, 61, 2),
    "selective_copy": range(1, 61),
    "counting": [*range(7, 31), 60],
}


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_samples_agree_with_the_oracle_at_every_length(name, arguments):
    task, oracle = tasks.get(name, **arguments), getattr(oracles_tasks, name)
    assert task.causal and task.input_size == task.vocabulary_size == task.classes
    for length in [*LENGTHS[name], 500]:
        tokens, targets, mask = task.sample(3, length, seed=length)
        assert {str(a.dtype) for a in (tokens, targets, mask)} == {"int32"}
        assert tokens.shape == targets.shape == mask.shape == (3, task.input_length(length))
        assert (task.inputs(tokens) == tokens).all()
        assert (targets[:, :-1] == tokens[:, 1:]).all()
        for row, target, scored in zip(tokens, targets, mask, strict=True):
            right = oracle(row.tolist())
            assert np.flatnonzero(scored).tolist() == sorted(right)
            assert all(target[place] == token for place, token in right.items())
        solved = task.solve(tokens)
        assert (solved[0] == targets).all() and (solved[1] == mask).all()


@pytest.mark.parametrize(("split", "ignore"), [("train", 0.8), ("sparse", 0.98), ("dense", 0.1)])
def test_flip_flop_ignores_as_often_as_published(split, ignore):
    tokens, _, mask = tasks.get("flip_flop", split=split).sample(100, 512, seed=0)
    instruction, bit = tokens[:, ::2], tokens[:, 1::2]
    assert (instruction[:, 0] == 0).all() and (instruction[:, -1] == 1).all()
    shares = [(instruction[:, 1:-1] == kind).mean() for kind in range(3)]
    expected = [(1 - ignore) / 2, (1 - ignore) / 2, ignore]
    assert np.abs(np.subtract(shares, expected)).max() < 0.02
    assert all(abs((bit[instruction == kind] == 4).mean() - 0.5) < 0.1 for kind in range(3))
    assert (mask.sum(1) == (instruction == 1).sum(1)).all()


@pytest.mark.parametrize(("split", "blanks"), [("train", 128), ("dense", 64), ("sparse", 256)])
def test_selective_copy_has_the_published_numbers(split, blanks):
    tokens, targets, mask = tasks.get("selective_copy", split=split).sample(40, 128, seed=0)
    assert ((tokens == 16).sum(1) == blanks).all() and (mask.sum(1) == 128).all()
    counts = np.bincount(targets[mask == 1], minlength=18) / (40 * 128)
    assert np.abs(counts[:16] - 1 / 16).max() < 0.02 and not counts[16:].any()
    # The blanks are anywhere: each quarter of the text has as many.
    quarters = (tokens[:, : 128 + blanks] == 16).reshape(40, 4, -1).mean((0, 2))
    assert np.abs(quarters - blanks / (128 + blanks)).max() < 0.05


def statements(row):
    """The kinds of a program's statements: 4 for "v = 0 ;", 2 for "v ++;", 1 for "pass;"."""
    kinds, row = [], row[: row.index(6)]
    while row:
        kinds.append(1 if row[0] == 5 else 2 if row[1] == 4 else 4)
        row = row[kinds[-1] :]
    return kinds


@pytest.mark.parametrize(("split", "weight"), [("train", 50), ("sparse", 200), ("dense", 10)])
def test_counting_draws_statements_with_the_published_weights(split, weight):
    """Sets and passes are never drawn again: 1 : weight over all programs.

    Those that set nothing, and have n passes each, are drawn again: of n in 3 .. 512 a share of
    (weight / (weight + 1))^n.
    """
    tokens, _, _ = tasks.get("counting", split=split, variables=1).sample(300, 512, seed=0)
    kinds = np.concatenate([statements(row) for row in tokens.tolist()])
    sets, increments, passes = ((kinds == kind).sum() for kind in (4, 2, 1))
    steps = np.arange(3, 513)
    without = (weight / (weight + 1)) ** steps
    dropped = 300 / (1 - without.mean()) * (steps * without).mean()
    assert abs((passes + dropped) / sets / weight - 1) < 0.15
    assert 3 < increments / sets < 7


def slow_counting(rng, steps, variables):
    """The answer of the published generator, statement by statement; None where it starts anew."""
    state = {}
    for _ in range(steps):
        while True:
            kind = rng.choices(["set", "increment", "pass"], [1, 7, 50])[0]
            if kind == "set":
                state[rng.randrange(variables)] = 0
            elif kind == "increment":
                name = rng.choice(list(state)) if state else None
                if name is None or state[name] == 10:
                    continue
                state[name] += 1
            break
    return rng.choice(list(state.values())) if state else None


@pytest.mark.parametrize("variables", [1, 3])
def test_counting_asks_for_values_as_often_as_the_published_generator(variables):
    rng = random.Random(0)
    slow = []
    while len(slow) < 1500:
        answer = slow_counting(rng, rng.randint(3, 60), variables)
        if answer is not None:
            slow.append(answer)
    task = tasks.get("counting", variables=variables, variant="code")
    _, targets, mask = task.sample(4000, 60, seed=0)
    fast = np.bincount(targets[mask == 1] - 7, minlength=11) / 4000
    assert np.abs(np.bincount(slow, minlength=11) / 1500 - fast).max() < 0.05


def test_counting_cut_from_the_left_keeps_the_answer_of_the_whole_program():
    """As published; some answers then do not follow from what is left, and `solve` says so."""
    task = tasks.get("counting", variables=5, variant="code")
    tokens, targets, mask = task.sample(300, 64, seed=0)
    assert (mask.sum(1) == 1).all() and (tokens[:, -1] != 0).mean() > 0.05
    assert (tokens[mask == 1] >= 18).all() and (targets[mask == 1] < 18).all()
    refused = 0
    for row, target, scored in zip(tokens, targets, mask, strict=True):
        try:
            solved, _ = task.solve(row[None])
        except ValueError as error:
            assert "sets the variable that it prints" in str(error)
            refused += 1
        else:
            assert solved[0, scored.argmax()] == target[scored.argmax()]
    assert 0 < refused < 60


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("flip_flop", [0, 3, 1], "pairs of an instruction"),
        ("flip_flop", [2, 3, 1, 3], "the first is a write"),
        ("flip_flop", [0, 3, 1, 1], "pairs of an instruction"),
        (
            "flip_flop",
            [0, 3, 1, 4],
            "row 0 is not valid: a row reads .1. the bit of the last write",
        ),
        ("selective_copy", [1, 2, 1, 2], "one end .17., and the tokens again"),
        ("selective_copy", [1, 2, 17, 1], "one end .17., and the tokens again"),
        ("selective_copy", [1, 2, 17, 2, 1], "one end .17., and the tokens again"),
        ("counting", [18, 2, 7, 3, 5], "then print, a variable and its value"),
        ("counting", [18, 2, 7, 3, 6, 18], "then print, a variable and its value"),
        ("counting", [18, 2, 7, 3, 6, 18, 7, 5], "then print, a variable and its value"),
        ("counting", [18, 2, 7, 3, 6, 19, 7], "sets the variable that it prints"),
        ("counting", [18, 2, 7, 3, 6, 18, 8], "prints the value of the variable"),
    ],
)
def test_tokens_of_no_sample_are_refused(name, row, message):
    with pytest.raises(ValueError, match=message):
        tasks.get(name).solve([row])


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "flip_flop",
            {"split": "validation"},
            "flip_flop has no split 'validation': give one of train",
        ),
        (
            "counting",
            {"variant": "paper"},
            "counting has no variant 'paper': give one of whole, code",
        ),
        ("counting", {"variables": 0}, "variables=0; give at least 1"),
        (
            "odds_first",
            {"variant": "seed"},
            "odds_first has no variant 'seed': give one of code, paper",
        ),
    ],
)
def test_unknown_arguments_are_refused(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        tasks.get(name, **arguments)


@pytest.mark.parametrize(
    ("name", "length", "message"),
    [
        ("flip_flop", 2, "flip_flop: length=2; .* give an even length from 4 on"),
        ("flip_flop", 7, "flip_flop: length=7; .* give an even length from 4 on"),
        ("counting", 6, "counting: length=6; .* give at least 7"),
        ("parity_check", 0, "length=0: give at least 1"),
    ],
)
def test_lengths_that_no_sample_has_are_refused(name, length, message):
    with pytest.raises(ValueError, match=message):
        tasks.get(name).sample(2, length, seed=0)
    with pytest.raises(ValueError, match="batch_size=0: give at least 1"):
        tasks.get(name).sample(0, 40, seed=0)
