"""Lengths by step."""

import collections

import pytest

from keras_posenc import tasks

pytestmark = pytest.mark.once


def shares(curriculum, step=None, seeds=range(3000)):
    drawn = [curriculum(step=seed if step is None else step, seed=seed) for seed in seeds]
    return {length: count / len(drawn) for length, count in collections.Counter(drawn).items()}


def test_uniform_is_over_1_to_40():
    found = shares(tasks.curriculum("uniform"))
    assert sorted(found) == list(range(1, 41)) == list(tasks.TRAIN_LENGTHS)
    assert all(abs(share - 1 / 40) < 0.015 for share in found.values())
    assert (tasks.TEST_LENGTHS[0], tasks.TEST_LENGTHS[-1]) == (41, 500)


def test_reverse_exponential_is_in_proportion_to_a_power():
    found = shares(tasks.curriculum("reverse_exponential", lengths=[3, 4, 6], tau=0.5))
    expected = {3: 8 / 13, 4: 4 / 13, 6: 1 / 13}
    assert all(abs(found[length] - share) < 0.03 for length, share in expected.items())
    long = tasks.curriculum("reverse_exponential", lengths=[5000, 5001], tau=0.5)
    assert long.probabilities.tolist() == [2 / 3, 1 / 3]


def test_regular_increase_is_the_newest_or_any():
    newest = tasks.curriculum("regular_increase", start=2, amount=3, every=10)
    assert [newest(step) for step in (0, 9, 10, 35)] == [2, 2, 5, 11]
    arguments = {"start": 2, "amount": 3, "every": 10, "sample_all": True}
    found = shares(tasks.curriculum("regular_increase", **arguments), step=35)
    assert sorted(found) == [2, 5, 8, 11]
    assert all(abs(share - 1 / 4) < 0.03 for share in found.values())


@pytest.mark.parametrize("name", sorted(tasks.CURRICULA))
def test_a_length_follows_from_step_and_seed(name):
    arguments = {"fixed": {"length": 9}, "regular_increase": {"every": 3, "sample_all": True}}
    first, second = (tasks.curriculum(name, **arguments.get(name, {})) for _ in range(2))
    drawn = [first(step, seed=1) for step in range(50)]
    assert all(type(length) is int for length in drawn)
    assert drawn[::-1] == [second(step, seed=1) for step in reversed(range(50))]
    if name != "fixed":
        assert drawn != [first(step, seed=2) for step in range(50)]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fixed", {"length": 0}, "`length` must be a positive integer. Received: 0"),
        ("uniform", {"lengths": []}, r"`lengths` must list one length or more.*Received: \[\]"),
        ("uniform", {"lengths": [0, 3]}, r"`lengths` must .*each at least 1. Received: \[0, 3\]"),
        (
            "reverse_exponential",
            {"tau": 1},
            "`tau` must be a number above 0 and below 1",
        ),
        ("regular_increase", {"every": 0}, "`every` must be a positive integer. Received: 0"),
    ],
)
def test_lengths_that_cannot_be_are_refused(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        tasks.curriculum(name, **arguments)
