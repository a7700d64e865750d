"""What runs that are counted in steps share: losses, averages, optimizers of Keras."""

import json

import keras
import numpy as np
import pytest
from contextual_texts import SHORT, TEXTS, write_embedder

from keras_posenc.training import contextualize
from keras_posenc.training.runs import take_steps

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 4, 3)), RNG.normal(size=(5, 4, 1))


def run(folder, steps=5, **arguments):
    """The model and the record after some of five steps."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, **arguments), "mse")
    model.optimizer.build(model.trainable_variables)

    def step(number):
        return float(np.ravel(model.train_on_batch(X[number], Y[number]))[0])

    return model, take_steps(model, steps, folder / "state.zip", step, dict, lambda line: None)


def by_hand(steps=5, rate=0.1):
    """The loss of each step, the weights after each, and their starting values."""
    keras.utils.set_random_seed(0)
    w, b = (v.astype("float64") for v in keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(1)]).get_weights())  # fmt: skip
    losses, states = [], [(w, b)]
    for x, y in zip(X[:steps], Y[:steps], strict=True):
        error = x @ w + b - y
        losses.append(float((error**2).mean()))
        w, b = w - rate * 2 * x.T @ error / len(x), b - rate * 2 * error.mean(0)
        states.append((w, b))
    return losses, states


def test_each_loss_is_that_of_its_step(tmp_path):
    """Also of an interrupted run, with every version of Keras."""
    losses, states = by_hand()
    run(tmp_path, steps=3)
    model, record = run(tmp_path)
    np.testing.assert_allclose(record["losses"], losses, rtol=1e-4)
    for found, expected in zip(model.get_weights(), states[-1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_averages_are_what_a_run_ends_with(tmp_path):
    """They are not what it goes on with after an interruption."""
    _, states = by_hand()
    arguments = {"use_ema": True, "ema_momentum": 0.5}
    run(tmp_path, steps=3, **arguments)
    model, _ = run(tmp_path, **arguments)
    for number, found in enumerate(model.get_weights()):
        mean = states[1][number]
        for state in states[2:]:
            mean = 0.5 * mean + 0.5 * state[number]
        np.testing.assert_allclose(found, mean, rtol=1e-4)


@pytest.mark.once
def test_an_optimizer_of_keras_and_averages_in_a_whole_run(tmp_path):
    small, found = write_embedder(tmp_path / "small"), {}
    for name, arguments in {"plain": {}, "ema": {"use_ema": True, "ema_momentum": 0.9}}.items():
        settings = SHORT | {"optimizer": keras.optimizers.AdamW(1e-2, **arguments)}
        model, _ = contextualize(small, TEXTS, tmp_path / name, test=TEXTS, **settings)
        found[name] = model.get_weights()
        recipe = json.loads((tmp_path / name / "recipe.json").read_text("utf-8"))
        assert recipe["optimizer"]["class"] == "AdamW"
        assert recipe["optimizer"]["use_ema"] is bool(arguments)
    assert any((one != other).any() for one, other in zip(*found.values(), strict=True))


@pytest.mark.once
def test_texts_without_spaces_are_trained_on(tmp_path):
    small = write_embedder(tmp_path / "small")
    letters, vocabulary = "茶园学校工厂河边", (small / "vocab.txt").read_text("utf-8").split()
    vocabulary[-len(letters) :] = letters  # of unknown letters all words would be one
    (small / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    texts = [
        f"{w}很大。我们去{w}。{w}下雨了。他的{w}很好。" * 3
        for w in ("茶园", "学校", "工厂", "河边")
    ]
    _, report = contextualize(small, texts, tmp_path / "out", test=texts, **SHORT | {"steps": 1})
    assert -1 <= report["sentences"]["similarity"] <= 1
