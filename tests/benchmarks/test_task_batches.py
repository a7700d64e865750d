import numpy as np
import pytest

from benchmarks.extrapolation.task_batches import (
    TRIAL_TEST,
    evaluation_batches,
    padded,
    train_batch,
    width,
)
from keras_posenc import tasks

pytestmark = pytest.mark.once


def batch(name, seed=0, step=0):
    return train_batch(tasks.get(name), tasks.curriculum("uniform"), 4, seed, step, places=80)


def test_few_widths_with_little_padding():
    found = [width(places) for places in range(1, 1501)]
    assert len(set(found)) == 12
    assert all(w >= places for places, w in enumerate(found, 1))
    assert all(w <= 1.5 * places for places, w in enumerate(found, 1) if places >= 32)


def test_a_batch_is_a_function_of_seed_and_step():
    for one, other in zip(batch("bucket_sort", 3, 8), batch("bucket_sort", 3, 8), strict=True):
        assert (one == other).all()
    assert any(
        a.shape != b.shape or (a != b).any()
        for a, b in zip(batch("bucket_sort", 3, 8), batch("bucket_sort", 3, 9), strict=True)
    )


@pytest.mark.parametrize("name", ["duplicate_string", "binary_addition", "flip_flop"])
def test_what_counts(name):
    task = tasks.get(name)
    length = tasks.curriculum("fixed", length=10)
    _, targets, weights = train_batch(task, length, 4, seed=1, step=2, places=40)
    tokens, expected, mask = task.sample(4, 10, (1, 2, 1))
    answers = padded(task, tokens)[1]
    assert targets.shape == weights.shape == (4, 40)
    # Published: all places of an answer for the Chomsky tasks, also behind its end.
    counted = np.ones(mask.shape) if task.level else mask
    assert (weights[:, answers] == counted).all() and weights.sum() == counted.sum()
    assert (targets[:, answers] == expected).all()


def test_inputs_are_padded_behind_the_answer():
    task = tasks.get("reverse_string")
    ids, answers = padded(task, np.array([[1, 0, 1, 1, 0]]))
    assert ids.tolist() == [[1, 0, 1, 1, 0] + 5 * [2] + 22 * [3]]
    assert (answers.start, answers.stop) == (5, 10)
    assert padded(task, np.array([[1, 0]]), 6)[0].tolist() == [[1, 0, 2, 2, 3, 3]]


def ids_of(name="even_pairs", **arguments):
    batches = evaluation_batches(tasks.get(name), 60, **{"rows": 3, "samples": 7, **arguments})
    return [ids for ids, *_ in batches]


def test_all_runs_are_tested_on_the_same_full_batches():
    found = ids_of()
    assert [len(ids) for ids in found] == [3, 3, 3]
    assert all((a == b).all() for a, b in zip(found, ids_of(), strict=True))
    assert (found[0] != found[1]).any()
    assert (found[0] != ids_of(stream=TRIAL_TEST)[0]).any()


def test_samples_are_drawn_until_enough_places_are_scored():
    # One place a row, and 60.
    assert len(ids_of(scored=20)) == 7
    assert len(ids_of("reverse_string", samples=1, scored=181)) == 2


def test_what_has_no_scored_place_is_not_drawn_for_ever():
    class Blank(tasks.TASKS["even_pairs"]):
        def _answer(self, tokens):
            targets, mask = super()._answer(tokens)
            return targets, 0 * mask

    assert len(list(evaluation_batches(Blank(), 9, rows=3, samples=7, scored=20))) == 3
