import keras
import numpy as np
import oracles
import pytest
from keras import ops

from keras_posenc import (
    HierarchicalPositionEmbedding,
    LearnedPositionEmbedding,
    SinusoidalPositionEmbedding,
)

X = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")


def rows_of(layer, positions):
    return ops.convert_to_numpy(layer.rows(ops.convert_to_tensor(positions)))


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_sinusoid_is_the_papers_in_both_layouts(base):
    """Up to a million positions, where a float32 product of 1,048,575.0 is off by a hundredth."""
    positions = np.array([0.0, 1.0, 2.5, 511.0, 4095.0, 100_000.0, 999_983.0, 1_048_575.0])
    sines, cosines = oracles.sinusoid(positions, 8, base)
    half = rows_of(SinusoidalPositionEmbedding(8, base=base, layout="half"), positions)
    np.testing.assert_allclose(half, np.concatenate([sines, cosines], -1), atol=5e-5)
    interleaved = rows_of(SinusoidalPositionEmbedding(8, base=base), positions)
    np.testing.assert_allclose(interleaved[:, 0::2], half[:, :4], atol=1e-6)
    np.testing.assert_allclose(interleaved[:, 1::2], half[:, 4:], atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("layer_class", [LearnedPositionEmbedding, SinusoidalPositionEmbedding])
def test_merge_modes(layer_class):
    def make(mode):
        return (
            layer_class(8, merge_mode=mode)
            if layer_class is SinusoidalPositionEmbedding
            else layer_class(16, 8, mode)
        )

    outputs = {}
    for mode in ("add", "mul", "zero", "concat"):
        layer = make(mode)
        layer.build(X.shape)
        if layer.weights:
            layer.set_weights([np.linspace(-1, 1, 128).reshape(16, 8)])
        outputs[mode] = ops.convert_to_numpy(layer(X))
    p = outputs["zero"]
    assert p.shape == (1, 6, 8)
    np.testing.assert_allclose(outputs["add"], X + p, atol=1e-6)
    np.testing.assert_allclose(outputs["mul"], X * (1 + p), atol=1e-6)
    expected = np.concatenate([X, np.broadcast_to(p, X.shape)], -1)
    np.testing.assert_allclose(outputs["concat"], expected, atol=1e-6)


@pytest.mark.parametrize("mode", ["add", "mul", "zero", "concat"])
@pytest.mark.parametrize("ids_shape", [None, (None,), (None, None)])
def test_symbolic_shape_is_the_eager_shape(mode, ids_shape):
    layer = LearnedPositionEmbedding(16, 8, mode)
    x = keras.Input((None, 8))
    ids = None
    if ids_shape is not None:
        ids = keras.Input(batch_shape=ids_shape, dtype="int32")
    symbolic = layer(x) if ids is None else layer(x, ids)
    eager = {None: None, (None,): np.arange(6), (None, None): np.tile(np.arange(6), (2, 1))}[
        ids_shape
    ]
    result = layer(X) if eager is None else layer(X, eager)
    assert len(symbolic.shape) == len(result.shape)
    for expected, found in zip(symbolic.shape, result.shape, strict=True):
        assert expected in (None, found)


def test_position_ids_and_offset_pick_the_rows():
    layer = LearnedPositionEmbedding(16, 8, "zero")
    layer.build(X.shape)
    table = ops.convert_to_numpy(layer.embeddings)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X, offset=5))[0], table[5:11])
    offset = ops.convert_to_tensor(np.int32(5))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X, offset=offset))[0], table[5:11])
    one = np.array([3, 1, 4, 1, 5, 9])
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X, one))[0], table[one])
    two = np.stack([one, one[::-1]])
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X, two)), table[two])


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16"])
def test_low_precision_tells_neighbouring_positions_apart(dtype):
    layer = SinusoidalPositionEmbedding(8, "zero", dtype=dtype)
    x = np.zeros((1, 2, 8), "float32")
    for low, high in ((256, 257), (2048, 2049)):
        rows = ops.convert_to_numpy(ops.cast(layer(x, np.array([low, high], "float32")), "float32"))
        expected = np.concatenate([s[..., None] for s in oracles.sinusoid([low, high], 8)], -1)
        np.testing.assert_allclose(rows[0], expected.reshape(2, 8), atol=8e-3)
        assert np.abs(rows[0, 0] - rows[0, 1]).max() > 0.3


def test_output_has_the_compute_dtype_and_keeps_the_mask():
    # One policy for all: Keras 3.11 drops the mask of a tensor that a layer casts on entry.
    policy = {"dtype": "mixed_bfloat16"}
    layer = LearnedPositionEmbedding(16, 8, **policy)
    tokens = keras.Input((None,), dtype="int32")
    y = layer(keras.layers.Embedding(5, 8, mask_zero=True, **policy)(tokens))
    pooled = keras.layers.GlobalAveragePooling1D(**policy)(y)
    model = keras.Model(tokens, [y, pooled])
    features, mean = model.predict(np.array([[1, 2, 0, 0]]), verbose=0)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    features = np.asarray(features, "float32")
    np.testing.assert_allclose(np.asarray(mean, "float32")[0], features[0, :2].mean(0), atol=1e-2)


@pytest.mark.once
@pytest.mark.parametrize(
    "layer",
    [
        LearnedPositionEmbedding(16, 8, "concat", embeddings_initializer="ones", name="a"),
        SinusoidalPositionEmbedding(8, "mul", base=100.0, layout="half", name="b"),
    ],
)
def test_config_round_trip(layer):
    clone = type(layer).from_config(layer.get_config())
    assert clone.get_config() == layer.get_config()
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(X)), ops.convert_to_numpy(clone(X)))


REACH = "Position {} does not exist: positions run from 0 to 15. .*HierarchicalPositionEmbedding"


def test_a_position_without_a_row_is_one_error():
    layer = LearnedPositionEmbedding(16, 8)
    layer.build((None, None, 8))
    with pytest.raises(ValueError, match=REACH.format(16)):
        layer(np.zeros((1, 17, 8), "float32"))
    with pytest.raises(ValueError, match=REACH.format(16)):
        layer(X, offset=11)
    with pytest.raises(ValueError, match=REACH.format(16)):
        layer(X, np.full(6, 16))
    with pytest.raises(ValueError, match=REACH.format(-1)):
        layer(X, np.full((2, 6), -1))
    with pytest.raises(ValueError, match=REACH.format(19)):
        layer(keras.Input((20, 8)))


def test_a_position_without_a_row_is_an_error_inside_a_compiled_step():
    x, ids = keras.Input((None, 8)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, ids], LearnedPositionEmbedding(16, 8)(x, ids))
    assert model.predict([X, np.full((2, 6), 15)], verbose=0).shape == X.shape
    with pytest.raises(Exception, match="positions run from 0 to 15"):
        model.predict([X, np.full((2, 6), 16)], verbose=0)
    without_ids = keras.Model(x, LearnedPositionEmbedding(4, 8)(x))
    with pytest.raises(Exception, match="positions run from 0 to 3"):
        without_ids.predict(X, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the others check there too")
def test_a_position_without_a_row_is_no_number_where_xla_drops_the_check():
    x, ids = keras.Input((None, 8)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, ids], HierarchicalPositionEmbedding(4, 8)(x, ids))
    model.compile(jit_compile=True)
    result = model.predict([X, np.array([[0, 15, 16, -1, 99, 3]] * 2)], verbose=0)
    np.testing.assert_array_equal(np.isnan(result).all(-1), [[0, 0, 1, 1, 1, 0]] * 2)
    assert np.isfinite(result[:, [0, 1, 5]]).all()


@pytest.mark.once
def test_errors_name_the_remedy():
    with pytest.raises(ValueError, match=r"`merge_mode` must be one of .*'add'.*Received: 'sum'"):
        LearnedPositionEmbedding(16, 8, "sum")
    with pytest.raises(ValueError, match="`input_dim` must be a positive integer. Received: 0"):
        LearnedPositionEmbedding(0, 8)
    with pytest.raises(ValueError, match='needs features of size output_dim=8.*"concat"'):
        LearnedPositionEmbedding(16, 8)(np.zeros((1, 6, 4), "float32"))
    with pytest.raises(
        ValueError, match=r"shape \(T,\) or \(B, T\) with B, T = 2, 6.*Received: \(5,\)"
    ):
        LearnedPositionEmbedding(16, 8)(X, np.arange(5))
    with pytest.raises(TypeError, match="must be integers.*Received: float32.*Sinusoidal"):
        LearnedPositionEmbedding(16, 8)(X, np.arange(6, dtype="float32"))
    with pytest.raises(ValueError, match="Position -1 does not exist"):
        LearnedPositionEmbedding(16, 8)(X, offset=-1)
    with pytest.raises(TypeError, match="`offset` must be an integer. Received: 1.5"):
        LearnedPositionEmbedding(16, 8)(X, offset=1.5)
    with pytest.raises(ValueError, match="`output_dim` must be a positive integer. Received: '8'"):
        LearnedPositionEmbedding(16, "8")
    with pytest.raises(ValueError, match=r"takes inputs \(B, T, D\). Received: \(2, 6\)"):
        LearnedPositionEmbedding(16, 8)(X[:, :, 0])
    with pytest.raises(ValueError, match="`output_dim` must be a positive even .* Received: 7"):
        SinusoidalPositionEmbedding(7)
    with pytest.raises(ValueError, match="`layout` must be one of .*'half'.* Received: 'neox'"):
        SinusoidalPositionEmbedding(8, layout="neox")
    with pytest.raises(ValueError, match="`base` must be a number above 1. Received: 1"):
        SinusoidalPositionEmbedding(8, base=1)
