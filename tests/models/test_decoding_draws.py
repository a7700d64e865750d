"""Texts of tiny models, drawn anew each day, against decoding by its definition in NumPy."""

import decoding_draws
import keras
import pytest
from attention_draws import seed_of_the_day
from keras import ops

from keras_posenc.models.generation import search
from keras_posenc.models.generation.search import Beams, OneByOne, Search

SEED = seed_of_the_day()


def test_texts_are_those_of_the_definition():
    """Another draw: `python tests/decoding_draws.py --seed N`, or SEED=N in the environment."""
    print(f"seed {SEED}")
    most = {"torch": 40, "tensorflow": 4, "jax": 4}[keras.backend.backend()]
    count, certain, failures = decoding_draws.run(SEED, most=most)
    assert failures == [], f"seed {SEED}"
    assert count == most and certain > count / 2


@pytest.mark.once
@pytest.mark.parametrize("planted", ["caches", "end", "penalty", "length", "draw"])
def test_a_fault_is_found(planted, monkeypatch):
    penalty, draw = Beams._penalty, search.draw
    if planted == "caches":  # which stay with the beam that wrote them
        grow = Beams.grow
        monkeypatch.setattr(Beams, "grow", lambda self, *args: (grow(self, *args)[0], args[-1]))
    elif planted == "end":
        never = staticmethod(lambda tokens: ops.zeros_like(tokens, dtype="bool"))
        monkeypatch.setattr(OneByOne, "_ends", never)
    elif planted == "penalty":  # of the prompt alone
        monkeypatch.setattr(Search, "_noted", staticmethod(lambda seen, tokens: seen))
    elif planted == "length":
        monkeypatch.setattr(Beams, "_penalty", lambda self, length: penalty(self, length + 1))
    else:  # without the restriction to the likeliest
        monkeypatch.setattr(search, "draw", lambda logits, u, t, k, p: draw(logits, u, t, None, p))
    failures = []
    for number in range(60):
        failures = decoding_draws.run(0, number=number)[2]
        if failures:
            break
    assert failures and " for [[" in failures[0]
