"""The fifteen tasks against slow oracles, at every length; their formats as published."""

import oracles_tasks
import pytest

from keras_posenc import tasks

pytestmark = pytest.mark.once

CASES = [(name, "code") for name in tasks.CHOMSKY]
CASES += [(name, "paper") for name in ("odds_first", "compute_sqrt", "cycle_navigation")]
# Both variants of this one have the same answers, and differ in their lengths.
CASES += [("modular_arithmetic", "paper")]


def oracle_of(name, variant):
    published = getattr(oracles_tasks, name)
    return getattr(oracles_tasks, f"{name}_{variant}", published)


# name: level, symbols, classes, chance, output length. From the publication's tables and code.
PUBLISHED = {
    "even_pairs": ("regular", 2, 2, 0.5, lambda n: 1),
    "modular_arithmetic": ("regular", 9, 5, 0.2, lambda n: 1),
    "parity_check": ("regular", 2, 2, 0.5, lambda n: 1),
    "cycle_navigation": ("regular", 3, 5, 0.2, lambda n: 1),
    "stack_manipulation": ("context_free", 5, 3, 0.5, lambda n: n + 1),
    "reverse_string": ("context_free", 2, 2, 0.5, lambda n: n),
    "modular_arithmetic_brackets": ("context_free", 11, 5, 0.2, lambda n: 1),
    "solve_equation": ("context_free", 11, 5, 0.2, lambda n: 1),
    "duplicate_string": ("context_sensitive", 2, 2, 0.5, lambda n: 2 * n),
    "missing_duplicate_string": ("context_sensitive", 4, 2, 0.5, lambda n: 1),
    "odds_first": ("context_sensitive", 2, 2, 0.5, lambda n: n),
    "binary_addition": ("context_sensitive", 3, 3, 0.5, lambda n: n + 1),
    "binary_multiplication": ("context_sensitive", 3, 3, 0.5, lambda n: n),
    "compute_sqrt": ("context_sensitive", 2, 2, 0.5, lambda n: (n + 1) // 2),
    "bucket_sort": ("context_sensitive", 5, 5, 0.2, lambda n: n),
}


def test_there_are_the_published_fifteen():
    assert sorted(tasks.CHOMSKY) == sorted(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_sizes_are_the_published_ones(name):
    level, symbols, classes, chance, output_length = PUBLISHED[name]
    task = tasks.get(name)
    assert (task.name, task.level, task.variant) == (name, level, "code")
    assert (task.vocabulary_size, task.classes, task.chance) == (symbols, classes, chance)
    assert [task.output_length(n) for n in (1, 2, 7, 40)] == [
        output_length(n) for n in (1, 2, 7, 40)
    ]


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_samples_agree_with_the_oracle_at_every_length(name, variant):
    task, oracle = tasks.get(name, variant=variant), oracle_of(name, variant)
    for length in [*range(1, 61), 500]:
        tokens, targets, mask = task.sample(4 if length < 500 else 2, length, seed=(1, length))
        assert {str(a.dtype) for a in (tokens, targets, mask)} == {"int32"}
        assert tokens.shape[1] == task.input_length(length)
        assert targets.shape == mask.shape == (len(tokens), task.output_length(tokens.shape[1]))
        assert tokens.min() >= 0 and tokens.max() < task.vocabulary_size
        for row, target, scored in zip(tokens, targets, mask, strict=True):
            right, places = oracle(row.tolist())
            assert target.tolist() == right
            assert scored.tolist() == [1] * places + [0] * (len(right) - places)


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_solve_gives_what_sample_gave(name, variant):
    task = tasks.get(name, variant=variant)
    for length in (1, 2, 3, 4, 5, 6, 17, 40, 333):
        tokens, targets, mask = task.sample(16, length, seed=length)
        solved = task.solve(tokens.tolist())
        assert (solved[0] == targets).all() and (solved[1] == mask).all()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_seed_means_one_batch(name):
    task = tasks.get(name)
    first, second, other = (task.sample(8, 30, seed) for seed in ((3, 7), (3, 7), (3, 8)))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert (first[0] != other[0]).any()


# What the documentation of the published code and the seeds of this project give as examples.
EXAMPLES = [
    ("even_pairs", "001110", "0"),
    ("even_pairs", "0101001", "1"),
    ("even_pairs", "00110", "0"),  # aabba
    ("parity_check", "1010100", "1"),
    ("parity_check", "01111", "0"),
    ("parity_check", "000110", "0"),  # aaabba has two b
    ("cycle_navigation", "20100", "3"),  # 1 -1 0 -1 -1
    ("cycle_navigation", "2220", "2"),  # 1 1 1 -1
    ("modular_arithmetic", "15273", "2"),
    ("modular_arithmetic", "16161", "4"),
    ("modular_arithmetic", "071547362", "0"),
    ("modular_arithmetic", "15264", "4"),
    ("stack_manipulation", "0110422", "11020000"),
    ("stack_manipulation", "110222", "2000000"),
    ("stack_manipulation", "01100232", "011020000"),  # abbaa POP, PUSH a, POP -> abba
    ("reverse_string", "011010", "010110"),
    ("reverse_string", "00110", "01100"),
    ("duplicate_string", "101", "101101"),
    ("duplicate_string", "01001", "0100101001"),
    ("missing_duplicate_string", "01100210", "1"),
    ("missing_duplicate_string", "1011213", "0"),
    ("missing_duplicate_string", "012010", "0"),  # ab_aba
    ("binary_addition", "001201101", "0101120000"),  # 4 + 22 = 26
    ("binary_addition", "10012000001", "100101200000"),  # 9 + 32 = 41
    ("binary_multiplication", "001201101", "000110120"),  # 4 * 22 = 88
    ("binary_multiplication", "10012000001", "00000100120"),  # 9 * 32 = 288
    ("binary_multiplication", "1", "2"),
    ("binary_multiplication", "10", "02"),
    ("binary_addition", "0", "02"),
    ("binary_addition", "01", "012"),
    ("compute_sqrt", "100101", "110"),  # 37 -> 6; "101" in the published text is a slip
    ("compute_sqrt", "111", "10"),
    ("compute_sqrt", "101001", "110"),  # 41 -> 6; seed 000 says 101
    ("bucket_sort", "421302214", "011222344"),
    ("bucket_sort", "10204112", "00111224"),
]


PAPER_EXAMPLES = [
    ("cycle_navigation", "010211", "2"),
    ("odds_first", "000100", "000010"),  # aaabaa -> aaaaba
    ("odds_first", "00110101", "01000111"),
    ("odds_first", "110", "101"),
    ("compute_sqrt", "101001", "011"),  # 37 -> 6, lowest bit first
]


@pytest.mark.parametrize(
    ("name", "variant", "tokens", "targets"),
    [(name, "code", *rest) for name, *rest in EXAMPLES]
    + [(name, "paper", *rest) for name, *rest in PAPER_EXAMPLES],
)
def test_published_examples(name, variant, tokens, targets):
    solved, _ = tasks.get(name, variant=variant).solve([[int(token) for token in tokens]])
    assert "".join(map(str, solved[0])) == targets


def test_an_even_length_of_arithmetic_is_one_less_or_one_more():
    code, paper = (tasks.get("modular_arithmetic", variant=v) for v in ("code", "paper"))
    assert [code.input_length(n) for n in (1, 2, 3, 40, 500)] == [1, 1, 3, 39, 499]
    assert [paper.input_length(n) for n in (1, 2, 3, 40, 500)] == [1, 3, 3, 41, 501]


def test_a_long_product_does_not_overflow():
    """4^250 = (-1)^250 modulo 5. The published code multiplies in 32 bits and gives 0."""
    tokens = [[4, *[7, 4] * 249]]
    assert tasks.get("modular_arithmetic").solve(tokens)[0].tolist() == [[1]]


def test_blanks_mean_zero_or_plus_as_in_the_published_code():
    assert tasks.get("modular_arithmetic").solve([[3, 8, 4, 7, 8]])[0].tolist() == [[3]]


def test_inputs_are_the_tokens_and_a_placeholder_for_each_target():
    task = tasks.get("duplicate_string")
    assert task.inputs([[0, 1]]).tolist() == [[0, 1, 2, 2, 2, 2]]
    one_hot = task.one_hot([[0, 1]])
    assert (one_hot.dtype, task.input_size) == ("float32", 3)
    assert one_hot.tolist() == [[[1, 0, 0], [0, 1, 0], *[[0, 0, 1]] * 4]]
    assert tasks.get("parity_check").inputs([[0, 1]]).tolist() == [[0, 1, 2]]
