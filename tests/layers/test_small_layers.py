import keras
import numpy as np
import oracles
import pytest
from keras import ops

from keras_posenc.layers import activations
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import ConditionalLayerNormalization
from keras_posenc.layers.token_embedding import AddTo, BiasAdd, TokenEmbedding

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def test_feed_forward_is_two_dense_layers():
    layer = FeedForward(6, "relu")
    y = numpy(layer(X))
    w1, b1, w2, b2 = layer.get_weights()
    np.testing.assert_allclose(y, np.maximum(X @ w1 + b1, 0) @ w2 + b2, atol=1e-6)
    assert [w.path.split("/", 1)[1] for w in layer.weights] == [
        "intermediate/kernel",
        "intermediate/bias",
        "output/kernel",
        "output/bias",
    ]


def test_feed_forward_with_several_activations_multiplies_them():
    layer = FeedForward(6, ["relu", "linear"], use_bias=False)
    y = numpy(layer(X))
    w1, w2, w3 = layer.get_weights()
    np.testing.assert_allclose(y, (np.maximum(X @ w1, 0) * (X @ w2)) @ w3, atol=1e-6)


@pytest.mark.parametrize("hidden", [None, 4])
@pytest.mark.parametrize("per_token", [False, True])
def test_conditional_norm_starts_plain_and_follows_its_condition(hidden, per_token):
    rng = np.random.default_rng(0)
    condition = rng.normal(size=(2, 5, 3) if per_token else (2, 3)).astype("float32")
    layer = ConditionalLayerNormalization(1e-6, hidden_size=hidden, hidden_act="tanh")
    one, zero = np.ones((2, 8)), np.zeros((2, 8))
    np.testing.assert_allclose(
        numpy(layer(X, condition)), oracles.conditional_norm(X, one, zero, 1e-6), atol=1e-5
    )
    layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
    inner = condition
    if hidden:
        inner = np.tanh(condition @ numpy(layer.hidden_dense.kernel))
    gamma = numpy(layer.gamma) + inner @ numpy(layer.gamma_dense.kernel)
    beta = numpy(layer.beta) + inner @ numpy(layer.beta_dense.kernel)
    if per_token:
        plain = oracles.conditional_norm(X, one, zero, 1e-6)
        expected = plain * gamma + beta
    else:
        expected = oracles.conditional_norm(X, gamma, beta, 1e-6)
    np.testing.assert_allclose(numpy(layer(X, condition)), expected, atol=1e-5)


def test_token_embedding_masks_its_padding_and_scores_tokens():
    layer = TokenEmbedding(11, 8, pad_token_id=3)
    ids = np.array([[1, 3, 2], [3, 3, 0]])
    layer(ids)
    np.testing.assert_array_equal(numpy(layer.compute_mask(ops.convert_to_tensor(ids))), ids != 3)
    scores = numpy(layer(X, reverse=True))
    np.testing.assert_allclose(scores, X @ numpy(layer.embeddings).T, atol=1e-5)
    assert layer(keras.Input((None, 8)), reverse=True).shape == (None, None, 11)
    assert TokenEmbedding(11, 8, pad_token_id=None).compute_mask(ops.convert_to_tensor(ids)) is None


def test_add_to_keeps_the_first_mask():
    ids = np.array([[1, 2, 0]])
    tokens = keras.layers.Embedding(5, 8, mask_zero=True)(ids)
    total = AddTo()([tokens, ops.convert_to_tensor(X[:1, :3])])
    np.testing.assert_array_equal(numpy(total._keras_mask), ids != 0)
    np.testing.assert_allclose(numpy(total), numpy(tokens) + X[:1, :3], atol=1e-6)


def test_bias_add():
    layer = BiasAdd()
    layer(X)
    layer.set_weights([np.arange(8.0)])
    np.testing.assert_allclose(numpy(layer(X)), X + np.arange(8), atol=1e-6)


def erf_gelu(x):
    import math

    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_activations_mean_what_configs_mean():
    x = np.linspace(-4, 4, 41).astype("float32")
    cases = {
        "gelu": erf_gelu(x),
        "gelu_new": tanh_gelu(x),
        "gelu_pytorch_tanh": tanh_gelu(x),
        "gelu_python_tanh": tanh_gelu(x),
        "gelu_accurate": tanh_gelu(x),
        "quick_gelu": x / (1 + np.exp(-1.702 * x)),
        "swish": x / (1 + np.exp(-x)),
        "relu": np.maximum(x, 0),
        "leaky_relu": np.maximum(x, 0.01 * x),
        "linear": x,
    }
    for name, expected in cases.items():
        result = numpy(activations.get(name)(ops.convert_to_tensor(x)))
        np.testing.assert_allclose(result, expected, atol=2e-6, err_msg=name)
    assert len(activations.get(["gelu", "linear"])) == 2
    with pytest.raises(ValueError, match="Unknown activation 'gello': give a name Keras knows"):
        activations.get("gello")


@pytest.mark.once
def test_a_name_that_transformers_knows_means_the_same_or_is_refused():
    import torch
    from transformers.activations import ACT2FN

    x = np.linspace(-12, 12, 201).astype("float32")
    compared = set()
    for name in ACT2FN:
        try:
            activation = activations.get(name)
        except ValueError:
            continue
        expected = ACT2FN[name](torch.tensor(x)).detach().numpy()
        result = numpy(activation(ops.convert_to_tensor(x)))
        np.testing.assert_allclose(result, expected, atol=2e-6, err_msg=name)
        compared.add(name)
    assert {"gelu", "gelu_new", "leaky_relu", "mish", "relu6", "silu"} <= compared
    assert {"gelu_10", "hardswish", "relu2"} <= compared


def test_the_gradient_of_gelu():
    class Weighted(keras.layers.Layer):
        """GELU of x w, so that a gradient of it trains w."""

        def build(self, shape):
            self.w = self.add_weight(shape=shape[1:], initializer="ones")

        def call(self, x):
            return activations.gelu(x * self.w)

    x = np.linspace(-6, 6, 49, dtype="float32")[None]
    layer = Weighted()
    layer.build(x.shape)
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    model.compile(keras.optimizers.SGD(1.0), "mae")  # the gradient of mae is sign / size
    model.train_on_batch(x, np.full_like(x, -9))
    phi = erf_gelu(x[0]) / np.where(x[0] == 0, 1, x[0]) + 0.5 * (x[0] == 0)
    expected = x[0] * (phi + x[0] * np.exp(-(x[0] ** 2) / 2) / np.sqrt(2 * np.pi)) / x.size
    np.testing.assert_allclose(1 - numpy(layer.w), expected, atol=1e-6)


@pytest.mark.parametrize(
    "layer, arguments",
    [
        (FeedForward(6, ["gelu", activations.gelu_tanh]), (X,)),
        (ConditionalLayerNormalization(1e-6, 4, "tanh"), (X, np.ones((2, 3), "float32"))),
        (TokenEmbedding(11, 8, pad_token_id=3), (np.array([[1, 2]], "int32"),)),
        (BiasAdd(), (X,)),
    ],
)
def test_saved_and_reloaded(layer, arguments, tmp_path):
    inputs = [keras.Input(a.shape[1:], dtype=str(a.dtype)) for a in arguments]
    model = keras.Model(inputs, layer(*inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        model.predict(list(arguments), verbose=0), again.predict(list(arguments), verbose=0)
    )
