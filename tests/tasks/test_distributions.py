"""What the published generators draw how often; what a guess scores; how answers are scored."""

import numpy as np
import pytest

from keras_posenc import tasks

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", tasks.CHOMSKY)
def test_the_best_constant_answer_scores_chance(name):
    """At length 40, where ends are rare, so that a 2 is never worth guessing."""
    task = tasks.get(name)
    _, targets, mask = task.sample(2000, 40, seed=0)
    shares = [tasks.accuracy(np.full_like(targets, c), targets, mask) for c in range(task.classes)]
    # Products with a 0 make it the most frequent value of an expression with brackets.
    best = 0.31 if name == "modular_arithmetic_brackets" else task.chance
    assert abs(max(shares) - best) < 0.04


@pytest.mark.parametrize("name", ["parity_check", "even_pairs", "cycle_navigation", "bucket_sort"])
def test_tokens_are_uniform(name):
    task = tasks.get(name)
    tokens, _, _ = task.sample(4000, 9, seed=0)
    for place in range(9):
        shares = np.bincount(tokens[:, place], minlength=task.vocabulary_size) / 4000
        assert np.abs(shares - 1 / task.vocabulary_size).max() < 0.04


def test_modular_arithmetic_draws_digits_and_operators_uniformly():
    tokens, _, _ = tasks.get("modular_arithmetic").sample(2000, 9, seed=0)
    digits = np.bincount(tokens[:, ::2].ravel(), minlength=9) / 10000
    operators = np.bincount(tokens[:, 1::2].ravel(), minlength=9) / 8000
    assert np.abs(digits[:5] - 1 / 5).max() < 0.03 and not digits[5:].any()
    assert np.abs(operators[5:8] - 1 / 3).max() < 0.03 and not operators[[0, 1, 2, 3, 4, 8]].any()


def test_the_stack_has_each_height_as_often():
    tokens, _, _ = tasks.get("stack_manipulation").sample(4000, 5, seed=0)
    heights = np.bincount((tokens < 2).sum(1), minlength=6) / 4000
    assert np.abs(heights[1:5] - 1 / 4).max() < 0.04 and heights[[0, 5]].sum() == 0
    actions = np.bincount(tokens[tokens >= 2], minlength=5)[2:] / (tokens >= 2).sum()
    assert np.abs(actions - 1 / 3).max() < 0.04
    assert not (tasks.get("stack_manipulation").sample(200, 1, seed=0)[0] > 1).any()


def test_each_place_is_missing_as_often():
    tokens, _, _ = tasks.get("missing_duplicate_string").sample(4000, 9, seed=0)
    places = np.bincount((tokens == 2).argmax(1), minlength=9) / 4000
    assert np.abs(places[:8] - 1 / 8).max() < 0.03 and (tokens[:, 8] == 3).all()


@pytest.mark.parametrize("name", ["binary_addition", "binary_multiplication"])
def test_binary_numbers_are_positive_and_uniform(name):
    tokens, _, _ = tasks.get(name).sample(9000, 5, seed=0)
    texts = ["".join(map(str, row)) for row in tokens]
    # Lengths 1, 2, 3 of the first number; then 1 to 7, 1 to 3 squared, 1 to 7.
    expected = {1: 7, 2: 9, 3: 7}
    counts = {text: texts.count(text) for text in set(texts)}
    assert len(counts) == sum(expected.values())
    for text, count in counts.items():
        assert abs(count / 3000 - 1 / expected[text.index("2")]) < 0.04
    short = tasks.get(name).sample(900, 2, seed=0)[0]
    assert {tuple(row) for row in short.tolist()} == {(0, 0), (1, 0), (0, 1)}


def test_roots_are_of_each_positive_number_as_often():
    tokens, _, _ = tasks.get("compute_sqrt").sample(7000, 3, seed=0)
    numbers = np.bincount(tokens @ [4, 2, 1], minlength=8) / 7000
    assert numbers[0] == 0 and np.abs(numbers[1:] - 1 / 7).max() < 0.02


def test_accuracy_is_over_all_scored_places_of_the_batch():
    targets = np.array([[1, 0, 2, 0], [1, 2, 0, 0]])
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    predictions = np.array([[1, 0, 0, 1], [0, 2, 1, 1]])
    assert tasks.accuracy(predictions, targets, mask) == 3 / 5
    logits = np.eye(3)[predictions] - 5
    assert tasks.accuracy(logits, targets, mask) == 3 / 5
    assert tasks.correct(logits, targets).tolist() == (predictions == targets).tolist()
    by_place = tasks.mean_by_place(tasks.correct(predictions, targets), mask)
    assert by_place[:3].tolist() == [0.5, 1, 0] and np.isnan(by_place[3])


@pytest.mark.parametrize(
    ("predictions", "mask", "message"),
    [
        (np.zeros((2, 3)), np.ones((2, 2)), r"predictions has the shape \(2, 3\), .* \(2, 2\)"),
        (np.zeros((2, 2)), np.ones((2, 1)), r"mask has the shape \(2, 1\), .* \(2, 2\)"),
        (np.zeros((2, 2)), np.zeros((2, 2)), "mask scores no place"),
    ],
)
def test_accuracy_refuses_what_does_not_fit(predictions, mask, message):
    with pytest.raises(ValueError, match=message):
        tasks.accuracy(predictions, np.zeros((2, 2), int), mask)


@pytest.mark.parametrize("span", [1, 3, 4, 20])
def test_right_places_are_counted_by_span(span):
    rng = np.random.default_rng(0)
    predictions, targets, mask = rng.integers(0, 2, (3, 5, 11))
    right, scored = tasks.right_by_span(predictions, targets, mask, span)
    for number, start in enumerate(range(0, 11, span)):
        cells = [(row, place) for row in range(5) for place in range(start, min(start + span, 11))]
        kept = [cell for cell in cells if mask[cell]]
        hits = [cell for cell in kept if predictions[cell] == targets[cell]]
        assert (right[number], scored[number]) == (len(hits), len(kept))
    assert sum(right) / sum(scored) == tasks.accuracy(predictions, targets, mask)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="Unknown task 'missing_duplicate': did you mean"):
        tasks.get("missing_duplicate")
    with pytest.raises(ValueError, match="Unknown task 'xyz': there are binary_addition, "):
        tasks.get("xyz")
    with pytest.raises(ValueError, match="Unknown curriculum 'uniforn': did you mean 'uniform'"):
        tasks.curriculum("uniforn")


def test_the_tasks_come_with_the_package():
    import keras_posenc

    assert keras_posenc.tasks.get("bucket_sort").name == "bucket_sort"
    assert all(task.name == name for name, task in tasks.TASKS.items())
