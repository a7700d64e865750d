"""Greedy search against full passes, beam search against all targets there are."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.models.generation import Generator
from keras_posenc.models.seq2seq import build_encoder_decoder

SOURCE = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12]])


def build(vocab_size=13, **changes):
    return build_encoder_decoder(vocab_size, 8, 1, 2, 12, **changes)


def likelihoods(model, source, targets):
    """(B, N): log p of each of N targets, lists of ids from after the start token, by full passes;
    padding, once it is there, costs nothing, and no target holds it before."""
    count, length = targets.shape
    sources = np.repeat(source, count, axis=0)
    inputs = np.tile(np.pad(targets[:, :-1], [(0, 0), (1, 0)], constant_values=1), (len(source), 1))
    logits = ops.convert_to_numpy(model([sources, inputs])).astype("float64")
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.tile(targets, (len(source), 1))[..., None], 2)[..., 0]
    real = np.tile(targets, (len(source), 1)) != 0
    return (picked * real).sum(1).reshape(len(source), count)


@pytest.mark.once
def test_greedy_takes_the_likeliest_token_of_a_full_pass():
    model = build(encodings=["rotary"])
    tokens = np.ones((2, 1), int)
    done = np.zeros(2, bool)
    for _ in range(5):
        logits = np.array(ops.convert_to_numpy(model([SOURCE, tokens]))[:, -1])
        logits[:, 0] = -np.inf
        new = np.where(done, 0, logits.argmax(-1))
        done |= new == 2
        tokens = np.concatenate([tokens, new[:, None]], axis=1)
    written = Generator(model, start_id=1, end_id=2, max_length=5).predict(SOURCE, verbose=0)
    assert written.dtype == "int32"
    np.testing.assert_array_equal(written, tokens[:, 1:])


@pytest.mark.parametrize("alpha", [pytest.param(0.0, marks=pytest.mark.once), 1.0])
def test_a_wide_beam_finds_the_best_of_all_targets(alpha):
    """Of vocabulary 5, with padding 0, start 1 and end 2; 16 beams lose no beginning of two."""
    model = build(vocab_size=5)
    table = model.get_layer("Embedding-Token").embeddings
    table.assign(np.array(table) * 2)
    source = np.array([[3, 4, 0], [4, 4, 3], [3, 3, 3]])
    every = [t for t in itertools.product(range(5), repeat=3) if complete(t)]
    targets = np.array(every)
    rank = likelihoods(model, source, targets) / ((5 + (targets != 0).sum(1)) / 6) ** alpha
    generator = Generator(model, 1, 2, max_length=3, beams=16, alpha=alpha)
    written = generator.predict(source, verbose=0)
    np.testing.assert_array_equal(written, targets[rank.argmax(1)])


def complete(target):
    """Whether padding follows the end and nothing else, and nothing else follows it."""
    end = target.index(2) + 1 if 2 in target else len(target)
    return 0 not in target[:end] and not any(target[end:])


@pytest.mark.once
def test_ended_targets_stay_as_they_are():
    """A model that only knows the end token writes it once, whatever the beams."""
    model = build()
    norm = model.get_layer("Decoder-0-FeedForward-Norm")
    table = np.array(model.get_layer("Embedding-Token").embeddings)
    norm.gamma.assign(np.zeros(8))
    norm.beta.assign(table[2] * 50)
    for beams in (1, 3):
        written = Generator(model, 1, 2, max_length=4, beams=beams).predict(SOURCE, verbose=0)
        np.testing.assert_array_equal(written, [[2, 0, 0, 0]] * 2)


@pytest.mark.once
def test_it_is_saved_with_its_model(tmp_path):
    generator = Generator(build(encodings=["rotary"]), 1, 2, max_length=4, beams=2, alpha=0.5)
    generator.save(tmp_path / "generator.keras")
    again = keras.saving.load_model(tmp_path / "generator.keras")
    assert (again.beams, again.alpha, again.max_length) == (2, 0.5, 4)
    written = [one.predict(SOURCE, verbose=0) for one in (generator, again)]
    np.testing.assert_array_equal(*written)


@pytest.mark.once
def test_what_cannot_be_written_with_is_refused():
    with pytest.raises(ValueError, match="`beams` must be a positive integer. Received: 0"):
        Generator(build(), 1, 2, 4, beams=0)
    with pytest.raises(ValueError, match="`max_length` must be a positive integer"):
        Generator(build(), 1, 2, 1.5)
    with pytest.raises(ValueError, match="no decoder"):
        Generator(keras.Sequential([keras.layers.Dense(1)]), 1, 2, 4)
