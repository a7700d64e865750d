import keras
import numpy as np
import pytest
from keras import ops

from benchmarks.extrapolation.memory import MemoryStates, StackRNNCell, TapeRNNCell

UNITS, CELL, INPUTS = 6, 3, 4


def weights(layer):
    """The weights of a cell, drawn anew, as float64: dict name -> list."""
    rng = np.random.default_rng(1)
    for variable in layer.weights:
        variable.assign(0.6 * rng.normal(size=variable.shape))
    parts = {"core": layer.core, "action": layer.action, "value": layer.value}
    return {
        name: [np.asarray(w, "float64") for w in part.get_weights()] for name, part in parts.items()
    }


def read(w, x, h, memory):
    """The new state and the shares of the actions of one row."""
    kernel, recurrent, bias = w["core"]
    h = np.maximum(np.concatenate([x, memory[0]]) @ kernel + h @ recurrent + bias, 0)
    scores = np.exp(h @ w["action"][0] + w["action"][1])
    return h, scores / scores.sum()


def stack_rnn(w, xs, size):
    h, stack, found = np.zeros(UNITS), [np.zeros(CELL)] * size, []
    for x in xs:
        h, (push, pop, rest) = read(w, x, h, stack)
        value = h @ w["value"][0] + w["value"][1]
        pushed, popped = [value, *stack][:size], [*stack[1:], np.zeros(CELL)]
        stack = [
            push * a + pop * b + rest * c for a, b, c in zip(pushed, popped, stack, strict=True)
        ]
        found.append(h)
    return found


def tape_rnn(w, xs, size, length):
    h, tape, found = np.zeros(UNITS), np.zeros((size, CELL)), []
    for x in xs:
        h, shares = read(w, x, h, tape)
        value = h
        for kernel, bias in zip(w["value"][:-2:2], w["value"][1:-2:2], strict=True):
            value = np.maximum(value @ kernel + bias, 0)
        tape[0] = value @ w["value"][-2] + w["value"][-1]
        # A move to the left brings cell 1 under the head.
        moved = [np.roll(tape, shift, axis=0) for shift in (0, -1, 1, -length, length)]
        tape = sum(share * one for share, one in zip(shares, moved, strict=True))
        found.append(h)
    return found


def inputs(rows=2, steps=7):
    return np.random.default_rng(0).normal(size=(rows, steps, INPUTS))


@pytest.mark.parametrize("size", [2, 5])
def test_stack_against_the_paper(size):
    x, cell = inputs(), StackRNNCell(UNITS, CELL, size)
    layer = keras.layers.RNN(cell, return_sequences=True)
    layer.build(x.shape)
    expected = [stack_rnn(weights(cell), row, size) for row in x]
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.once
def test_tape_against_the_published_moves():
    x, cell, length = inputs(), TapeRNNCell(UNITS, CELL, hidden=(5,)), 3
    layer = keras.layers.RNN(cell, return_sequences=True)
    layer.build(x.shape)
    ids = np.array([[0, 1, 0, 5, 5, 6, 6]] * 2)
    states = MemoryStates(UNITS, CELL, vocabulary_size=5, with_length=True)(ids)
    expected = [tape_rnn(weights(cell), row, 7, length) for row in x]
    found = ops.convert_to_numpy(layer(x, initial_state=states))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    other = [tape_rnn(weights(cell), row, 7, 2) for row in x]
    assert np.abs(np.array(other) - expected).max() > 1e-3


@pytest.mark.once
@pytest.mark.parametrize("kind", [StackRNNCell, TapeRNNCell])
def test_a_model_with_a_memory_of_the_text_s_length_is_saved(kind, tmp_path):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, INPUTS)(ids)
    states = MemoryStates(UNITS, 8, 7, with_length=kind is TapeRNNCell)(ids)
    x = keras.layers.RNN(kind(UNITS), return_sequences=True)(x, initial_state=states)
    model = keras.Model(ids, x)
    assert model.output_shape == (None, None, UNITS)
    model.save(tmp_path / "model.keras")
    tokens = np.array([[1, 2, 3, 7, 7, 8]])
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict_on_batch(tokens), model.predict_on_batch(tokens))


@pytest.mark.once
def test_a_memory_without_cells_is_refused():
    with pytest.raises(ValueError, match="`memory_size` must be a positive integer. Received: 0"):
        StackRNNCell(4, memory_size=0)
