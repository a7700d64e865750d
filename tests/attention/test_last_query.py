"""The newest token attends, in decoding, to what the layer itself would let it attend to."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import Generator, PositionalAttention, build_transformer_model
from keras_posenc.attention.key_values import Overwritten
from keras_posenc.attention.shortcuts import attend_last
from keras_posenc.backend.shared_pass import shared, sharing
from keras_posenc.encodings import rotary
from keras_posenc.models import direct

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="programs have no calls while they run"
)
BATCH, WIDTH, TOKENS = 2, 12, 4


def make(**changes):
    layer = PositionalAttention(**{"num_heads": 2, "key_dim": 6, **changes})
    layer.build((BATCH, TOKENS, WIDTH), (BATCH, TOKENS, WIDTH))
    return layer


def text(count=TOKENS):
    rng = np.random.default_rng(3)
    return ops.convert_to_tensor(rng.normal(size=(BATCH, count, WIDTH)).astype("float32"))


def real(x):
    return ops.ones(x.shape[:2], "bool")


def after(layer, x, mask=None, length=TOKENS + 1):
    """The cache of a layer after the tokens x."""
    cache = layer.make_cache(BATCH, length)
    mask = real(x) if mask is None else mask
    cache = layer(x, x, value_mask=mask, cache=cache, use_causal_mask=True)[-1]
    return Overwritten(*cache)


def step(layer, x, cache, **named):
    import torch

    named = {"cache": cache, "value_mask": real(x), **named}
    with torch.no_grad():
        return attend_last(layer, x, named)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 1, "use_bias": False},
        {"use_gate": True, "head_norm": keras.layers.RMSNormalization()},
        {"encodings": ["rotary", "temperature"], "num_key_value_heads": 1},
        {"encodings": ["rotary"], "sliding_window": 2},
        {"encodings": ["rotary", {"name": "window", "window": 2}]},
        {"encodings": [{"name": "window", "window": 2, "sinks": 1}, "temperature"]},
    ],
    ids=["plain", "few key heads", "gate and norm", "rotary", "window", "as encoding", "sinks"],
)
def test_numbers_and_cache_are_those_of_the_layer(changes):
    layer, x = make(**changes), text(TOKENS + 1)
    before, new = x[:, :TOKENS], x[:, TOKENS:]
    expected, cache = layer(new, new, value_mask=real(new), cache=tuple(after(layer, before)))
    found, written = step(layer, new, after(layer, before))
    assert isinstance(written, Overwritten)
    for one, other in ((found, expected), *zip(written, cache, strict=True)):
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (one, other)), atol=1e-6)


OTHERS = {
    "a term": {"encodings": ["t5"]},
    "a factor by the number of keys": {"encodings": ["rotary", "log_n"]},
    "other values": {"value_dim": 4},
    "no kernel": {"flash_attention": False},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_needs_the_map_is_left_to_the_layer(name):
    layer, x = make(**OTHERS[name]), text(TOKENS)
    assert step(layer, x[:, :1], after(layer, x)) is None


def test_other_calls_are_left_to_the_layer():
    layer, x = make(), text(TOKENS)
    new, cache = x[:, :1], after(layer, x)
    padded = ops.convert_to_tensor(np.array([[True], [False]]))
    assert step(layer, new, cache) is not None
    assert step(layer, x[:, :2], cache) is None
    assert step(layer, new, tuple(cache)) is None
    assert step(layer, new, cache, value_mask=padded) is None
    assert step(layer, new, cache, key_mask=padded) is None
    assert step(layer, new, cache, query_order=ops.zeros((1, 1), "int32")) is None
    assert step(layer, new, cache, return_attention_scores=True) is None


IDS = {
    "padding": [[0, 1, 2, 3, 4], [0, 1, 1, 1, 2]],
    "a gap": [[0, 1, 7, 8, 9], [0, 1, 2, 3, 9]],
}


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("window", [None, 3, 6])
@pytest.mark.parametrize("as_encoding", [False, True])
def test_padding_and_ids_with_a_gap(as_encoding, window, ids):
    encodings, argument = ["rotary"], window
    if as_encoding and window is not None:
        encodings, argument = ["rotary", {"name": "window", "window": window}], None
    layer, x = make(encodings=encodings, num_key_value_heads=1, sliding_window=argument), text(5)
    before, new = x[:, :TOKENS], x[:, TOKENS:]
    mask = ops.convert_to_tensor(np.array([[True] * 4, [True, True, False, False]]))
    ids = np.array(IDS[ids], "int32")
    named = {"query_positions": ids[:, 4:], "key_positions": ids}
    named = {name: ops.convert_to_tensor(x) for name, x in named.items()}
    caches = [after(layer, before, mask=mask) for _ in range(2)]
    expected, _ = layer(new, new, value_mask=real(new), cache=tuple(caches[0]), **named)
    for name, value in named.items():  # the other ids are then indices
        assert step(layer, new, caches[1], **{name: value}) is None
    far = {**named, "query_positions": named["query_positions"] + 20}
    if window is not None:  # the token does not see itself
        assert step(layer, new, caches[1], **far) is None
    found, _ = step(layer, new, caches[1], **named)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, expected)), atol=1e-6)


def test_layers_of_one_pass_share_what_depends_on_positions_alone(monkeypatch):
    """But not their padding, nor the waves of another base or other ids."""
    computed, angles = [], rotary.angles
    monkeypatch.setattr(rotary, "angles", lambda *x: (computed.append(1), angles(*x))[1])
    layers = [make(encodings=[{"name": "rotary", "base": base}]) for base in (50.0, 50.0, 900.0)]
    x = text(TOKENS + 1)
    before, new = x[:, :TOKENS], x[:, TOKENS:]
    for far in (0, 5):
        ids = ops.convert_to_tensor(np.arange(TOKENS + 1, dtype="int32")[None].repeat(BATCH, 0))
        named = {"query_positions": ids[:, TOKENS:] + far, "key_positions": ids}
        masks = [real(before), ops.convert_to_tensor(np.arange(TOKENS)[None] < [[2], [TOKENS]])]
        masks.append(masks[0])
        caches = [after(*each) for each in zip(layers, [before] * 3, masks, strict=True)]
        computed.clear()
        with sharing():
            pairs = zip(layers, caches, strict=True)
            found = [step(layer, new, cache, **named)[0] for layer, cache in pairs]
        # Of two bases, and of the ids of the query and the key if they differ.
        assert len(computed) == (4 if far else 2)
        for layer, mask, one in zip(layers, masks, found, strict=True):
            alone = step(layer, new, after(layer, before, mask), **named)[0]
            np.testing.assert_array_equal(*map(ops.convert_to_numpy, (one, alone)))


def test_layers_of_one_pass_keep_their_attention_factors():
    """Waves of the same angles are shared only by layers that multiply them alike."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}
    scalings = [{**yarn, "attention_factor": factor} for factor in (1.0, 2.0)]
    layers = [make(encodings=[{"name": "rotary", "scaling": each}]) for each in scalings]
    x = text(TOKENS + 1)
    before, new = x[:, :TOKENS], x[:, TOKENS:]
    caches = [after(layer, before) for layer in layers]
    with sharing():
        found = [step(*each)[0] for each in zip(layers, [new] * 2, caches, strict=True)]
    for layer, one in zip(layers, found, strict=True):
        alone = step(layer, new, after(layer, before))[0]
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (one, alone)))


def test_a_tensor_of_a_pass_is_not_taken_for_one_that_is_gone():
    """A new tensor may get the place in memory of one that nothing else needs, and so its id."""
    with sharing():
        for number in range(50):
            x = np.full(3, number)
            assert shared("sum", (x,), x.sum) == 3 * number
            del x


def test_a_full_cache_is_refused():
    layer, x = make(), text(TOKENS)
    with pytest.raises(ValueError, match="The cache is full: make it longer"):
        step(layer, x[:, :1], after(layer, x, length=TOKENS))


def test_each_new_token_of_a_gpt2_is_such_a_step(monkeypatch):
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = build_transformer_model(model="gpt2", max_position=8, with_mlm="linear", **sizes)
    generator, prompt = Generator(model, max_length=3), np.array([[1, 2, 3]])
    steps = []

    def noted(*args):
        steps.append(attend_last(*args))
        return steps[-1]

    monkeypatch.setattr(direct, "attend_last", noted)
    found = generator.predict(prompt, verbose=0)
    assert [step is not None for step in steps] == [False, True, True, True]  # first, the prompt
    monkeypatch.setattr(direct, "attend_last", lambda *args: None)
    np.testing.assert_array_equal(found, generator.predict(prompt, verbose=0))
