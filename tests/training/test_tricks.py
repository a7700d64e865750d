"""The recipes of docs/guides/training-tricks.md, whose snippets these tests take from the page."""

import pathlib
import re

import numpy as np
import pytest
from keras import ops

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "training-tricks.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def recipe(*words):
    """The first snippet of the page, and those that hold the words."""
    first, *others = FENCE.findall(GUIDE.read_text("utf-8"))
    return [first, *(code for code in others if any(word in code for word in words))]


@pytest.fixture
def page(tmp_path, monkeypatch, pretrained):
    """A function that runs snippets as a reader would, and returns the names that they define."""
    (tmp_path / "path" / "to").mkdir(parents=True)
    (tmp_path / "path" / "to" / "bert").symlink_to(pretrained, target_is_directory=True)
    monkeypatch.chdir(tmp_path)

    def run(codes, **replaced):
        namespace = {}
        for code in codes:
            for old, new in replaced.items():
                code = code.replace(old, new)
            exec(compile(code, GUIDE.name, "exec"), namespace)
        return namespace

    return run


def test_a_gradient_penalty_trains_on_every_backend(page):
    """Under `fit`, compiled: the loss of the first step is that of the page's formula."""
    names = page(recipe("class GradientPenalty"), **{"dropout_rate=0.1": "dropout_rate=0.0"})
    model, weights = names["model"], names["model"].get_weights()
    assert all(np.isfinite(w).all() for w in weights)
    assert names["trained"].optimizer.iterations == 1
    start = names["to_embeddings"](names["x"])
    logits = ops.convert_to_numpy(names["predicted"](start, names["x"], training=False))
    np.testing.assert_allclose(logits, ops.convert_to_numpy(model(names["x"])), atol=1e-5)


def loss_of(names, **settings):
    """The loss of a recipe in training, and that of the model alone, without dropout."""
    trained = names["trained"]
    for name, value in settings.items():
        setattr(trained, name, value)
    x, y = [ops.convert_to_tensor(ids) for ids in names["x"]], names["y"]
    y_pred = trained(x, training=False)
    losses = trained.compute_loss(x, y, y_pred, None, True), names["cross_entropy"](y, y_pred)
    return [number(loss) for loss in losses]


def number(x):
    return float(ops.convert_to_numpy(x))


STILL = {"dropout_rate=0.1": "dropout_rate=0.0", "num_classes=2": "num_classes=2, dropout_rate=0.0"}


@pytest.mark.once
def test_moving_along_the_gradient_raises_the_loss(page):
    names = page(recipe("class FGM"), **STILL)
    still, alone = loss_of(names, epsilon=0.0)
    assert still == pytest.approx(2 * alone, rel=1e-5)
    moved, _ = loss_of(names, epsilon=0.05)
    assert moved > still


@pytest.mark.once
def test_the_penalty_is_the_slope_along_the_gradient(page):
    """(L(e + h g) - L(e - h g)) / 2 h is the squared length of the gradient g."""
    names = page(recipe("class GradientPenalty"), **STILL)
    loss, alone = loss_of(names, weight=2.0)
    x, y, e = names["x"], names["y"], names["to_embeddings"](names["x"])
    g = names["gradient"](lambda e: names["cross_entropy"](y, names["predicted"](e, x)), e)
    h = 1e-3 / number(ops.max(ops.abs(g)))
    ahead, back = (
        number(names["cross_entropy"](y, names["predicted"](e + s * h * g, x))) for s in (1, -1)
    )
    assert loss - alone == pytest.approx((ahead - back) / (2 * h), rel=0.01)


@pytest.mark.once
def test_predictions_that_agree_cost_nothing_and_others_something(page):
    names = page(recipe("class VirtualAdversarial", "class RDrop"), **STILL)
    loss, alone = loss_of(names, weight=4.0)
    assert loss == pytest.approx(2 * alone, rel=1e-4)
    p, q = (ops.convert_to_tensor(x, "float32") for x in ([[0.0, 1.0]], [[2.0, 0.0]]))
    a, b = (np.exp(x) / np.exp(x).sum() for x in (np.array([0.0, 1.0]), np.array([2.0, 0.0])))
    assert number(names["divergence"](p, q)) == pytest.approx((a * np.log(a / b)).sum(), rel=1e-5)


@pytest.mark.once
def test_the_shares_of_tokens_add_up_to_what_they_changed(page):
    names = page(recipe("def shares"), **{**STILL, "print(": "(", ", label=1).round": ", 1).round"})
    x, e = names["x"], names["to_embeddings"](names["x"])
    here, nowhere = (
        ops.convert_to_numpy(names["predicted"](e * s, x, training=False))[:, 1] for s in (1, 0)
    )
    found = names["shares"](x, 1, steps=64).sum(axis=-1)
    np.testing.assert_allclose(found, here - nowhere, atol=0.02 * np.abs(here - nowhere).max())
    assert np.abs(found).max() > 1e-3
