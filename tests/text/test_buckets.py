"""The dynamic programme against brute force, and the dealing of documents into batches."""

import itertools

import numpy as np
import pytest

from keras_posenc.text.buckets import batch_sizes, choose_lengths, epoch_batches, even_sizes

pytestmark = pytest.mark.once


def padded_tokens(lengths, chosen):
    return sum(min(width for width in chosen if width >= length) for length in lengths)


def brute_force(lengths, most, multiple, price, priced):
    ends = sorted({-(-length // multiple) * multiple for length in lengths})
    return min(
        padded_tokens(lengths, [*some, ends[-1]]) + price * min(count + 1, priced)
        for count in range(most)
        for some in itertools.combinations(ends[:-1], count)
    )


@pytest.mark.parametrize("seed", range(30))
def test_choose_lengths_is_optimal(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, rng.integers(2, 90), rng.integers(1, 40))
    most, multiple = int(rng.integers(1, 5)), int(rng.choice([1, 8]))
    price = float(rng.choice([0, 20, 300]))
    priced = float(rng.choice([1, 2, np.inf]))
    chosen = choose_lengths(lengths, most, multiple, price, priced)
    assert len(chosen) <= most
    assert (np.diff(chosen) > 0).all() and (chosen % multiple == 0).all()
    assert 0 <= chosen[-1] - lengths.max() < multiple
    cost = padded_tokens(lengths, chosen.tolist()) + price * min(len(chosen), priced)
    assert cost == brute_force(lengths.tolist(), most, multiple, price, priced)


def test_a_length_that_saves_too_little_is_not_added():
    lengths = np.array([8] * 10 + [16] * 10)
    assert choose_lengths(lengths, 5, 8, price=79).tolist() == [8, 16]
    assert choose_lengths(lengths, 5, 8, price=81).tolist() == [16]


def test_sizes_stay_in_the_budget_and_move_few_documents_up():
    assert batch_sizes([64, 10], [64, 512], 4096) == [64, 5]  # 2 x 5 rather than 8 + 2
    assert batch_sizes([98], [512], 8192) == [14]  # 7 x 14: one shape
    assert batch_sizes([1000, 8], [128, 256], 2048) == [16, 8]  # 8 left over move up: 2 x 8
    assert batch_sizes([3, 2], [100, 5000], 1000) == [3, 1]  # a document over the budget is alone
    assert batch_sizes([130, 1], [64, 2048], 8192) == [65, 1]  # 2 x 65: nothing is left over


def test_documents_that_are_compared_are_in_few_batches_of_about_the_same_size():
    assert even_sizes([13], [640], 8192) == [7]  # 7 + 6, where 13 batches of one are no comparison
    assert even_sizes([268], [128], 8192) == [54]  # four batches of 54, and one of 52
    assert even_sizes([3, 2], [100, 5000], 1000) == [3, 1]
    assert even_sizes([0, 13], [8, 640], 8192, multiple=2) == [2, 8]


@pytest.mark.parametrize("choose_sizes", [batch_sizes, even_sizes])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_document_once_under_the_budget(seed, shuffle, choose_sizes):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(1, 400, rng.integers(1, 300)))
    budget = int(rng.choice([16, 500, 2000]))
    widths = choose_lengths(lengths, 6, 8, budget)
    bucket = np.searchsorted(widths, lengths)
    buckets = [np.flatnonzero(bucket == k) for k in range(len(widths))]
    sizes = choose_sizes([len(documents) for documents in buckets], widths, budget)
    batches = epoch_batches(buckets, sizes, rng if shuffle else None)
    assert sorted(np.concatenate([documents for _, documents in batches])) == [*range(len(lengths))]
    for k, documents in batches:
        assert len(documents) == 1 or len(documents) * widths[k] <= budget
        assert lengths[documents].max() <= widths[k]
    assert len({(k, len(documents)) for k, documents in batches}) <= len(widths) + 1
    if len({k for k, _ in batches}) > 1:
        assert batches[0][0] != batches[1][0]
