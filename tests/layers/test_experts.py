"""A mixture of experts: each token's numbers, gradients, and that no expert computes other rows."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import backend
from keras_posenc.backend import shared
from keras_posenc.layers.experts import MixtureOfExperts

SIZES = {"units": 6, "num_experts": 5, "experts_per_token": 2}


def drawn(layer):
    """Random weights, so that experts differ; the first expert is chosen by no token."""
    random = np.random.default_rng(0)
    for weight in layer.weights:
        weight.assign(random.normal(size=weight.shape))
    layer.router_bias.assign([-99.0, *np.zeros(4)])
    return layer


def made(**options):
    layer = MixtureOfExperts(**SIZES, **options)
    layer.build((None, None, 4))
    return drawn(layer)


def inputs(length=7):
    return np.random.default_rng(1).normal(size=(3, length, 4)).astype("float32")


def reference(layer, x, slope=1.0, offset=0.0, limit=np.inf):
    names = ("inner_kernel", "inner_bias", "outer_kernel", "outer_bias")
    names = (*names, "router_kernel", "router_bias")
    weights = {w.name: np.float64(ops.convert_to_numpy(w)) for w in layer.weights}
    w_in, b_in, w_out, b_out, router, router_bias = (weights[name] for name in names)
    rows = np.float64(x).reshape(-1, x.shape[-1])
    output = np.zeros_like(rows)
    for n, row in enumerate(rows):
        logits = row @ router + router_bias
        chosen = np.argsort(-logits)[: layer.experts_per_token]
        shares = np.exp(logits[chosen]) / np.exp(logits[chosen]).sum()
        for expert, share in zip(chosen, shares, strict=True):
            gate, up = np.split(row @ w_in[expert] + b_in[expert], 2)
            gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
            inner = gate / (1 + np.exp(-slope * gate)) * (up + offset)
            output[n] += share * (inner @ w_out[expert] + b_out[expert])
    return output.reshape(x.shape)


@pytest.mark.parametrize("options", [{}, {"slope": 1.7, "offset": 1.0, "limit": 0.5}])
def test_a_token_is_the_weighted_sum_of_the_experts_it_chooses(options):
    layer, x = made(**options), inputs()
    found = ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(found, reference(layer, x, **options), atol=2e-5)
    one = ops.convert_to_numpy(layer(x[:1, :1]))
    np.testing.assert_allclose(one, found[:1, :1], atol=1e-5)


def test_the_gradients_are_those_of_all_experts_on_all_rows(monkeypatch):
    layer, x = made(), inputs()
    model = keras.Sequential([keras.Input((None, 4)), layer])
    values = model.get_weights()

    def gradients():
        model.set_weights(values)
        model.compile(keras.optimizers.SGD(1.0), "mse")
        model.train_on_batch(x, np.ones_like(x))
        return [new - old for new, old in zip(model.get_weights(), values, strict=True)]

    found = gradients()
    monkeypatch.setattr(backend, "by_group", shared.by_group)
    for name, one, other in zip(model.weights, found, gradients(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name.path)
    # Only its part of the first expert's weights is untouched.
    moved = found[[w.name for w in model.weights].index("inner_kernel")]
    assert not moved[0].any() and moved[1:].any(axis=(1, 2)).all()


@pytest.mark.once
def test_a_row_is_computed_by_its_experts_alone(monkeypatch):
    if keras.backend.backend() == "jax":
        pytest.skip("a compiled loop over blocks of rows, one of which is traced")
    rows, by_group = [], backend.by_group

    def counted(function, given, *arguments):
        def of_rows(some, weights):
            rows.append(len(some))
            return function(some, weights)

        return by_group(of_rows, given, *arguments)

    monkeypatch.setattr(backend, "by_group", counted)
    made()(inputs())
    assert sum(rows) == 3 * 7 * 2


@pytest.mark.once
def test_it_is_saved_and_refuses_what_cannot_be(tmp_path):
    layer = made(slope=1.5, limit=2.0)
    model = keras.Sequential([keras.Input((None, 4)), layer])
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    assert again.layers[0].get_config() == layer.get_config()
    before, after = (m.predict(inputs(), verbose=0) for m in (model, again))
    np.testing.assert_array_equal(before, after)
    with pytest.raises(ValueError, match="`experts_per_token` must be an integer from 1 to 5"):
        MixtureOfExperts(6, 5, 6)
    with pytest.raises(ValueError, match="`limit` must be a positive number"):
        MixtureOfExperts(6, 5, 2, limit=0)
    half, x = made(dtype="mixed_bfloat16"), np.round(8 * inputs()) / 8
    assert keras.backend.standardize_dtype(half(x).dtype) == "bfloat16"
    found = ops.convert_to_numpy(ops.cast(half(x), "float32"))
    np.testing.assert_allclose(found, reference(half, x), atol=0.05 * abs(found).max())


def test_no_rows_are_no_error():
    found = made()(np.zeros((0, 7, 4), "float32"))
    assert tuple(found.shape) == (0, 7, 4)
