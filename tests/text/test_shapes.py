"""What a shape costs on each backend, and how many shapes predictions meet, counted, not timed."""

import keras
import numpy as np
import pytest

from keras_posenc.text import TextBatches
from keras_posenc.text.shapes import fixed_sizes, ladder, on_ladder, shape_price

BACKEND = keras.backend.backend()
COMPILES = BACKEND == "jax"


def texts_of(lengths):
    return [[7] * int(length) for length in lengths]


def long_tailed(count, most, seed=0):
    """Lengths as those of posts: half below 180 tokens."""
    draws = np.random.default_rng(seed).lognormal(np.log(180), 0.8, count)
    return np.clip(draws.astype(int), 8, most)


@pytest.mark.parametrize(
    "count, most", [(40, 256), (200, 256), (1000, 256), (200, 384), (200, 512)]
)
def test_padding_of_predictions(count, most):
    texts = texts_of(long_tailed(count, most))
    options = {"max_length": most, "shuffle": False, "fixed_shapes": most}
    options["max_shapes"] = 10 if COMPILES else 40
    share = TextBatches(texts, **options).padding_share
    # JAX compiles each shape: few texts get few shapes.
    bound = {"torch": 1.05, "tensorflow": 1.05, "jax": 1.6 if count == 40 else 1.4}
    assert 1 / (1 - share) < bound[BACKEND]


def test_a_wider_model_pays_less_for_a_shape():
    price = {}
    for width in (48, 1536):
        inputs = keras.Input((None,))
        x = keras.layers.Embedding(500, width)(inputs)
        price[width] = shape_price(keras.Model(inputs, keras.layers.Dense(width)(x)))
    if BACKEND == "torch":
        assert price == {48: 0, 1536: 0} and shape_price() == 0
    else:
        assert price[48] > shape_price() > price[1536] > 0


@pytest.mark.parametrize("max_length", [8, 20, 100, 256, 384, 512, 2048, 8192])
@pytest.mark.once
def test_a_ladder_has_few_lengths_of_at_most_twice_the_one_before(max_length):
    rungs = ladder(max_length, 8)
    assert len(rungs) <= 10 and rungs[-1] == max_length
    short = sum(rungs <= 128)  # with two programs each, of one row and of several
    assert len(rungs) + short <= (12 if max_length <= 2048 else 14)
    assert (rungs[1:] <= 2 * rungs[:-1]).all() and rungs[0] <= min(16, max_length)


def test_predictions_on_a_cpu_are_in_small_batches():
    options = {"max_length": 256, "shuffle": False, "shape_price": 0}
    texts = texts_of(long_tailed(200, 256))
    sizes = {}
    for fixed in (None, 256):
        batches = TextBatches(texts, fixed_shapes=fixed, **options)
        sizes[fixed] = max(batch["token_ids"].size for batch in batches)
    assert sizes[None] > 4096 and sizes[256] <= 1024
    (long,) = TextBatches([[7] * 1500], fixed_shapes=2048, **{**options, "max_length": 2048})
    assert len(long["token_ids"]) == 1


def test_a_query_has_no_or_little_padding():
    shape = {"torch": (1, 11)}.get(BACKEND, (1, 16))
    for fixed in (64, 512):
        batches = TextBatches(texts_of([11]), max_length=64, shuffle=False, fixed_shapes=fixed)
        assert batches.shapes == [shape]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only there two programs serve all shapes")
def test_texts_that_fit_in_one_batch_keep_to_one_shape():
    lengths = [30, 60, 90, 256]
    assert TextBatches(texts_of(lengths), shuffle=False, max_shapes=40).shapes == [(4, 256)]
    assert len(TextBatches(texts_of(lengths * 9), shuffle=False, max_shapes=40).shapes) > 3


@pytest.mark.skipif(not COMPILES, reason="PyTorch and TensorFlow make no program for each shape")
@pytest.mark.parametrize("max_length, most", [(100, 8), (256, 12), (None, 14)])
def test_any_texts_meet_few_shapes(max_length, most):
    """As a corpus, or one at a time, or both."""
    options = {"max_length": max_length, "shuffle": False, "fixed_shapes": max_length or 8192}
    single, many = set(), set()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        lengths = np.exp(rng.uniform(0, np.log(8192), rng.integers(1, 60))).astype(int)
        shapes = TextBatches(texts_of(lengths), shape_price=0, **options).shapes
        assert len(shapes) <= 10
        many |= set(shapes)
        for length in lengths[:5]:
            single |= set(TextBatches(texts_of([length]), **options).shapes)
    assert len(single) <= 10 and len(single | many) <= most
    assert {rows for rows, _ in single} == {1}


@pytest.mark.skipif(not COMPILES, reason="PyTorch and TensorFlow make no program for each shape")
def test_rows_that_fill_up_a_batch_are_left_out_again():
    lengths = long_tailed(73, 256) // 2
    texts = [[7 + n] * int(length) for n, length in enumerate(lengths)]
    batches = TextBatches(texts, max_length=128, shuffle=False, fixed_shapes=128, shape_price=0)
    rows = np.concatenate([batch["token_ids"][:, :1] for batch in batches])
    assert len(rows) > 73 and len({len(batch["token_ids"]) for batch in batches}) > 1
    assert batches.restore_order(rows)[:, 0].tolist() == [7 + n for n in range(73)]
    padded = sum(batch["token_ids"].size for batch in batches)
    assert batches.padding_share == pytest.approx(1 - lengths.sum() / padded)
    assert {batch["token_ids"].shape for batch in batches} == set(batches.shapes)


@pytest.mark.once
def test_one_row_or_a_full_batch_whichever_takes_less():
    assert fixed_sizes([3], [64], 1024) == [1]
    assert fixed_sizes([100, 7], [64, 512], 1024) == [16, 1]
    assert fixed_sizes([100], [64], 256) == [4]
    assert fixed_sizes([100], [2048], 1024) == [1]
    assert fixed_sizes([100], [64], 1024, multiple=3) == [15]


@pytest.mark.once
def test_a_text_beyond_the_ladder_has_a_multiple_of_its_end():
    assert on_ladder(np.array([3, 256, 257, 700]), 256, 8).tolist() == [16, 256, 512, 768]


@pytest.mark.once
@pytest.mark.parametrize("price", [-1, 1.5, True])
def test_a_price_that_is_none(price):
    with pytest.raises(ValueError, match="`shape_price` must be an integer of at least 0"):
        TextBatches([[1]], shape_price=price)
    with pytest.raises(ValueError, match="`fixed_shapes` must be a positive integer"):
        TextBatches([[1]], fixed_shapes=price if price is True else 0)
