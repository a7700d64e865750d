"""The models that a benchmark compares, all built by one function."""

import functools

import keras
import numpy as np

from benchmarks.extrapolation.memory import MemoryStates, StackRNNCell, TapeRNNCell
from benchmarks.extrapolation.settings import ORDERED, encodings_of, lengths_of, positions_of
from benchmarks.extrapolation.task_batches import places_of, width
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.attention.shared_table import SharedTable
from keras_posenc.layers.block import Block, block_parts
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.token_embedding import TokenEmbedding
from keras_posenc.positions import RandomPositionIds
from keras_posenc.positions.learned import LearnedPositionEmbedding
from keras_posenc.positions.position_range import check_length
from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding

CELL_SIZE = 8


def build_model(task, settings, model="transformer", encodings="none", positions="consecutive"):
    """Builds a functional model from token ids (B, T) to logits (B, T, classes).

    The transformer is that of the published benchmarks. A block has attention without biases and a
    feed-forward layer of 4 x `size` units with ReLU. Each is followed by a residual sum and a layer
    norm. Dropout follows both and the absolute positions. A "gau" has two gated attention units in
    place of each block. The recurrent models read one-hot tokens; their memories are as long as the
    text. A "cnn" reads these too, with causal convolutions over three places.

    Args:
        task: a `Task`.
        settings: `Settings`.
        model: "transformer", "gau", "rnn", "lstm", "stack_rnn", "tape_rnn" or "cnn".
        encodings: names joined by +, such as "rotary+log_n", "learned", "none".
        positions: "consecutive" or a method of `RandomPositionIds`.

    Returns:
        A `keras.Model`, not compiled.

    Raises:
        ValueError: on an unknown encoding or kind of positions.

    Example:

    >>> task = tasks.get("flip_flop")
    >>> build_model(task, Settings(steps=1), encodings="alibi").output_shape
    (None, None, 5)
    """
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    make = _ordered if model in ORDERED else _attending
    x = make(ids, task, settings, model, encodings, positions)
    return keras.Model(ids, keras.layers.Dense(task.classes, name="answer")(x))


def check_room(task, settings, encodings, positions):
    """Checks before any training that ids and learned tables reach the longest texts.

    Raises:
        ValueError: if they do not, with the length.
    """
    learned = "learned" in (name for name, _ in encodings_of(encodings, task.causal, 1)[0])
    random_ids = _random_ids(task, settings, positions)
    for lengths, training in zip(lengths_of(task, settings), (True, False), strict=True):
        places = width(places_of(task, max(lengths)))
        try:
            if random_ids is not None:
                random_ids.call(np.zeros((1, places), "int32"), training=training)
            elif learned:
                check_length(0, places, settings.max_position, "Raise `max_position`.")
        except ValueError as error:
            raise ValueError(
                f"{task.name} at length {max(lengths)}: {places} places with padding. {error}"
            ) from None


def _random_ids(task, settings, positions):
    """`RandomPositionIds` from their notation, or None for consecutive ids."""
    longest = width(places_of(task, max(lengths_of(task, settings)[0])))
    drawn = positions_of(positions, settings.max_position, longest)
    if drawn is None:
        return None
    return RandomPositionIds(pad_token_id=task.input_size, **drawn, name="positions")


def _attending(ids, task, settings, model, encodings, positions):
    causal = task.causal and not task.bidirectional
    longest = places_of(task, max(lengths_of(task, settings)[0]))
    absolute, specs = encodings_of(encodings, causal, longest)
    random_ids = _random_ids(task, settings, positions)
    places = None if random_ids is None else random_ids(ids)
    x = TokenEmbedding(
        task.input_size + 1,
        settings.size,
        pad_token_id=task.input_size,
        embeddings_initializer=keras.initializers.TruncatedNormal(0.02 * settings.size**0.5),
        name="tokens",
    )(ids)
    for name, arguments in absolute:
        if name == "learned":
            table = LearnedPositionEmbedding(settings.max_position, settings.size, **arguments)
        else:
            table = SinusoidalPositionEmbedding(settings.size, **arguments)
        x = keras.layers.Dropout(settings.dropout)(table(x, places))
    size = settings.size // settings.heads
    shared = [spec for spec in specs if spec.get("shared")]
    tables = [SharedTable(spec, settings.heads, size)(x) for spec in shared]
    for number in range(settings.layers):
        if model == "gau":
            x = _gated(x, specs, places, causal, settings, number)
        else:
            x = _block(x, specs, places, tables, causal, settings, number)
    return x


def _block(x, specs, places, tables, causal, settings, number):
    def attention(name):
        size = settings.size // settings.heads
        return PositionalAttention(settings.heads, size, encodings=specs, use_bias=False, name=name)

    def attend(layer, x):
        return layer(x, x, query_positions=places, use_causal_mask=causal, tables=tables or None)

    feed_forward = functools.partial(FeedForward, 4 * settings.size)
    sublayers = {"attention": attention, "feed_forward": feed_forward}
    block = _of(sublayers, settings, number)
    return block.add(block.add(x, "attention", attend), "feed_forward")


def _gated(x, specs, places, causal, settings, number):
    unit = functools.partial(
        GatedAttentionUnit,
        2 * settings.size,
        key_size=settings.size,
        encodings=specs,
        use_bias=False,
    )

    def attend(layer, x):
        return layer(x, positions=places, use_causal_mask=causal)

    block = _of({"unit_a": unit, "unit_b": unit}, settings, number)
    return block.add(block.add(x, "unit_a", attend), "unit_b", attend)


def _of(sublayers, settings, number):
    """A block of these sublayers."""
    norm = functools.partial(keras.layers.LayerNormalization, epsilon=1e-5)
    parts = block_parts(sublayers, norm, dropout=settings.dropout)
    return Block(f"block_{number}", {}, parts)


def _ordered(ids, task, settings, model, encodings, positions):
    units, size = 4 * settings.size, task.input_size + 1
    # A frozen identity makes the tokens one-hot.
    one_hot = keras.layers.Embedding(
        size, size, embeddings_initializer="identity", trainable=False, name="one_hot"
    )
    if model == "cnn":
        x = one_hot(ids)
        for _ in range(settings.layers):
            x = keras.layers.Conv1D(units, 3, padding="causal", activation="relu")(x)
        return x
    states = None
    if model == "lstm":
        layer = keras.layers.LSTM(units, return_sequences=True)
    elif model == "rnn":
        layer = keras.layers.SimpleRNN(units, activation="relu", return_sequences=True)
    else:
        cell = {"stack_rnn": StackRNNCell, "tape_rnn": TapeRNNCell}[model](units, CELL_SIZE)
        layer = keras.layers.RNN(cell, return_sequences=True)
        with_length = model == "tape_rnn"
        states = MemoryStates(units, CELL_SIZE, task.vocabulary_size, with_length)(ids)
    x = layer(one_hot(ids), initial_state=states)
    return keras.layers.ReLU()(x)
