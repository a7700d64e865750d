import itertools
import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import Encoding, PositionalAttention, RandomPositionIds

METHODS = {
    "sorted": {"max_position": 30},
    "exponential": {},
    "beta": {"max_position": 64, "train_length": 8},
    "pose": {"max_position": 30},
    "offset": {"max_position": 30},
}
PADDED = np.array([[5, 6, 7, 8, 9, 4], [0, 0, 5, 6, 7, 8], [5, 6, 7, 0, 0, 0], [0] * 6])
INDEX = np.array([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3], [0, 1, 2, 2, 2, 2], [0] * 6])
REAL = PADDED != 0


def drawn(method, shape=(8000, 6), training=True, seed=0, **kwargs):
    layer = RandomPositionIds(method, seed=seed, **{**METHODS[method], **kwargs})
    return ops.convert_to_numpy(layer(np.ones(shape, "int32"), training=training))


def within(sample, mean, sigmas=5):
    """Whether the mean of the sample is as near `mean` as chance allows."""
    error = np.std(sample) / math.sqrt(sample.size)
    return abs(np.mean(sample) - mean) < sigmas * error


def test_sorted_ids_are_different_sorted_and_reach_both_ends():
    ids = drawn("sorted")
    assert (np.diff(ids, axis=1) > 0).all()
    assert ids.min() == 0 and ids.max() == 29
    # The k-th of n smallest of L is k (L + 1) / (n + 1) - 1 on average.
    for k in range(6):
        assert within(ids[:, k], (k + 1) * 31 / 7 - 1)
    assert within(np.diff(ids, axis=1).mean(axis=1), 31 / 7)


def test_every_set_of_sorted_ids_is_as_likely_as_any_other():
    ids = drawn("sorted", (8000, 2), max_position=5)
    sets = list(itertools.combinations(range(5), 2))
    counts = np.array([(ids == pair).all(axis=1).sum() for pair in sets])
    assert counts.sum() == 8000
    # Of chi^2 with 9 degrees of freedom, 33.7 is exceeded once in 10,000.
    assert ((counts - 800) ** 2 / 800).sum() < 33.7


def test_as_many_sorted_ids_as_there_are_positions():
    np.testing.assert_array_equal(drawn("sorted", (6, 30)), [np.arange(30)] * 6)


def test_exponential_ids_have_a_mean_spacing_of_one():
    ids = drawn("exponential")
    assert ids.dtype == "float32"
    spacing = ids[:, 1]
    np.testing.assert_allclose(ids, spacing[:, None] * np.arange(6), rtol=1e-6)
    assert within(spacing, 1)
    for share in (0.1, 0.5, 0.9, 0.99):
        at = -math.log(1 - share)
        assert within((spacing <= at).astype(float), share)


def test_a_sequence_of_training_length_rarely_stretches_eightfold():
    """P(u > 8) = e^-8 = 3.4e-4 a sequence; P(u > 16) = 1e-7."""
    layer = RandomPositionIds("exponential", seed=1)
    tokens = np.ones((8000, 6), "int32")
    draws = [ops.convert_to_numpy(layer(tokens, training=True))[:, 1] for _ in range(12)]
    assert 12 <= (np.stack(draws) > 8).sum() <= 60 and np.max(draws) < 20


@pytest.mark.once
@pytest.mark.parametrize(("alpha", "share"), [(0.5, 0.033), (1.0, 0.0078), (2.0, 0.0005)])
def test_beta_ids_have_a_mean_spacing_of_one_and_stay_below_the_bound(alpha, share):
    """At M = 8 N: n / M ~ Beta(alpha, 7 alpha), and P(n > M / 2) is the share."""
    x = 0.5 + (np.arange(10**5) + 0.5) / (2 * 10**5)
    beta = math.lgamma(alpha) + math.lgamma(7 * alpha) - math.lgamma(8 * alpha)
    tail = np.mean(x ** (alpha - 1) * (1 - x) ** (7 * alpha - 1)) / 2 / math.exp(beta)
    assert tail == pytest.approx(share, rel=0.05)
    spacing = drawn("beta", alpha=alpha)[:, 1]
    assert within(spacing, 1)
    assert spacing.min() >= 0 and spacing.max() <= 8
    assert abs(np.mean(spacing > 4) - tail) < 5 * math.sqrt(tail / 8000)
    assert np.var(spacing) == pytest.approx(7 / (8 * alpha + 1), rel=0.1)
    assert drawn("beta", (6, 8), alpha=alpha).max() < 64


@pytest.mark.once
def test_beta_ids_are_of_the_whole_distribution():
    """Kolmogorov and Smirnov's distance: a sampler may be off by a percent with the right mean."""
    layer = RandomPositionIds("beta", 64, train_length=8, seed=3)
    tokens = np.ones((300_000, 2), "int32")
    draws = np.sort(ops.convert_to_numpy(layer(tokens, training=True))[:, 1]) / 8
    exact = 1 - (1 - draws) ** 7  # Beta(1, 7)
    distance = np.abs(exact - (np.arange(len(draws)) + 0.5) / len(draws)).max()
    assert distance * math.sqrt(len(draws)) < 2.2  # exceeded by chance once in 8,000 runs


def test_pose_is_two_runs():
    ids = drawn("pose")
    assert (ids[:, 0] == 0).all()
    steps = np.diff(ids, axis=1)
    assert ((steps > 1).sum(axis=1) <= 1).all() and (steps >= 1).all()
    skip = ids[:, -1] - 5
    assert set(skip) == set(range(25)) and within(skip, 12)
    cuts = 1 + np.argmax(steps, axis=1)[skip > 0]
    assert set(cuts) == {1, 2, 3} and within(cuts, 2)


def test_an_offset_shifts_all_ids():
    ids = drawn("offset")
    assert (np.diff(ids, axis=1) == 1).all()
    assert set(ids[:, 0]) == set(range(25)) and within(ids[:, 0], 12)


@pytest.mark.parametrize("method", METHODS)
def test_draws_are_per_sequence_or_per_batch(method):
    ids = drawn(method, (6, 6))
    assert len(np.unique(ids, axis=0)) > 1
    ids = drawn(method, (6, 6), per="batch")
    assert ids.shape == (6, 6) and len(np.unique(ids, axis=0)) == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_repeats_the_draws_and_every_call_draws_anew(method):
    first = RandomPositionIds(method, seed=7, **METHODS[method])
    second = RandomPositionIds.from_config(first.get_config())
    x = np.ones((6, 6), "int32")
    one, two = (ops.convert_to_numpy(first(x, training=True)) for _ in range(2))
    np.testing.assert_array_equal(ops.convert_to_numpy(second(x, training=True)), one)
    assert (one != two).any() and (drawn(method, (6, 6), seed=8) != one).any()


@pytest.mark.parametrize("by", ["pad_token_id", "mask", "keras_mask", "features"])
def test_padding_on_either_side_takes_no_position(by):
    layer = RandomPositionIds("sorted", 40, pad_token_id=0 if by == "pad_token_id" else None)
    if by == "pad_token_id":
        ids = layer(PADDED)
    elif by == "mask":
        ids = layer(PADDED, mask=ops.convert_to_tensor(REAL))
    elif by == "keras_mask":
        ids = layer(keras.layers.Embedding(10, 4, mask_zero=True)(PADDED))
    else:
        ids = layer(np.ones((4, 6, 3), "float32"), mask=ops.convert_to_tensor(REAL))
    np.testing.assert_array_equal(ops.convert_to_numpy(ids), INDEX)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("per", ["sequence", "batch"])
def test_random_ids_of_padded_sequences(method, per):
    arguments = {**METHODS[method], "per": per, "pad_token_id": 0}
    tokens = np.repeat(PADDED, 2000, axis=0)
    layer = RandomPositionIds(method, seed=1, **arguments)
    ids = ops.convert_to_numpy(layer(tokens, training=True)).reshape(4, 2000, 6)
    steps = np.diff(ids, axis=-1)
    rises = np.diff(INDEX, axis=-1)[:, None] > 0
    assert (steps[np.broadcast_to(~rises, steps.shape)] == 0).all()
    assert (steps[np.broadcast_to(rises, steps.shape)] > 0).all()
    if method != "exponential":
        assert ids.max() < METHODS[method]["max_position"] and ids.min() >= 0
    if per == "sequence":
        # Four real tokens are placed as four tokens alone would be, whatever stands beside them.
        alone = drawn(method, (8000, 4), seed=2).astype("float64")
        real = ids[1, :, 2:].astype("float64")
        error = np.sqrt(alone.var(axis=0) / 2000 + alone.var(axis=0) / 8000)
        assert (np.abs(real.mean(axis=0) - alone.mean(axis=0)) <= 5 * error).all()


@pytest.mark.parametrize(
    ("length", "count"), [(2048, 512), (30, 7), (30, 30), (2048, 1000), (10**6, 1), (60000, 50001)]
)
def test_spread_ids_are_even_and_exact(length, count):
    layer = RandomPositionIds("sorted", length, inference="spread")
    ids = ops.convert_to_numpy(layer(np.ones((1, count), "int32")))[0]
    np.testing.assert_array_equal(ids, [t * length // count for t in range(count)])


def test_spread_ids_of_the_seed_and_of_padded_and_float_ids():
    layer = RandomPositionIds("sorted", 2048, inference="spread")
    ids = ops.convert_to_numpy(layer(np.ones((1, 512), "int32")))[0]
    np.testing.assert_array_equal(ids[[0, 1, 2, -1]], [0, 4, 8, 2044])
    layer = RandomPositionIds("pose", 12, inference="spread", pad_token_id=0)
    ids = ops.convert_to_numpy(layer(PADDED))
    result = [[0, 2, 4, 6, 8, 10], [0, 0, 0, 3, 6, 9], [0, 4, 8, 8, 8, 8], [0] * 6]
    np.testing.assert_array_equal(ids, result)
    layer = RandomPositionIds("beta", 10, train_length=3, inference="spread")
    ids = ops.convert_to_numpy(layer(np.ones((1, 4), "int32")))[0]
    np.testing.assert_allclose(ids, [0, 2.5, 5, 7.5])


@pytest.mark.once
@pytest.mark.parametrize("method", METHODS)
def test_outside_training_ids_are_consecutive_or_sampled(method):
    ids = drawn(method, (6, 6), training=False)
    assert ids.dtype == ("float32" if method in ("exponential", "beta") else "int32")
    np.testing.assert_array_equal(ids, [np.arange(6)] * 6)
    sampled = drawn(method, (6, 6), training=False, inference="sampled")
    np.testing.assert_array_equal(sampled, drawn(method, (6, 6), training=True))


@pytest.mark.once
@pytest.mark.parametrize("method", METHODS)
def test_a_sequence_of_one(method):
    ids = drawn(method, (8000, 1))
    assert ids.shape == (8000, 1) and np.isfinite(ids).all()
    if method in ("exponential", "beta", "pose"):
        assert (ids == 0).all()
    else:
        assert set(ids[:, 0]) == set(range(30))


def test_ids_in_a_compiled_model_of_unknown_length(tmp_path):
    """Random while fitting, consecutive afterwards; saved, loaded and trained on."""
    tokens = keras.Input((None,), dtype="int32")
    # One draw a method, as each is compiled for seconds; the laws above run both.
    layers = [
        RandomPositionIds(method, pad_token_id=0, per=per, seed=3, name=f"{method}_{per}", **more)
        for (method, more), per in zip(
            METHODS.items(), itertools.cycle(("sequence", "batch")), strict=False
        )
    ]
    ids = [layer(tokens) for layer in layers]
    sampled = RandomPositionIds(max_position=100, inference="sampled", pad_token_id=0)(tokens)
    out = keras.layers.Dense(1)(Columns()(ids))
    model = keras.Model(tokens, [out, *ids, sampled])
    nothing = [None] * (len(ids) + 1)
    model.compile("sgd", ["mse", *nothing], jit_compile=keras.backend.backend() != "torch")
    target = [np.zeros((4, 6, 1)), *[np.zeros((4, 6))] * len(nothing)]
    losses = [model.fit(PADDED, target, verbose=0).history["loss"][0] for _ in range(2)]
    assert np.isfinite(losses).all()
    _, *fixed, one = model.predict(PADDED, verbose=0)
    for x in fixed:
        np.testing.assert_array_equal(x, INDEX)
    *_, two = model.predict(PADDED, verbose=0)
    assert (np.diff(one, axis=1)[0] > 0).all() and (one != two).any()
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    again.fit(PADDED[:, :5], [x[:, :5] for x in target], verbose=0)


@keras.saving.register_keras_serializable(package="tests")
class Columns(keras.layers.Layer):
    """Lists of ids (B, T) as features (B, T, number)."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def call(self, ids):
        return ops.stack([ops.cast(x, "float32") for x in ids], axis=-1) / 100


@pytest.mark.parametrize("method", ["sorted", "exponential"])
def test_no_policy_rounds_the_ids(method):
    """bfloat16 tells neither 257 from 256 nor 256.5 from 256."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        tokens = keras.Input((None,), dtype="int32")
        layer = RandomPositionIds(method, 1000, inference="spread")
        ids = layer(tokens)
        assert ids.dtype == ("float32" if method == "exponential" else "int32")
        result = keras.Model(tokens, ids).predict(np.ones((1, 700), "int32"), verbose=0)[0]
        random = ops.convert_to_numpy(layer(np.ones((6, 700), "int32"), training=True))
    finally:
        keras.config.set_dtype_policy("float32")
    exact = np.arange(700) * 1000 / 700
    exact = np.floor(exact) if method == "sorted" else exact
    np.testing.assert_allclose(result, exact, rtol=1e-6)
    assert all(len(np.unique(row)) == 700 for row in random)


def test_one_draw_serves_queries_and_keys_of_all_layers():
    """Drawn anew for keys or by layer, the distance of a token to itself would not be 0."""
    tokens = np.ones((2, 5), "int32")
    ids = RandomPositionIds("exponential", seed=0)(tokens, training=True)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    seen = []

    class Rows(Encoding):
        def bias(self, q, grid):
            seen.append(
                (
                    ops.convert_to_numpy(grid.query_positions),
                    ops.convert_to_numpy(grid.key_positions),
                )
            )

    for _ in range(2):
        PositionalAttention(2, 4, encodings=[Rows()])(x, x, query_positions=ids)
    assert len(seen) == 2
    for rows, columns in seen:
        np.testing.assert_array_equal(rows, ops.convert_to_numpy(ids))
        np.testing.assert_array_equal(columns, rows)


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomPositionIds("poisson"), "`method` must be one of .*Received: 'poisson'"),
        (lambda: RandomPositionIds(per="token"), "`per` must be one of .*Received: 'token'"),
        (lambda: RandomPositionIds(inference="none"), "`inference` must be one of .*'none'"),
        (lambda: RandomPositionIds(max_position=0), "`max_position` must be .* Received: 0"),
        (lambda: RandomPositionIds(max_position=9.0), "`max_position` must be .* Received: 9.0"),
        (lambda: RandomPositionIds(train_length=9), 'shape method="beta" and no other.*sorted'),
        (lambda: RandomPositionIds("pose", alpha=1), 'shape method="beta" and no other.*pose'),
        (
            lambda: RandomPositionIds("beta"),
            "`train_length` must be .* needs it, below max_position=2048.*None",
        ),
        (lambda: RandomPositionIds("beta", 9, train_length=9), "below max_position=9.*Received: 9"),
        (
            lambda: RandomPositionIds("beta", 9, train_length=4, alpha=0.0),
            "`alpha` must be a positive number. Received: 0.0",
        ),
    ],
)
def test_bad_arguments_are_refused_with_words(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("method", ["sorted", "pose", "offset", "beta"])
def test_too_long_a_sequence_is_refused_with_words(method):
    layer = RandomPositionIds(method, 9, train_length=8 if method == "beta" else None)
    bound, words = (8, "train_length") if method == "beta" else (9, "every token needs its own id")
    with pytest.raises(ValueError, match=f"positions run from 0 to {bound - 1}. .*{words}"):
        layer(np.ones((1, 10), "int32"), training=True)
    assert layer(np.ones((1, 10), "int32")).shape == (1, 10)


def test_pad_ids_are_looked_for_among_tokens_only():
    with pytest.raises(ValueError, match=r"`pad_token_id` is looked for among token ids \(B, T\)"):
        RandomPositionIds(pad_token_id=0)(np.ones((1, 3, 4), "float32"))
