"""Expressions: any that Python reads are valued as Python does, and drawn by the grammar."""

import collections

import numpy as np
import oracles_tasks
import pytest

from keras_posenc import tasks
from keras_posenc.tasks.arithmetic import draw_expressions

pytestmark = pytest.mark.once

CHARACTERS = "01234+-*()"


def ids(text):
    return [CHARACTERS.index(character) for character in text]


def random_expression(rng, size):
    """Any expression, not only of the published grammar: sums of products, deep brackets."""
    if size <= 1:
        return str(rng.integers(5))
    match rng.integers(4):
        case 0:
            return f"({random_expression(rng, size - 2)})"
        case 1:
            inner = random_expression(rng, size - 1)
            return f"-{inner}" if inner[0] != "-" else f"-({inner})"
        case _:
            cut = int(rng.integers(1, size))
            parts = random_expression(rng, cut), random_expression(rng, size - cut)
            return parts[0] + rng.choice(list("+-*")) + parts[1]


def test_any_expression_has_the_value_that_python_finds():
    task, wrong = tasks.get("modular_arithmetic_brackets"), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        text = random_expression(rng, int(rng.integers(1, 60)))
        solved, _ = task.solve([ids(text)])
        if solved.tolist() != [[oracles_tasks.python_value(text)]]:
            wrong.append(text)
    assert wrong == []


def test_rows_do_not_disturb_each_other():
    rng = np.random.default_rng(0)
    by_length = collections.defaultdict(list)
    for _ in range(400):
        text = random_expression(rng, int(rng.integers(1, 12)))
        by_length[len(text)].append(text)
    for texts in by_length.values():
        solved, _ = tasks.get("modular_arithmetic_brackets").solve([ids(text) for text in texts])
        assert solved[:, 0].tolist() == [oracles_tasks.python_value(text) for text in texts]


@pytest.mark.parametrize("length", [*range(1, 15), 40])
@pytest.mark.parametrize(("operators", "signs"), [(2, "+-"), (3, "+-*")])
def test_the_grammar_makes_what_is_drawn(length, operators, signs):
    drawn = draw_expressions(np.random.default_rng(length), 20, length, operators)
    for row in drawn:
        text = "".join(CHARACTERS[token] for token in row)
        assert oracles_tasks.is_drawn_expression(text, signs), text


def test_each_split_digit_and_operator_is_as_likely():
    drawn = draw_expressions(np.random.default_rng(0), 12000, 6, operators=3)
    texts = ["".join(CHARACTERS[token] for token in row) for row in drawn]
    # (d op -d) or (-d op d)
    left = collections.Counter(text[1] == "-" for text in texts)
    assert abs(left[True] / 12000 - 1 / 2) < 0.025
    signs = collections.Counter(text[3] if text[1] == "-" else text[2] for text in texts)
    assert all(abs(signs[sign] / 12000 - 1 / 3) < 0.025 for sign in "+-*")
    digits = collections.Counter(text[-2] for text in texts)
    assert all(abs(digits[digit] / 12000 - 1 / 5) < 0.02 for digit in "01234")


def test_x_is_the_first_digit_from_a_uniform_place_on():
    """(d+d): places 0, 1 and, around the end, 4 lead to the first digit; 2 and 3 to the second."""
    tokens, targets, _ = tasks.get("solve_equation").sample(6000, 7, seed=0)
    assert abs((tokens[:, 1] == 9).mean() - 3 / 5) < 0.03
    assert all(abs((targets == digit).mean() - 1 / 5) < 0.03 for digit in range(5))


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")(",
        "()",
        "1+",
        "+1",
        "*1",
        "1(2)",
        "(1)2",
        "12",
        "--1",
        "1---1",
        "(1+)",
        "1+*2",
        "(1))(",
    ],
)
def test_what_is_no_expression_is_refused(text):
    task = tasks.get("modular_arithmetic_brackets")
    good = ids("1" if len(text) == 1 else "1" + "+1" * 5)[: len(text)]
    if len(text) % 2 == 0:
        good = ids("-1" + "+1" * 5)[: len(text)]
    assert task.solve([good]) is not None
    message = "modular_arithmetic_brackets: row 1 is not valid: a row is one expression"
    with pytest.raises(ValueError, match=message):
        task.solve([good, ids(text)])


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("modular_arithmetic", [1, 5], "modular_arithmetic: 2 tokens; an expression has an odd"),
        (
            "modular_arithmetic",
            [1, 2, 3],
            "row 0 is not valid: a row has digits .* between operators",
        ),
        ("modular_arithmetic_brackets", [10], "ids 0 to 9: 10 is unused"),
        ("solve_equation", [0, 1], "of fewer than 3 tokens has only zeros"),
        ("solve_equation", [1, 10, 1], "one x, then = and a digit"),
        ("solve_equation", [9, 10, 5], "one x, then = and a digit"),
        ("solve_equation", [9, 5, 9, 10, 1], "one x, then = and a digit"),
        ("solve_equation", [9, 9, 10, 1], "one x, then = and a digit"),
        (
            "solve_equation",
            [7, 9, 10, 1],
            "solve_equation: row 0 is not valid: a row is one expression",
        ),
        ("stack_manipulation", [2, 0], "row 0 is not valid: a row is bits .* then actions"),
        ("stack_manipulation", [0, 3, 1], "row 0 is not valid: a row is bits .* then actions"),
        ("missing_duplicate_string", [0], "of one token is a 1"),
        ("missing_duplicate_string", [0, 1], "holds the same bits twice"),
        ("missing_duplicate_string", [2, 2], "holds the same bits twice"),
        ("missing_duplicate_string", [0, 2, 1], "holds the same bits twice"),
        ("missing_duplicate_string", [0, 2, 1, 1], "holds the same bits twice"),
        ("missing_duplicate_string", [3, 2, 3, 1], "holds the same bits twice"),
        ("binary_addition", [2], "of fewer than 3 tokens has only bits"),
        ("binary_addition", [0, 1, 1], "two binary numbers with one 2 between"),
        ("binary_addition", [2, 1, 1], "two binary numbers with one 2 between"),
        ("binary_multiplication", [1, 0, 2], "two binary numbers with one 2 between"),
        ("binary_multiplication", [1, 2, 2, 1], "two binary numbers with one 2 between"),
        ("reverse_string", [0, 2], "reverse_string: tokens from 0 to 2; its ids are 0 to 1"),
        ("reverse_string", [-1, 0], "reverse_string: tokens from -1 to 0; its ids are 0 to 1"),
        ("bucket_sort", [], "bucket_sort: tokens of shape .1, 0."),
        ("bucket_sort", [0.5], "type float64; give integers"),
    ],
)
def test_tokens_of_no_sample_are_refused(name, row, message):
    with pytest.raises(ValueError, match=message):
        tasks.get(name).solve([row])
