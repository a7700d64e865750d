import keras
import numpy as np
import oracles
import pytest
from keras import ops

from keras_posenc import (
    FreshPositionEmbedding,
    HierarchicalPositionEmbedding,
    InterpolatedPositionEmbedding,
    TiledPositionEmbedding,
    position_embedding,
)

N, D = 16, 6
TABLE = np.random.default_rng(0).normal(size=(N, D)).astype("float32")


def rows_of(layer, positions):
    if not layer.built:
        layer.build((None, None, D))
        layer.embeddings.assign(TABLE)
    return ops.convert_to_numpy(layer.rows(ops.convert_to_tensor(positions)))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2, 0.4, 0.45, 0.7, 0.95])
def test_hierarchical_rows_are_the_seeds_formula(alpha):
    rows = rows_of(HierarchicalPositionEmbedding(N, D, alpha=alpha), np.arange(N * N))
    expected = oracles.hierarchical(TABLE, alpha, range(N * N))
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-5)
    assert len(np.unique(rows.round(4), axis=0)) == N * N


@pytest.mark.parametrize("alpha", [0.1, 0.4, 0.7])
def test_the_first_n_rows_are_the_table_to_the_bit(alpha):
    rows = rows_of(HierarchicalPositionEmbedding(N, D, alpha=alpha), np.arange(N))
    np.testing.assert_array_equal(rows, TABLE)


def test_hierarchical_gradient_is_the_formulas():
    layer = HierarchicalPositionEmbedding(N, D, alpha=0.4, merge_mode="zero")
    x = keras.Input((3 * N, D))
    model = keras.Model(x, layer(x))
    layer.embeddings.assign(TABLE)
    model.compile(keras.optimizers.SGD(1.0), loss="mean_squared_error")
    data = np.zeros((1, 3 * N, D), "float32")
    model.fit(data, data, verbose=0, shuffle=False)
    moved = TABLE - ops.convert_to_numpy(layer.embeddings)
    # d/dp of mean((A p)^2) = 2 A' A p / size, A the matrix of the composition.
    matrix = oracles.hierarchical(np.eye(N), 0.4, range(3 * N))
    expected = 2 * matrix.T @ matrix @ TABLE.astype("float64") / (3 * N * D)
    np.testing.assert_allclose(moved, expected, atol=1e-5)


def test_hierarchical_takes_ids_offsets_and_long_inputs():
    layer = HierarchicalPositionEmbedding(N, D, merge_mode="zero")
    x = np.zeros((2, 40, D), "float32")
    layer.build(x.shape)
    layer.embeddings.assign(TABLE)
    expected = oracles.hierarchical(TABLE, 0.4, range(N * N)).astype("float32")
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x))[0], expected[:40], atol=1e-5)
    result = ops.convert_to_numpy(layer(x, offset=100))[0]
    np.testing.assert_allclose(result, expected[100:140], atol=1e-5)
    ids = np.random.default_rng(1).integers(0, N * N, (2, 40))
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, ids)), expected[ids], atol=1e-5)


def test_hierarchical_reaches_n_squared_and_not_further():
    layer = HierarchicalPositionEmbedding(4, D)
    assert layer(np.zeros((1, 16, D), "float32")).shape == (1, 16, D)
    message = r"Position 16 does not exist: positions run from 0 to 15. .*n\^2"
    with pytest.raises(ValueError, match=message):
        layer(np.zeros((1, 17, D), "float32"))
    with pytest.raises(ValueError, match=message):
        layer(np.zeros((1, 2, D), "float32"), np.array([0, 16]))


@pytest.mark.once
@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, True, float("nan"), "0.4", None])
def test_alpha_outside_its_interval_is_refused(alpha):
    with pytest.raises(ValueError, match=f"a number above 0 and below 1: .*Received: {alpha!r}"):
        HierarchicalPositionEmbedding(N, D, alpha=alpha)


@pytest.mark.once
def test_alpha_one_half_is_refused():
    with pytest.raises(
        ValueError, match="must not be 0.5: positions i n .+ j and j n .+ i would share"
    ):
        HierarchicalPositionEmbedding(N, D, alpha=0.5)


@pytest.mark.once
def test_a_table_whose_square_no_int32_holds():
    layer = HierarchicalPositionEmbedding(50_000, 2)
    x, ids = keras.Input((None, 2)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, ids], layer(x, ids))
    far = np.full((1, 3), 2**31 - 2, "int32")
    assert model.predict([np.zeros((1, 3, 2)), far], verbose=0).shape == (1, 3, 2)


def test_low_precision_rounds_the_rows_once():
    layer = HierarchicalPositionEmbedding(N, D, merge_mode="zero", dtype="mixed_bfloat16")
    x = np.zeros((1, N * N, D), "float32")
    layer.build(x.shape)
    layer.embeddings.assign(TABLE)
    rows = ops.convert_to_numpy(ops.cast(layer(x), "float32"))[0]
    expected = oracles.hierarchical(TABLE, 0.4, range(N * N))
    np.testing.assert_allclose(rows, expected, rtol=2**-8, atol=1e-6)


def test_tiled_rows_repeat():
    rows = rows_of(TiledPositionEmbedding(N, D), np.arange(3 * N))
    np.testing.assert_array_equal(rows, np.tile(TABLE, (3, 1)))


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("stretch", ["hierarchical", "tile"])
def test_rows_that_are_kept_serve_no_other_position(stretch, kept):
    """The first n positions are the table's to the bit, and the rest repeats the other rows."""
    alpha = {"alpha": 0.2} if stretch == "hierarchical" else {}
    layer = position_embedding(N, D, stretch=stretch, kept_rows=kept, **alpha)
    rows = rows_of(layer, np.arange(5 * N))
    np.testing.assert_array_equal(rows[:N], TABLE)
    later = oracles.hierarchical(TABLE[kept:], alpha.get("alpha", 0), range(5 * N - kept))
    np.testing.assert_allclose(rows[kept:], later, atol=1e-5)
    served = {"hierarchical": kept + (N - kept) ** 2, "tile": 2**31 - 1}
    assert layer.max_position == served[stretch]


@pytest.mark.parametrize("length", [N, N + 1, 40, 31, 1000])
def test_interpolated_rows_lie_on_the_tables_polyline(length):
    layer = InterpolatedPositionEmbedding(N, D, max_position=length)
    rows = rows_of(layer, np.arange(length))
    np.testing.assert_allclose(
        rows, oracles.interpolated(TABLE, length, np.arange(length)), atol=1e-5
    )
    np.testing.assert_array_equal(rows[[0, -1]], TABLE[[0, -1]])


def test_fresh_rows_follow_the_table_and_are_trained():
    layer = FreshPositionEmbedding(N, D, max_position=20, embeddings_initializer="ones")
    np.testing.assert_array_equal(rows_of(layer, np.arange(N)), TABLE)
    np.testing.assert_array_equal(rows_of(layer, np.arange(N, 20)), np.ones((4, D)))
    assert len(layer.trainable_weights) == 2


@pytest.mark.parametrize(
    "stretch, arguments",
    [
        (None, {}),
        ("hierarchical", {"alpha": 0.3}),
        ("hierarchical", {"kept_rows": 1}),
        ("tile", {"kept_rows": 2}),
        ("interpolate", {"max_position": 50}),
        ("fresh", {"max_position": 50}),
    ],
)
def test_every_stretch_is_saved_and_reloaded(stretch, arguments, tmp_path):
    x = keras.Input((None, D))
    layer = position_embedding(N, D, stretch=stretch, **arguments)
    model = keras.Model(x, layer(x))
    data = np.random.default_rng(0).normal(size=(2, N if stretch is None else 50, D))
    model.compile("sgd", "mean_squared_error")
    model.fit(data, data * 2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model.predict(data, verbose=0), again.predict(data, verbose=0))


@pytest.mark.once
def test_errors_name_the_remedy():
    with pytest.raises(ValueError, match="`stretch` must be one of .*'tile'.*Received: 'repeat'"):
        position_embedding(N, D, stretch="repeat")
    with pytest.raises(ValueError, match='`alpha` belongs to stretch="hierarchical"'):
        position_embedding(N, D, stretch="tile", alpha=0.3)
    for kept in (-1, N, 1.0, True):
        with pytest.raises(ValueError, match="`kept_rows` must be an integer from 0 to 15: .*Rece"):
            position_embedding(N, D, stretch="tile", kept_rows=kept)
    with pytest.raises(ValueError, match='`kept_rows` belongs to stretch="hierarchical" and "tile'):
        position_embedding(N, D, stretch="interpolate", max_position=40, kept_rows=1)
    with pytest.raises(ValueError, match="stretch='fresh' needs `max_position`"):
        position_embedding(N, D, stretch="fresh")
    with pytest.raises(ValueError, match="`max_position` must be a positive integer. Received: -4"):
        position_embedding(N, D, stretch="tile", max_position=-4)
    with pytest.raises(
        ValueError, match="an integer of at least 16: the table has 16 rows. Received: 8"
    ):
        InterpolatedPositionEmbedding(N, D, max_position=8)
    with pytest.raises(
        ValueError, match="max_position=300 is out of reach.*makes 256 positions of the 16"
    ):
        position_embedding(N, D, stretch="hierarchical", max_position=300)
    with pytest.raises(ValueError, match="Position 20 does not exist.*larger `max_position`"):
        FreshPositionEmbedding(N, D, max_position=20)(np.zeros((1, 21, D), "float32"))


def test_fresh_rows_are_no_copies_of_the_table():
    layer = position_embedding(N, D, stretch="fresh", max_position=2 * N)
    layer.build((None, None, D))
    rows = rows_of(layer, np.arange(2 * N))
    assert np.abs(rows[:N] - rows[N:]).max() > 1e-3
