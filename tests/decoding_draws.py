"""Draws tiny causal models and searches, and compares the texts with those of the definition.

    python tests/decoding_draws.py --seconds 600 --seed 1    # prints what fails
    python tests/decoding_draws.py --seed 1 --number 12      # one again

A model has one or two layers of attention with drawn arguments, of the encodings, the heads and the
windows; prompts of several lengths are in a batch; a search is greedy, of beams, or draws.
"""

import argparse
import itertools
import time

import keras
import numpy as np
from attention_cases import draw
from attention_checks import Refused, randomize, reference, to_numpy, values_of
from attention_draws import seed_of_the_day
from oracles_decoding import Search

from keras_posenc import Generator, PositionalAttention
from keras_posenc.encodings import ENCODINGS

TOKENS, WIDTH = 16, 10
LAYERS = ("grouped heads", "head norm", "gate", "sliding window", "no biases", "value_dim")
LEAST = 1e-3  # of a margin, below which float32 may choose otherwise
NO_CACHE = ("selective",)  # which `Generator` refuses


class Case:
    """A model, its prompts and the search for their texts, drawn of a generator."""

    def __init__(self, rng):
        self.seed = int(rng.integers(2**31))
        self.layers, self.options = [], []
        for _ in range(1 + int(rng.integers(2))):
            names = [name for name in ENCODINGS if name not in NO_CACHE]
            options = [*rng.choice(names, 1 + int(rng.integers(2)), replace=False)]
            options += [name for name in LAYERS if rng.random() < 0.3]
            if {"window", "sliding window"} <= set(options):
                options.remove("sliding window")
            self.options.append([str(option) for option in options])
            self.layers.append(draw(rng, self.options[-1], "short").layer)
        self.prompts = [
            rng.integers(1, TOKENS, 1 + int(rng.integers(9))).tolist()
            for _ in range(1 + int(rng.integers(3)))
        ]
        self.search = {"max_length": 1 + int(rng.integers(7))}
        ends = rng.choice(np.arange(1, TOKENS), int(rng.integers(3)), replace=False).tolist()
        self.search["end_id"] = ends or None
        self.search["repetition_penalty"] = float(rng.choice([1.0, 1.4, 0.8]))
        kind = rng.integers(3)
        if kind == 1:
            self.search["beams"] = int(rng.integers(2, 5))
            self.search["n"] = int(rng.integers(1, self.search["beams"] + 1))
            self.search["alpha"] = float(rng.choice([-1.0, 0.0, 0.6, 2.0]))
        elif kind == 2:
            self.search["temperature"] = float(rng.choice([0.3, 1.0, 2.0]))
            self.search["n"] = int(rng.integers(1, 4))
            self.search |= {} if rng.random() < 0.5 else {"top_k": int(rng.integers(1, TOKENS))}
            self.search |= {} if rng.random() < 0.5 else {"top_p": float(rng.uniform(0.2, 1))}

    def __str__(self):
        return f"{self.layers}, {self.prompts}, {self.search}"


def check(case):
    """Whether the texts are those of the definition; None where rounding might decide."""
    keras.utils.set_random_seed(case.seed)
    try:
        model, layers = built(case)
    except ValueError as error:  # encodings that do not go together
        raise Refused(str(error)) from error
    generator = Generator(model, seed=case.seed % 1000, **case.search)
    settings, rows = generator.search, len(case.prompts) * case.search.get("n", 1)
    uniforms = [None] * len(case.prompts)
    if settings.samples:
        again = keras.random.SeedGenerator(case.seed % 1000)
        drawn = keras.random.uniform((rows, settings.max_length), dtype="float32", seed=again)
        uniforms = to_numpy(drawn).reshape(len(case.prompts), -1, settings.max_length)
    found = generator.predict(case.prompts, verbose=0)
    found = found if settings.n > 1 else found[:, None]
    table, kernel, bias = (
        to_numpy(weight).astype("float64")
        for layer in (model.layers[1], model.layers[-1])
        for weight in layer.weights
    )
    values = [values_of(layer) for layer in layers]

    def logits_of(prompt):
        def of(text):
            x = table[[*prompt, *text]][None]
            for layer, named in zip(layers, values, strict=True):
                call = {"query": x, "value": x, "use_causal_mask": True}
                x = x + reference(layer, named, call)[0]
            return x[0, -1] @ kernel + bias

        return of

    certain = True
    for prompt, texts, numbers in zip(case.prompts, found.tolist(), uniforms, strict=True):
        search = Search(logits_of(prompt), settings, prompt, numbers)
        expected = search.texts()
        if search.margin < LEAST:
            certain = None
        elif texts != expected:
            raise AssertionError(f"{prompt}: {texts} for {expected}")
    return certain


def built(case):
    """A model with weights that are nowhere neutral, and its layers of attention."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(TOKENS, WIDTH, mask_zero=True)(tokens)
    layers = []
    for arguments in case.layers:
        if arguments.get("head_norm"):
            arguments = arguments | {"head_norm": keras.layers.RMSNormalization()}
        layers.append(PositionalAttention(**arguments))
        x = keras.layers.Add()([x, layers[-1](x, x, use_causal_mask=True)])
    model = keras.Model(tokens, keras.layers.Dense(TOKENS)(x))
    rng = np.random.default_rng(case.seed)
    for layer in layers:
        randomize(layer, rng)
    for layer in (model.layers[1], model.layers[-1]):
        for weight in layer.weights:
            weight.assign(rng.normal(size=weight.shape))
    return model, layers


def run(seed, most=None, seconds=None, number=None):
    """(number of cases, how many of them were certain, failures)."""
    began, count, certain, failures = time.time(), 0, 0, []
    for draw_number in itertools.count() if number is None else [number]:
        if count == most or (seconds is not None and time.time() - began > seconds):
            break
        case = Case(np.random.default_rng((seed, draw_number)))
        try:
            certain += bool(check(case))
        except Refused:
            continue
        except Exception as error:
            failures.append(f"{draw_number}: {case.options}, {case.search}: {error!r:.300}")
            print(failures[-1], flush=True)
        count += 1
        keras.backend.clear_session()
    return count, certain, failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=seed_of_the_day())
    parser.add_argument("--number", type=int)
    given = parser.parse_args()
    found = run(given.seed, seconds=given.seconds, number=given.number)
    print(
        f"seed {given.seed}: {found[0]} cases, {found[1]} of them certain, {len(found[2])} failed"
    )
    raise SystemExit(bool(found[2]))
