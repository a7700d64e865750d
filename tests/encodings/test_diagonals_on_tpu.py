"""What encodings trace for a TPU, where a look-up for each cell costs a comparison per column."""

import math

import keras
import numpy as np
import pytest

from keras_posenc import PositionalAttention
from keras_posenc.encodings import conditioned, deberta

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")
LENGTH, HEADS = 96, 2
X = np.random.default_rng(0).normal(size=(2, LENGTH, 16)).astype("float32")
CASES = [
    {"name": "deberta", "max_distance": 20},
    {"name": "deberta", "max_distance": 200, "buckets": 8},
    {"name": "deberta", "max_distance": 20, "buckets": 8, "released": True},
    {"name": "content_bias", "max_distance": 10},
]


def with_weights(encoding):
    layer = PositionalAttention(HEADS, 8, encodings=[encoding])
    layer.build(X.shape, X.shape)
    rng = np.random.default_rng(1)
    return layer, [rng.normal(size=w.shape).astype("float32") for w in layer.trainable_variables]


def step(layer, causal=False):
    def loss(weights, x):
        output = layer.stateless_call(weights, [], x, x, use_causal_mask=causal, training=True)[0]
        return (output**2).sum()

    return loss


@pytest.mark.parametrize("encoding", CASES, ids=str)
def test_diagonals_are_the_cells(encoding, monkeypatch):
    import jax

    found = []
    for by_diagonals in (True, False):
        for module in (deberta, conditioned):
            monkeypatch.setattr(module, "prefers_diagonals", lambda grid, by=by_diagonals: by)
        layer, weights = with_weights(encoding)
        found.append(jax.tree.leaves(jax.jit(jax.value_and_grad(step(layer)))(weights, X)))
    # Without a term of the keys, the gradient of their bias is only what is rounded off.
    scale = max(np.abs(gradient).max() for gradient in found[1][1:])
    for by_diagonals, by_cells in zip(*found, strict=True):
        np.testing.assert_allclose(by_diagonals / scale, by_cells / scale, atol=1e-5)


def equations(jaxpr):
    """All equations of a program, those inside others too."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for one in value if isinstance(value, (tuple, list)) else (value,):
                one = getattr(one, "jaxpr", one)
                if hasattr(one, "eqns"):
                    yield from equations(one)


def traced(encoding, monkeypatch, causal=False):
    import jax

    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    layer, weights = with_weights(encoding)
    return list(equations(jax.make_jaxpr(jax.grad(step(layer, causal)))(weights, X).jaxpr))


@pytest.mark.parametrize("name", ["deberta", "content_bias"])
def test_no_cell_is_compared_with_all_columns(name, monkeypatch):
    """With a look-up for each cell, there were 2,310 selections of it for `deberta`."""
    found = traced(name, monkeypatch)
    chosen = sum(
        math.prod(e.outvars[0].aval.shape) for e in found if e.primitive.name == "select_n"
    )
    assert chosen < 16 * len(X) * HEADS * LENGTH**2


@pytest.mark.parametrize("name, gate", [("cope", None), ("cope", "values"), ("rotary", None)])
def test_logits_are_not_rounded_where_they_are_summed(name, gate, monkeypatch):
    """A TPU rounds float32 to bfloat16 in products: 8e-2 in positions that are sums of gates."""
    import jax

    encoding = {"name": name, **({"gate": gate} if gate else {})}
    in_full = [
        e.outvars[0].aval.shape
        for e in traced(encoding, monkeypatch, causal=True)
        if e.primitive.name == "dot_general"
        and jax.lax.Precision.HIGHEST in (e.params["precision"] or ())
    ]
    maps = [shape for shape in in_full if shape == (len(X), HEADS, LENGTH, LENGTH)]
    assert len(maps) >= (0 if name == "rotary" else 2 if gate else 1)
    assert name == "cope" or not in_full
