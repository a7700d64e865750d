import json
import zipfile

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG

from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import classifier
from keras_posenc.models.seq2seq import build_encoder_decoder
from keras_posenc.training import Optimizer
from keras_posenc.training.optimizer import (
    FusedAdamW,
    LayerwiseAdamW,
    adamw,
    decays,
    rates_by_depth,
)


def small_model():
    ids = keras.Input((3,), dtype="int32")
    tokens = keras.layers.Embedding(5, 4, name="Embedding-Token")(ids)
    positions = keras.layers.Embedding(5, 4, name="Embedding-Position")(ids)
    hidden = keras.layers.LayerNormalization(name="Embedding-Norm")(tokens + positions)
    return keras.Model(ids, keras.layers.Dense(2, name="Head")(hidden))


def test_decay_shrinks_the_matrices_and_nothing_else():
    model = small_model()
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    optimizer = adamw(model, 0.5, weight_decay=0.1)
    zeros = [keras.ops.zeros(variable.shape) for variable in model.trainable_variables]
    optimizer.apply(zeros, model.trainable_variables)
    shrunk = {
        variable.path
        for variable in model.trainable_variables
        if not np.allclose(keras.ops.convert_to_numpy(variable), 1.0)
    }
    assert shrunk == {"Embedding-Token/embeddings", "Head/kernel"}
    np.testing.assert_allclose(model.get_layer("Head").kernel, 0.95, rtol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("name", ["lion", "sgd"])
def test_so_it_is_with_optimizers_of_keras(name):
    """SGD moves nothing without a gradient, and neither does Lion: what moves has decayed."""
    model = small_model()
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    settings = Optimizer(name, 0.5, warmup=0.0, weight_decay=0.1, clip=None)
    optimizer = settings.make(model, 10)
    optimizer.build(model.trainable_variables)
    zeros = [keras.ops.zeros(variable.shape) for variable in model.trainable_variables]
    optimizer.apply(zeros, model.trainable_variables)
    shrunk = {v.path for v in model.trainable_variables if np.abs(np.array(v) - 1).max() > 1e-3}
    assert shrunk == {"Embedding-Token/embeddings", "Head/kernel"}


@pytest.mark.once
@pytest.mark.parametrize("name", ["adamw", "lion"])
def test_every_optimizer_averages(name):
    """After two steps in one direction, the average of the weights is behind them."""
    model = small_model()
    optimizer = Optimizer(name, 0.1, warmup=0.0, weight_decay=0.0, use_ema=True).make(model, 10)
    optimizer.build(model.trainable_variables)
    kernel, start = model.get_layer("Head").kernel, np.array(model.get_layer("Head").kernel)
    ones = [keras.ops.ones(variable.shape) for variable in model.trainable_variables]
    for _ in range(2):
        optimizer.apply(ones, model.trainable_variables)
    last = np.array(kernel)
    optimizer.finalize_variable_values(model.trainable_variables)
    assert (last < np.array(kernel)).all() and (np.array(kernel) < start).all()


def test_gradients_are_clipped_together():
    model = small_model()
    assert adamw(model, 1e-3).global_clipnorm == 1.0
    assert adamw(model, 1e-3, clip=None).global_clipnorm is None


def updates(optimizer, weights, gradients):
    """The weights after each of the gradients, of variables named a and b."""
    variables = [keras.Variable(value, name=name) for name, value in weights.items()]
    for step in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in step], variables)
    return [np.array(v) for v in variables]


@pytest.mark.parametrize(
    "arguments", [{}, {"amsgrad": True}, {"global_clipnorm": 0.1, "beta_1": 0.8, "beta_2": 0.9}]
)
def test_the_kernel_computes_the_formula(arguments):
    """In float64, from the paper; epsilon is large so that its place in the formula shows."""
    rng = np.random.default_rng(0)
    weights = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    gradients = [[rng.normal(size=w.shape) for w in weights.values()] for _ in range(4)]
    rate, decay, epsilon = 0.1, 0.05, 0.01
    optimizer = FusedAdamW(rate, weight_decay=decay, epsilon=epsilon, **arguments)
    found = updates(optimizer, weights, gradients)
    beta_1, beta_2 = arguments.get("beta_1", 0.9), arguments.get("beta_2", 0.999)
    expected = [w.copy() for w in weights.values()]
    m, v, largest = ([np.zeros_like(w) for w in expected] for _ in range(3))
    for t, step in enumerate(gradients, 1):
        norm = np.sqrt(sum((g**2).sum() for g in step))
        bound = arguments.get("global_clipnorm", norm)
        for i, g in enumerate(step):
            g = g * min(1, bound / norm)
            m[i] = beta_1 * m[i] + (1 - beta_1) * g
            v[i] = beta_2 * v[i] + (1 - beta_2) * g**2
            largest[i] = np.maximum(largest[i], v[i])
            root = np.sqrt(largest[i] if "amsgrad" in arguments else v[i])
            alpha = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            expected[i] = expected[i] * (1 - rate * decay) - alpha * m[i] / (root + epsilon)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"gradient_accumulation_steps": 2},
        {"use_ema": True, "ema_overwrite_frequency": 2},
        {"clipnorm": 0.1},
    ],
)
def test_what_keras_does_around_the_step_is_kept(arguments):
    weights = {"a": np.array([1.0, -2.0], "float32"), "b": np.array([3.0], "float32")}
    rng = np.random.default_rng(0)
    gradients = [[rng.normal(size=w.shape) for w in weights.values()] for _ in range(5)]
    kinds = FusedAdamW, keras.optimizers.AdamW
    found = [updates(kind(0.1, **arguments), weights, gradients) for kind in kinds]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_the_adamw_of_keras_goes_on_where_ours_stopped():
    ours, keras_model = small_model(), small_model()
    # No id twice: on TensorFlow Keras squares the gradients of a repeated row one by one.
    ids, labels = np.arange(3)[None], np.zeros((1, 3, 2))
    ours.compile(FusedAdamW(0.1), "mse")
    keras_model.compile(keras.optimizers.AdamW(0.1), "mse")
    ours.train_on_batch(ids, labels)
    keras_model.optimizer.build(keras_model.trainable_variables)
    keras_model.set_weights(ours.get_weights())
    for mine, yours in zip(ours.optimizer.variables, keras_model.optimizer.variables, strict=True):
        yours.assign(np.array(mine))
    ours.reset_metrics()  # Keras 3.12 gives the mean loss of all calls
    losses = [[m.train_on_batch(ids, labels) for _ in range(3)] for m in (ours, keras_model)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_a_variable_moves_and_decays_at_its_rate():
    """A factor f is AdamW at f times the rate, but for the common bound of the gradients."""
    weights = {"a": np.array([1.0, -2.0]), "b": np.array([3.0])}
    gradients = [([0.3, -0.1], [2.0]), ([0.1, 0.5], [-1.0]), ([-0.2, 0.2], [0.5])]
    arguments = dict(weight_decay=0.1, epsilon=1e-6)
    layerwise = LayerwiseAdamW(0.1, rates={"a": 0.25}, **arguments)
    a, b = updates(layerwise, weights, gradients)
    slow, _ = updates(keras.optimizers.AdamW(0.025, **arguments), weights, gradients)
    _, fast = updates(keras.optimizers.AdamW(0.1, **arguments), weights, gradients)
    np.testing.assert_allclose(a, slow, rtol=1e-6)
    np.testing.assert_allclose(b, fast, rtol=1e-6)
    assert not np.allclose(slow, updates(keras.optimizers.AdamW(0.1), weights, gradients)[0])


def test_the_bound_is_on_all_gradients_together():
    """Scaled by one factor, gradients keep their proportion, which SGD-like first moments show."""
    optimizer = LayerwiseAdamW(0.1, rates={"a": 0.5}, global_clipnorm=1.0)
    updates(optimizer, {"a": np.zeros(1), "b": np.zeros(1)}, [([3.0], [4.0])])
    moments = [float(v[0]) for v in optimizer.variables if "momentum" in v.path]
    np.testing.assert_allclose(moments, [0.1 * 0.6, 0.1 * 0.8], rtol=1e-5)


@pytest.mark.once
def test_the_first_pattern_counts_and_zero_freezes():
    rates = {"Head/bias": 0.0, "Head": 0.5}
    model = small_model()
    optimizer = adamw(model, 0.1, rates=rates)
    optimizer.build(model.trainable_variables)
    factors = {v.path: optimizer.factor(v) for v in model.trainable_variables}
    assert (factors["Head/bias"], factors["Head/kernel"]) == (0.0, 0.5)
    assert set(factors.values()) == {0.0, 0.5, 1.0}


def test_rates_survive_training_and_saving(tmp_path):
    model = small_model()
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 8)
    model.compile(adamw(model, schedule, rates={"Embedding-Position": 0, "Head": 0.1}), "mse")
    before = {v.path: np.array(v) for v in model.trainable_variables}
    tokens, targets = np.array([[1, 2, 3], [4, 0, 1]]), np.ones((2, 3, 2))
    model.fit(tokens, targets, epochs=3, verbose=0)
    moved = {v.path: np.abs(np.array(v) - before[v.path]).max() for v in model.trainable_variables}
    assert moved.pop("Embedding-Position/embeddings") == 0
    assert 0 < moved["Head/bias"] < 0.04 < moved["Embedding-Token/embeddings"]
    assert float(model.optimizer.learning_rate) < 0.1

    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, LayerwiseAdamW)
    assert again.optimizer.rates == model.optimizer.rates
    # Keras forgets what decays not.
    again.optimizer.exclude_from_weight_decay(
        [v for v in again.trainable_variables if not decays(v.path)]
    )
    for one in (model, again):
        one.fit(tokens, targets, verbose=0)
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.once
def test_rates_by_depth_shrink_to_the_embeddings(tiny_config):
    model = classifier(build_transformer_model(tiny_config), num_classes=2)
    rates = rates_by_depth(model, 0.5)
    assert rates == {"Embedding-": 0.125, "Transformer-0-": 0.25, "Transformer-1-": 0.5}
    optimizer = adamw(model, 1e-3, rates=rates)
    optimizer.build(model.trainable_variables)
    factors = {v.path: optimizer.factor(v) for v in model.trainable_variables}
    assert {f for path, f in factors.items() if "Transformer" not in path} == {0.125, 1.0}
    assert all(f == 0.5 for path, f in factors.items() if "Transformer-1-" in path)


@pytest.mark.once
def test_rates_by_depth_count_more_than_ten_blocks():
    """Block 10 is the one below the head, and not between blocks 1 and 2."""
    x = inputs = keras.Input((2,))
    for block in range(11):
        x = keras.layers.Dense(2, name=f"Transformer-{block}-FeedForward")(x)
    rates = rates_by_depth(keras.Model(inputs, x), 0.5)
    for block in range(11):
        assert rates[f"Transformer-{block}-"] == 0.5 ** (11 - block)


@pytest.mark.once
def test_rates_of_a_decoder_stand_on_the_encoder():
    model = build_encoder_decoder(9, 8, 2, 2, 8)
    assert rates_by_depth(model, 0.5) == {
        "Embedding-": 1 / 32,
        "Encoder-0-": 1 / 16,
        "Encoder-1-": 1 / 8,
        "Decoder-0-": 1 / 4,
        "Decoder-1-": 1 / 2,
    }


@pytest.mark.once
def test_rates_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 0.*Received: -1 for 'a'"):
        LayerwiseAdamW(0.1, rates={"a": -1})
    with pytest.raises(ValueError, match="the pattern 'Tail', which is in no path"):
        LayerwiseAdamW(0.1, rates={"Tail": 1}).build(small_model().trainable_variables)
    with pytest.raises(ValueError, match="above 0 and at most 1. Received: 0"):
        rates_by_depth(small_model(), 0)
    with pytest.raises(ValueError, match="no variable of a block.* freeze fewer layers"):
        rates_by_depth(small_model(), 0.9)


def test_training_goes_on_with_an_optimizer_that_pytorch_saved(tmp_path):
    """There Keras names a class of PyTorch's, whose steps another backend cannot take."""
    sizes = {**TINY_CONFIG, "num_hidden_layers": 1, "hidden_act": "relu"}
    model = classifier(build_transformer_model(sizes), 2, dropout_rate=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, run_eagerly=True)
    ids = np.array([[2, 7, 8, 3], [2, 9, 5, 3]])
    batch = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}, np.array([0, 1])
    model.train_on_batch(*batch)
    model.save(tmp_path / "here.keras")
    with (
        zipfile.ZipFile(tmp_path / "here.keras") as here,
        zipfile.ZipFile(tmp_path / "there.keras", "w") as there,
    ):
        for name in here.namelist():
            content = here.read(name)
            if name == "config.json":
                config = json.loads(content)
                saved = config["compile_config"]["optimizer"]
                saved["module"] = "keras.src.backend.torch.optimizers.torch_adam"
                content = json.dumps(config)
            there.writestr(name, content)
    opened = keras.saving.load_model(tmp_path / "there.keras")
    for each in (model, opened):
        each.train_on_batch(*batch)
    for one, other in zip(model.get_weights(), opened.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
