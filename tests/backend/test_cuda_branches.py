"""What PyTorch does on CUDA only, run on a CPU that stands for such a device."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_models import SIZES

from keras_posenc import PositionalAttention, backend, build_transformer_model
from keras_posenc.layers.dropout import Dropout
from keras_posenc.training import FusedAdamW

# On the newest Keras only: older ones recompute in their own way.
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's kernels"),
]
X = np.random.default_rng(0).normal(size=(2, 40, 16)).astype("float32")
TOKENS = np.array([[3, 4, 5, 6, 7, 8], [7, 8, 9, 10, 11, 12]], "int32")


@pytest.fixture
def cuda(monkeypatch):
    from keras_posenc.backend import torch_cuda

    monkeypatch.setitem(torch_cuda.STANDS_FOR, "cpu", (9, 0))


@pytest.fixture
def in_blocks(monkeypatch):
    """A function that has maps cut into blocks of 8 rows; returns the list of the seeds used."""
    from keras_posenc.attention import blocks, choose
    from keras_posenc.backend import torch_cuda

    def cut():
        monkeypatch.setattr(choose, "ON_GPU", (0, 1))
        for module, name in ((choose, "LANES"), (choose, "FEWEST_ROWS"), (blocks, "LANES")):
            monkeypatch.setattr(module, name, 8)
        seeds, attention = [], torch_cuda.attention
        spy = lambda *x: (seeds.append(x[-1]), attention(*x))[1]  # noqa: E731
        monkeypatch.setattr(torch_cuda, "attention", spy)
        return seeds

    return cut


def build(**changes):
    keras.utils.set_random_seed(0)
    return build_transformer_model(**{**SIZES, "num_hidden_layers": 2, **changes})


def numpy(x):
    return ops.convert_to_numpy(x.detach())


def twice(layer, **named):
    """Two calls in training, then one more from the state of the first."""
    import torch

    before = torch.get_rng_state()
    layer.build(X.shape, X.shape) if isinstance(layer, PositionalAttention) else None
    start = layer.seed_generator.state.numpy()
    arguments = (X, X) if isinstance(layer, PositionalAttention) else (X + 10,)
    found = [numpy(layer(*arguments, training=True, **named)) for _ in range(2)]
    layer.seed_generator.state.assign(start)
    again = numpy(layer(*arguments, training=True, **named))
    return *found, again, before, torch.get_rng_state()


@pytest.mark.parametrize("encodings", [[], ["rotary"], ["t5"], [{"name": "window", "window": 4}]])
def test_the_kernel_drops_by_the_seed_of_the_layer(encodings, cuda, in_blocks):
    for blocks in (False, True):  # as a whole, and in blocks with a seed each
        if blocks:
            in_blocks()
        layer = PositionalAttention(2, 8, encodings=encodings, dropout=0.4, seed=5)
        first, second, again, before, after = twice(layer)
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - second).max() > 1e-3
        np.testing.assert_array_equal(numpy(before), numpy(after))  # of all others


def test_the_mean_over_seeds_is_that_without_dropout(cuda):
    layer = PositionalAttention(2, 8, encodings=["t5"], dropout=0.3, seed=5)
    expected = numpy(layer(X, X))
    found = np.mean([numpy(layer(X, X, training=True)) for _ in range(600)], axis=0)
    spread = np.std([numpy(layer(X, X, training=True)) for _ in range(50)], axis=0)
    assert (np.abs(found - expected) / spread).max() < 6 / 600**0.5


def test_blocks_that_are_computed_again_drop_the_same(cuda, in_blocks):
    """The gradient in blocks is that of finite differences with the same seed."""
    calls = in_blocks()
    layer = PositionalAttention(2, 8, encodings=["t5"], dropout=0.4, seed=5)
    x = ops.convert_to_tensor(X).double().float().requires_grad_()
    layer.build(X.shape, X.shape)
    start = layer.seed_generator.state.numpy()

    def loss(x):
        layer.seed_generator.state.assign(start)
        return ops.sum(ops.sin(layer(x, x, training=True)))

    loss(x).backward()
    direction = ops.convert_to_tensor(np.random.default_rng(1).normal(size=X.shape).astype("f"))
    step = 3e-3
    moved = float((loss(x + step * direction) - loss(x - step * direction)).detach()) / (2 * step)
    assert moved == pytest.approx(float((x.grad * direction).sum()), rel=0.02)
    assert len(calls) >= 5 * 2 * 2  # blocks of 8 rows, forward and again backward
    seeds = [seed for seed in calls[:5]]
    assert len(set(seeds)) == 5  # each drops other cells


def test_features_are_dropped_by_one_kernel(cuda):
    first, second, again, before, after = twice(Dropout(0.3, seed=1))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(numpy(before), numpy(after))
    kept = first != 0
    np.testing.assert_allclose(first[kept], (X + 10)[kept] / 0.7, rtol=1e-6)
    assert ((first != 0) & (second != 0)).mean() == pytest.approx(0.49, abs=0.06)


def test_seeds_are_those_of_keras(cuda):
    ours, by_keras = (keras.random.SeedGenerator(7) for _ in range(2))
    for _ in range(3):
        assert backend.next_seed(ours) == tuple(by_keras.next().tolist())
    for generator in (ours, by_keras):
        generator.state.assign([5, 2])
    assert backend.next_seed(ours) == tuple(by_keras.next().tolist()) == (5, 2)
    np.testing.assert_array_equal(ours.state.numpy(), by_keras.state.numpy())


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_model_computes_what_it_computes_on_a_cpu(policy, dropout, monkeypatch):
    """Features, with and without padding; with dropout, no error and a finite gradient."""
    from keras_posenc.backend import torch_cuda

    keras.config.set_dtype_policy(policy)
    try:
        model = build(dropout_rate=dropout, attention_dropout_rate=dropout)
    finally:
        keras.config.set_dtype_policy("float32")
    padded = np.where(np.arange(6) < [[4], [6]], TOKENS, 0)
    for tokens in (TOKENS, padded):
        inputs = [tokens, np.zeros_like(tokens)]
        expected = model.predict_on_batch(inputs).astype("float32")
        with monkeypatch.context() as patch:
            patch.setitem(torch_cuda.STANDS_FOR, "cpu", (9, 0))
            found = model.predict_on_batch(inputs)
            ops.sum(model(inputs, training=True)).backward()
        assert str(found.dtype) == ("bfloat16" if "16" in policy else "float32")
        tolerance = 0.03 if "16" in policy else 1e-5
        np.testing.assert_allclose(found.astype("float32"), expected, atol=tolerance)
        for weight in model.trainable_variables:
            assert np.isfinite(numpy(weight.value.grad)).all()


def test_weights_are_cast_once_until_they_change():
    from keras_posenc.backend import torch_calls

    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = build()
    finally:
        keras.config.set_dtype_policy("float32")
    kernel = next(w for w in model.trainable_variables if w.path.endswith("query/kernel")).value
    first = model.predict_on_batch([TOKENS, 0 * TOKENS])
    _, kept = torch_calls.CASTS[kernel]
    model.predict_on_batch([TOKENS, 0 * TOKENS])
    assert torch_calls.CASTS[kernel][1] is kept
    model.set_weights([2 * w for w in model.get_weights()])
    assert not np.array_equal(model.predict_on_batch([TOKENS, 0 * TOKENS]), first)
    model.compile(FusedAdamW(0.1), "mse")
    before = model.predict_on_batch([TOKENS, 0 * TOKENS])
    model.train_on_batch([TOKENS, 0 * TOKENS], np.zeros((2, 6, 8), "float32"))
    assert kernel not in torch_calls.CASTS  # in training they would only take memory
    assert not np.array_equal(model.predict_on_batch([TOKENS, 0 * TOKENS]), before)


def test_a_step_of_the_optimizer_does_not_wait(cuda, monkeypatch):
    import torch

    def weights(kind, **settings):
        keras.utils.set_random_seed(0)
        model = build(dropout_rate=0.1, attention_dropout_rate=0.1)
        model.compile(kind(**settings), "mse")
        return model

    settings = {
        "weight_decay": 0.1,
        "learning_rate": keras.optimizers.schedules.CosineDecay(1e-2, 9),
    }
    model = weights(FusedAdamW, **settings)
    gradients = [ops.ones_like(w) * 0.1 for w in model.trainable_variables]
    model.optimizer.build(model.trainable_variables)
    model.optimizer.apply(gradients)
    read = []
    for name in ("item", "tolist", "__int__", "__float__", "__bool__"):
        true = getattr(torch.Tensor, name)
        spy = lambda *a, true=true, name=name: (read.append(name), true(*a))[1]  # noqa: E731
        monkeypatch.setattr(torch.Tensor, name, spy)
    model.optimizer.apply(gradients)
    ops.sum(model([TOKENS, 0 * TOKENS], training=True))
    del read[:]
    model.optimizer.apply(gradients)
    ops.sum(model([TOKENS, 0 * TOKENS], training=True))
    assert not read
    monkeypatch.undo()
    other = weights(keras.optimizers.AdamW, **settings)
    for _ in range(3):
        other.optimizer.apply(gradients, other.trainable_variables)
    for ours, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_predictions_come_without_arithmetic(cuda):
    """Numbers of bfloat16 are those that the device has."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = build()
    finally:
        keras.config.set_dtype_policy("float32")
    expected = model([TOKENS, 0 * TOKENS], training=False).float()
    found = model.predict([TOKENS, 0 * TOKENS], batch_size=1, verbose=0)
    assert str(found.dtype) == "bfloat16"
    np.testing.assert_array_equal(found.astype("float32"), numpy(expected))


def test_texts_are_computed_in_half_precision(cuda, monkeypatch):
    """By the numbers of a mixed policy, in this context alone, and as the record says."""
    from keras_posenc.backend import torch_cuda
    from keras_posenc.models.precision import lower_precision

    model = build()
    inputs = [TOKENS, 0 * TOKENS]
    exact = model.predict_on_batch(inputs)
    with lower_precision(model):
        found = model.predict_on_batch(inputs)
    assert str(found.dtype) == "bfloat16"
    np.testing.assert_allclose(found.astype("float32"), exact, atol=0.03)
    np.testing.assert_array_equal(model.predict_on_batch(inputs), exact)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        mixed = build()
    finally:
        keras.config.set_dtype_policy("float32")
    mixed.set_weights(model.get_weights())
    np.testing.assert_array_equal(found, mixed.predict_on_batch(inputs))
    assert backend.inference_dtype() == "bfloat16"
    monkeypatch.setenv("KERAS_POSENC_PRECISION", "float32")
    with lower_precision(model):
        np.testing.assert_array_equal(model.predict_on_batch(inputs), exact)
    monkeypatch.delenv("KERAS_POSENC_PRECISION")
    monkeypatch.setitem(torch_cuda.STANDS_FOR, "cpu", (7, 5))  # a T4
    with lower_precision(model):
        assert str(model.predict_on_batch(inputs).dtype) == "float16"


def test_copies_of_weights_follow_a_fused_step_in_float32(cuda):
    """Neither PyTorch's kernel gives weights a new version, nor do steps in float32 cast them."""
    import torch

    from keras_posenc.models.precision import lower_precision

    def lowered():
        with lower_precision(model):
            return model.predict_on_batch([TOKENS, 0 * TOKENS]).astype("float32")

    model = build()
    weights = model.trainable_variables
    by_torch = torch.optim.AdamW([w.value for w in weights], 0.1, fused=True)
    optimizer = FusedAdamW(0.1)
    for step in ("ours", "of torch"):
        before = lowered()
        loss = ops.sum(model([TOKENS, 0 * TOKENS], training=True) ** 2)
        gradients = torch.autograd.grad(loss, [w.value for w in weights])
        if step == "ours":
            optimizer.apply(gradients, weights)
        else:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.value.grad = gradient
            by_torch.step()
        found, exact = lowered(), model.predict_on_batch([TOKENS, 0 * TOKENS])
        np.testing.assert_allclose(found, exact, atol=0.05)
        assert np.abs(found - before).max() > 0.2


def test_copies_follow_a_fused_step_without_a_pass():
    import torch

    from keras_posenc.backend import torch_calls

    weight = keras.Variable(np.ones(3, "float32"))
    optimizer = FusedAdamW(0.5)
    for _ in range(2):
        with torch.no_grad():
            torch_calls.cast(weight, torch.bfloat16)
        optimizer.apply([ops.ones((3,))], [weight])
    with torch.no_grad():
        found = numpy(torch_calls.cast(weight, torch.bfloat16).float())
    np.testing.assert_allclose(found, weight.numpy(), rtol=0.01)


def test_only_the_transformer_is_computed_in_half_precision(cuda):
    """Heads keep float32, as models do that have no attention of this package."""
    from keras_posenc.heads import classifier, token_classifier
    from keras_posenc.models.precision import lower_precision

    encoder = build()
    for model in (classifier(encoder, 3), token_classifier(encoder, 3)):
        exact = model.predict_on_batch([TOKENS, 0 * TOKENS])
        with lower_precision(model):
            found = model.predict_on_batch([TOKENS, 0 * TOKENS])
        assert found.dtype == "float32" and np.abs(found - exact).max() > 0
        np.testing.assert_allclose(found, exact, atol=0.03)
    dense = keras.Sequential([keras.Input((16,)), keras.layers.Dense(4)])
    with lower_precision(dense):
        assert dense.predict_on_batch(X[0]).dtype == "float32"


def test_other_threads_keep_their_precision(cuda):
    """Those that ask for float32 get it, and those that leave first change nothing for others."""
    import concurrent.futures

    from keras_posenc.backend.keras_names import plain_dtypes
    from keras_posenc.models.precision import lower_precision

    model = build()
    predict = lambda: model.predict_on_batch([TOKENS, 0 * TOKENS])  # noqa: E731

    def lowered():
        with lower_precision(model):
            # So the layers are called directly, not by Keras.
            assert plain_dtypes(model.layers[-1]) == ("bfloat16", "float32")
            return predict()

    exact = predict()
    with concurrent.futures.ThreadPoolExecutor(1) as pool, lower_precision(model):
        np.testing.assert_array_equal(pool.submit(predict).result(), exact)
        elsewhere = pool.submit(lowered).result()
        assert str(elsewhere.dtype) == "bfloat16"
        np.testing.assert_array_equal(predict(), elsewhere)
    np.testing.assert_array_equal(predict(), exact)
    assert {type(layer.dtype_policy) for layer in model.layers} == {keras.DTypePolicy}


def test_arrays_of_predictions_are_copies_and_leave_with_them():
    import gc

    import torch

    from keras_posenc.backend import torch_host

    x = torch.ones(3, dtype=torch.bfloat16)
    np.array(torch_host.HostArray.of(x))[:] = 7
    np.testing.assert_array_equal(numpy(x.float()), 1)
    model = build()
    model.predict([TOKENS, 0 * TOKENS], verbose=0)
    gc.collect()
    assert not model._waiting


def test_a_number_that_is_known_follows_what_is_written():
    import torch

    start = ops.zeros((), "int32")
    assert backend.number(start, 0) == 0
    start += 3
    assert backend.number(start) == 3
    after = backend.moved_on(start, 2, True)
    assert backend.number(after) == int(after) == 5
    with torch.inference_mode():
        assert backend.number(ops.ones((), "int32")) == 1
