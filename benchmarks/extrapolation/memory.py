"""Recurrent cells with a stack or a tape as memory, for `keras.layers.RNN`."""

import keras
from keras import ops

from keras_posenc.arguments import checks


class _MemoryCell(keras.layers.Layer):
    """Base of both cells: a plain recurrent cell that reads the first cell of its memory."""

    actions = None

    def __init__(self, units, cell_size=8, memory_size=40, **kwargs):
        super().__init__(**kwargs)
        self.units = checks.whole("units", units)
        self.cell_size = checks.whole("cell_size", cell_size)
        self.memory_size = checks.whole("memory_size", memory_size)
        self.state_size = [units, (memory_size, cell_size)]
        self.output_size = units
        policy = self.dtype_policy
        self.core = keras.layers.SimpleRNNCell(units, activation="relu", dtype=policy, name="core")
        self.action = keras.layers.Dense(
            self.actions, activation="softmax", dtype=policy, name="action"
        )

    def build(self, input_shape):
        self.core.build((None, input_shape[-1] + self.cell_size))
        self.action.build((None, self.units))
        self.built = True

    def _read(self, inputs, state, memory):
        """The new state, and the share of each action, (B, 1, 1) each."""
        read = ops.concatenate([inputs, memory[:, 0]], axis=-1)
        state = self.core(read, [state])[0]
        shares = self.action(state)
        return state, [shares[:, i, None, None] for i in range(self.actions)]

    def get_initial_state(self, batch_size=None):
        """Zeros of the shapes of the states: (B, units), (B, memory_size, cell_size), ..."""
        shapes = [size if isinstance(size, tuple) else (size,) for size in self.state_size]
        return [ops.zeros((batch_size, *shape), self.compute_dtype) for shape in shapes]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell_size": self.cell_size,
            "memory_size": self.memory_size,
        }


@keras.saving.register_keras_serializable(package="keras_posenc")
class StackRNNCell(_MemoryCell):
    """A recurrent cell with a stack of vectors and soft push, pop and no-op actions.

    Each step computes

        h = relu([x, s_0] W + h U + b),  (a, o, n) = softmax(h A + c),  v = h V + d
        s_0 = a v + o s_1 + n s_0,  s_i = a s_(i-1) + o s_(i+1) + n s_i.

    The weights a, o and n are those of push, pop and no action. Below the last cell of the stack
    there are zeros, and what is pushed beyond it is lost.

    Args:
        units: int. Size of h; 256 in the paper.
        cell_size: int. Size C of a vector of the stack.
        memory_size: int. Number M of vectors, unless the initial state has another: no weight
            depends on it.

    Call arguments:
        inputs: (B, E), the features of one step.
        states: list of h (B, units) and s (B, M, C).

    Returns:
        h (B, units), and the list of the new states.

    Raises:
        ValueError: if a size is not a positive integer.

    Example:

    >>> layer = keras.layers.RNN(StackRNNCell(16), return_sequences=True)
    >>> layer(np.zeros((2, 5, 3))).shape
    (2, 5, 16)

    Reference: [Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets](
    https://arxiv.org/abs/1503.01007). The form is that of [Neural Networks and the Chomsky
    Hierarchy](https://arxiv.org/abs/2207.02098).
    """

    actions = 3

    def __init__(self, units, cell_size=8, memory_size=40, **kwargs):
        super().__init__(units, cell_size, memory_size, **kwargs)
        self.value = keras.layers.Dense(cell_size, dtype=self.dtype_policy, name="value")

    def build(self, input_shape):
        self.value.build((None, self.units))
        super().build(input_shape)

    def call(self, inputs, states):
        state, stack = states
        state, (push, pop, rest) = self._read(inputs, state, stack)
        value = self.value(state)[:, None]
        down = ops.concatenate([value, stack[:, :-1]], axis=1)
        up = ops.concatenate([stack[:, 1:], ops.zeros_like(stack[:, :1])], axis=1)
        return state, [state, push * down + pop * up + rest * stack]


@keras.saving.register_keras_serializable(package="keras_posenc")
class TapeRNNCell(_MemoryCell):
    """A recurrent cell with a tape that it writes and moves softly (Baby-NTM).

    Each step computes

        h = relu([x, m_0] W + h U + b),  p = softmax(h A + c),  m_0 = MLP(h)
        m = p_0 m + p_1 left(m, 1) + p_2 right(m, 1) + p_3 left(m, n) + p_4 right(m, n).

    The head stays at cell 0. The tape, which is a ring, moves by one cell or by n, the length of
    the input. The third state (B, 1) holds n, which is 0 unless an initial state is given: see
    `MemoryStates`.

    Args:
        units: int. Size of h; 256 in the paper.
        cell_size: int. Size C of a cell of the tape.
        memory_size: int. Number M of cells, unless the initial state has another: no weight depends
            on it.
        hidden: sizes of the hidden layers of the MLP.

    Call arguments:
        inputs: (B, E), the features of one step.
        states: list of h (B, units), m (B, M, C) and n (B, 1).

    Returns:
        h (B, units), and the list of the new states.

    Raises:
        ValueError: if a size is not a positive integer.

    Example:

    >>> layer = keras.layers.RNN(TapeRNNCell(16), return_sequences=True)
    >>> layer(np.zeros((2, 5, 3))).shape
    (2, 5, 16)

    Reference: [Neural Networks and the Chomsky Hierarchy](https://arxiv.org/abs/2207.02098).
    """

    actions = 5

    def __init__(self, units, cell_size=8, memory_size=40, hidden=(64, 64), **kwargs):
        super().__init__(units, cell_size, memory_size, **kwargs)
        self.hidden = tuple(hidden)
        self.state_size = [*self.state_size, 1]
        self.value = keras.Sequential(
            [
                *(keras.layers.Dense(size, "relu", dtype=self.dtype_policy) for size in hidden),
                keras.layers.Dense(cell_size, dtype=self.dtype_policy),
            ],
            name="value",
        )

    def build(self, input_shape):
        self.value.build((None, self.units))
        super().build(input_shape)

    def call(self, inputs, states):
        state, tape, length = states
        state, shares = self._read(inputs, state, tape)
        tape = ops.concatenate([self.value(state)[:, None], tape[:, 1:]], axis=1)
        size = ops.shape(tape)[1]
        place = ops.arange(size, dtype="int32")[None]
        length = ops.cast(length, "int32")
        moved = 0
        for share, step in zip(shares, (0, 1, -1, length, -length), strict=True):
            index = ops.mod(place + step, size)[..., None]
            moved = moved + share * ops.take_along_axis(tape, index, axis=1)
        return state, [state, moved, states[2]]

    def get_config(self):
        return {**super().get_config(), "hidden": self.hidden}


@keras.saving.register_keras_serializable(package="keras_posenc")
class MemoryStates(keras.layers.Layer):
    """Initial states for the cells with a memory: a memory as long as the text, and its length.

    Args:
        units, cell_size: int. Sizes of the cell.
        vocabulary_size: int. Token ids from this one on (placeholders, padding) do not count as
            input.
        with_length: bool. Return the third state of `TapeRNNCell` too.

    Call arguments:
        token_ids: (B, T) integers.

    Returns:
        A list: (B, units), (B, T, cell_size), and with `with_length` (B, 1).

    Example:

    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(9, 4)(ids)
    >>> states = MemoryStates(16, 8, vocabulary_size=7, with_length=True)(ids)
    >>> x = keras.layers.RNN(TapeRNNCell(16), return_sequences=True)(x, initial_state=states)
    """

    def __init__(self, units, cell_size, vocabulary_size, with_length=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.cell_size = cell_size
        self.vocabulary_size = vocabulary_size
        self.with_length = with_length
        self.built = True

    def call(self, token_ids):
        batch, length = ops.shape(token_ids)
        states = [
            ops.zeros((batch, self.units), self.compute_dtype),
            ops.zeros((batch, length, self.cell_size), self.compute_dtype),
        ]
        if self.with_length:
            counted = ops.cast(token_ids < self.vocabulary_size, self.compute_dtype)
            states.append(ops.sum(counted, axis=1, keepdims=True))
        return states

    def compute_output_spec(self, token_ids):
        batch, length = token_ids.shape
        shapes = [(batch, self.units), (batch, length, self.cell_size), (batch, 1)]
        shapes = shapes if self.with_length else shapes[:2]
        return [keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell_size": self.cell_size,
            "vocabulary_size": self.vocabulary_size,
            "with_length": self.with_length,
        }
