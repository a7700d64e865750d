import keras
import numpy as np
import pytest

from keras_posenc import Encoding, HierarchicalPositionEmbedding, SinusoidalPositionEmbedding
from keras_posenc.analysis import measure
from keras_posenc.encodings import ENCODINGS


class Backwards(Encoding):
    """A slope for every head, and nothing seen beyond five tokens."""

    def build(self, heads_shape):
        super().build(heads_shape)
        self.slopes = self.add_weight(name="slopes", shape=(self.num_heads,), initializer="ones")

    def restrict(self, grid):
        return grid.replace(window=5)

    def bias(self, q, grid):
        distance = keras.ops.cast(grid.distance(), "float32")
        return -self.slopes[:, None, None] * distance[:, None]


class Sharper(Encoding):
    """The logits times two."""

    def heads(self, q, k, grid):
        return 2 * q, k


@pytest.mark.once
def test_rows_of_sinusoids_are_alike_by_their_distance_alone():
    layer = SinusoidalPositionEmbedding(16, base=100.0)
    found = measure.position_similarity(layer, np.arange(40), centred=False)
    frequencies = 100.0 ** (-np.arange(8) / 8)
    distance = np.arange(40)[:, None] - np.arange(40)
    expected = np.cos(distance[..., None] * frequencies).mean(-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.once
def test_similarity_takes_off_what_all_rows_share():
    table = np.random.default_rng(0).normal(size=(6, 4))
    shifted = measure.position_similarity(table + 100, np.arange(6))
    np.testing.assert_allclose(shifted, measure.position_similarity(table, np.arange(6)), atol=1e-9)
    assert measure.position_similarity(table + 100, np.arange(6), centred=False).min() > 0.99


@pytest.mark.once
def test_blocks_of_hierarchical_rows_repeat():
    layer = HierarchicalPositionEmbedding(8, 16)
    layer.build((None, None, 16))
    found = measure.position_similarity(layer, np.arange(16))
    rows = found[:8, 8:].diagonal()  # the same fine digit
    assert rows.mean() > 0.4 > np.abs(found[:8, 8:] - np.diag(rows)).mean()
    with pytest.raises(ValueError, match="Position 64 does not exist"):
        measure.position_similarity(layer, np.arange(65))


@pytest.mark.once
def test_an_attention_map_is_that_of_the_heads_given():
    q, k = np.random.default_rng(0).normal(size=(2, 2, 5, 3, 4))
    found = measure.attention_map([], q, k, causal=True)
    logits = np.einsum("bqhd,bkhd->bhqk", q, k) / 2
    future = np.triu(np.ones((5, 5), bool), 1)
    assert np.isnan(found["logits"][..., future]).all()
    np.testing.assert_allclose(found["logits"][..., ~future], logits[..., ~future], atol=1e-5)
    weights = np.exp(np.where(future, -np.inf, logits))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(found["weights"], weights, atol=1e-5)


def test_a_decay_curve_holds_the_encoding_alone():
    encoding = Backwards()
    encoding.build((None, None, 2, 4))
    encoding.slopes.assign([0.5, 2.0])
    found = measure.decay_curve([encoding], 8, num_heads=2, head_size=4)
    np.testing.assert_array_equal(found["distance"], np.arange(8))
    np.testing.assert_allclose(found["logits"][0, :5], 1 - 0.5 * np.arange(5), atol=1e-5)
    np.testing.assert_allclose(found["logits"][1, :5], 1 - 2.0 * np.arange(5), atol=1e-5)
    assert np.isnan(found["logits"][:, 5:]).all()
    np.testing.assert_allclose(found["weights"][:, 5:], 0, atol=1e-6)
    np.testing.assert_allclose(found["weights"].sum(1), 1, atol=1e-5)


@pytest.mark.once
def test_a_decay_curve_of_both_sides_starts_in_the_middle():
    found = measure.decay_curve([Backwards()], 7, num_heads=1, head_size=4, causal=False)
    np.testing.assert_array_equal(found["distance"], np.arange(-3, 4))
    np.testing.assert_allclose(found["logits"][0], 1 - np.arange(-3, 4), atol=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() == "jax",
    reason="JAX compiles each operation of each encoding, which takes half a minute",
)
def test_every_encoding_has_a_decay_curve():
    for name in ENCODINGS:
        found = measure.decay_curve([name], 6, num_heads=2, head_size=8)
        assert np.isfinite(found["logits"]).all() and np.isfinite(found["weights"]).all()
        assert found["logits"].shape == found["weights"].shape == (2, 6)


@pytest.mark.once
def test_entropy():
    assert measure.entropy(np.full(7, 1 / 7)) == pytest.approx(np.log(7))
    assert measure.entropy([0.0, 1.0, 0.0]) == 0


@pytest.mark.once
def test_entropy_grows_with_the_length_and_falls_with_sharper_logits():
    found = measure.entropy_by_length([], [128, 512], sharpness=1.0, num_heads=2, head_size=32)
    np.testing.assert_allclose(found["entropy"].mean(1), np.log([128, 512]) - 0.5, atol=0.05)
    sharper = measure.entropy_by_length([Sharper()], [128], sharpness=0.5, head_size=32)
    np.testing.assert_allclose(sharper["entropy"].mean(), np.log(128) - 0.5, atol=0.05)
    last = measure.entropy_by_length([], [128], sharpness=1.0, num_heads=16, causal=True)
    np.testing.assert_allclose(last["entropy"].mean(), np.log(128) - 0.5, atol=0.2)
