"""Position ids made of the tokens: of digits in numbers, and of tokens in segments."""

from collections.abc import Iterable, Sequence

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured


class _DigitPositionIds(Configured, keras.layers.Layer):
    """Ids of digits by their place in a number, shifted by a random offset in training."""

    def __init__(
        self, digit_token_ids: Sequence[int], max_offset: int = 0, seed: int | None = None, **kwargs
    ):
        kwargs["dtype"] = "int32"
        super().__init__(**kwargs)
        self.digit_token_ids = _token_ids("digit_token_ids", digit_token_ids)
        self.max_offset = checks.whole("max_offset", max_offset, least=0)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.input_spec = keras.layers.InputSpec(ndim=2)
        self.built = True

    def _offset(self, token_ids, training):
        """One per sequence, (B, 1): uniform in 0 .. max_offset in training, 0 otherwise."""
        shape = ops.shape(token_ids)[0], 1
        if not (training and self.max_offset):
            return ops.zeros(shape, "int32")
        drawn = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        drawn = ops.cast(ops.floor(drawn * (self.max_offset + 1)), "int32")
        return ops.minimum(drawn, self.max_offset)

    def compute_output_shape(self, token_ids_shape):
        return token_ids_shape


@keras.saving.register_keras_serializable(package="keras_posenc")
class AbacusPositionIds(_DigitPositionIds):
    """Abacus: the id of a digit is its place in its number, and that of all else is 0.

    The first digit of a number has the id 1 + offset, the next 2 + offset, and so on. Numbers must
    be written with the least significant digit first; then digits of the same significance have
    the same id in all numbers. The ids are for a learned table that is added to the token
    embeddings. In training the offset is random, so that the ids of longer numbers are trained.

    Args:
        digit_token_ids: list of int. The ids of the digit tokens.
        max_offset: int. In training, each sequence has an offset in 0 .. max_offset.
        seed: int or None.

    Call arguments:
        token_ids: (B, T) integers.
        training: bool. Set by Keras.

    Returns:
        (B, T) int32.

    Example:

    >>> text = "21+9=03"  # 12 + 9 = 30, reversed
    >>> tokens = np.array([[int(c) if c.isdigit() else 10 for c in text]])
    >>> ids = AbacusPositionIds(digit_token_ids=range(10), max_offset=50)
    >>> ops.convert_to_numpy(ids(tokens)).tolist()
    [[1, 2, 0, 1, 0, 1, 2]]
    >>> x = keras.layers.Embedding(11, 32)(tokens)
    >>> x = LearnedPositionEmbedding(100, 32)(x, ids(tokens))

    Reference: [Transformers Can Do Arithmetic with the Right
    Embeddings](https://arxiv.org/abs/2405.17399).
    """

    def call(self, token_ids, training=None):
        digits = _is_one_of(token_ids, self.digit_token_ids)
        before, _ = _others_around(digits)
        place = _index(digits) - before
        return ops.where(digits, place + self._offset(token_ids, training), 0)


@keras.saving.register_keras_serializable(package="keras_posenc")
class CoupledPositionIds(_DigitPositionIds):
    """Position coupling: tokens that belong together have the same id.

    A digit that counts 10^s has the id s + 1 + offset, in the operands and in the answer. All other
    tokens, such as "+" and "=", have the id of the offset. The operands are written as usual, and
    the answer with the least significant digit first, as a causal model computes it: "653+49=207".
    The ids are for a learned table that is added to the token embeddings, in place of positions. In
    training the offset is random, so that the ids of longer numbers are trained.

    The paper counts downwards from "=" instead of upwards, which is another order of the same rows
    of the table.

    It is called as `AbacusPositionIds`, (B, T) -> (B, T) int32.

    Args:
        digit_token_ids: list of int. The ids of the digit tokens.
        answer_token_id: int. The token before the answer, such as that of "=".
        max_offset: int. In training, each sequence has an offset in 0 .. max_offset.
        seed: int or None.

    Example:

    >>> tokens = np.array([["0123456789+=".index(c) for c in "653+49=207"]])  # 702, reversed
    >>> ids = CoupledPositionIds(digit_token_ids=range(10), answer_token_id=11, max_offset=50)
    >>> ops.convert_to_numpy(ids(tokens)).tolist()
    [[3, 2, 1, 0, 2, 1, 0, 1, 2, 3]]

    Reference: [Position Coupling: Improving Length Generalization of Arithmetic Transformers Using
    Task Structure](https://arxiv.org/abs/2405.20671).
    """

    def __init__(
        self,
        digit_token_ids: Sequence[int],
        answer_token_id: int,
        max_offset: int = 0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(digit_token_ids, max_offset, seed, **kwargs)
        self.answer_token_id = checks.whole("answer_token_id", answer_token_id, least=0)
        if self.answer_token_id in self.digit_token_ids:
            raise ValueError(
                "`answer_token_id` must be the token between the operands and the answer, which is "
                f"no digit. Received: {answer_token_id}"
            )

    def call(self, token_ids, training=None):
        digits = _is_one_of(token_ids, self.digit_token_ids)
        before, after = _others_around(digits)
        index = _index(digits)
        is_answer = ops.cumsum(ops.cast(token_ids == self.answer_token_id, "int32"), axis=1) > 0
        place = ops.where(is_answer, index - before, after - index)
        return ops.where(digits, place, 0) + self._offset(token_ids, training)


@keras.saving.register_keras_serializable(package="keras_posenc")
class SegmentPositionIds(Configured, keras.layers.Layer):
    """BiPE, bilevel positions: the place of a token in its segment, and the index of the segment.

    A segment, such as a sentence, ends with a separator token. The first ids are for an absolute
    embedding, learned or sinusoidal, which then never counts beyond the longest segment. The second
    ids are the positions of attention with `rotary` or `alibi`: longer texts have more segments,
    which the relative encoding extrapolates to.

    Args:
        separator_token_ids: list of int. The tokens that end a segment, such as "." and a new line.
        max_position: int or None. Number of rows of a learned table: later tokens of a segment have
            its last row.
        pad_token_id: int or None. Padding counts neither as a token nor as a segment.

    Call arguments:
        token_ids: (B, T) integers.

    Returns:
        Two tensors (B, T) int32: places within segments, and indices of segments.

    Example:

    >>> tokens = np.array([[5, 6, 9, 7, 9, 8, 6]])  # 9 is the full stop
    >>> places, segments = SegmentPositionIds(separator_token_ids=[9])(tokens)
    >>> ops.convert_to_numpy(places).tolist(), ops.convert_to_numpy(segments).tolist()
    ([[0, 1, 2, 0, 1, 0, 1]], [[0, 0, 0, 1, 1, 2, 2]])
    >>> x = keras.layers.Embedding(10, 32)(tokens)
    >>> x = SinusoidalPositionEmbedding(32)(x, places)
    >>> attention = PositionalAttention(num_heads=2, key_dim=16, encodings=["rotary"])
    >>> x = attention(x, x, query_positions=segments, use_causal_mask=True)

    Reference: [Two Stones Hit One Bird: Bilevel Positional Encoding for Better Length
    Extrapolation](https://arxiv.org/abs/2401.16421).
    """

    def __init__(
        self,
        separator_token_ids: Sequence[int],
        max_position: int | None = None,
        pad_token_id: int | None = None,
        **kwargs,
    ):
        kwargs["dtype"] = "int32"
        super().__init__(**kwargs)
        self.separator_token_ids = _token_ids("separator_token_ids", separator_token_ids)
        if max_position is not None:
            max_position = checks.whole("max_position", max_position)
        if pad_token_id in self.separator_token_ids:
            raise ValueError(
                "`pad_token_id` must be another token than those that end a segment. Received: "
                f"{pad_token_id}"
            )
        self.max_position = max_position
        self.pad_token_id = pad_token_id
        self.input_spec = keras.layers.InputSpec(ndim=2)
        self.built = True

    def call(self, token_ids):
        ends = _is_one_of(token_ids, self.separator_token_ids)
        index = _index(ends)
        if self.pad_token_id is not None:
            real = ops.cast(token_ids != self.pad_token_id, "int32")
            index = ops.cumsum(real, axis=1) - 1
        ended = ops.cast(ends, "int32")
        segments = ops.cumsum(ended, axis=1) - ended  # a separator belongs to what it ends
        places = ops.maximum(index - _taken(_sorted(index, ends), segments) - 1, 0)
        if self.max_position is not None:
            places = ops.minimum(places, self.max_position - 1)
        return places, segments

    def compute_output_shape(self, token_ids_shape):
        return token_ids_shape, token_ids_shape


def _token_ids(name, token_ids):
    """A tuple of token ids, at least one of them."""
    checks.instance(name, token_ids, Iterable, "a list of token ids")
    found = tuple(checks.whole(name, token, least=0) for token in token_ids)
    if not found:
        raise ValueError(f"`{name}` must have at least one token id. Received: {token_ids!r}")
    return found


def _is_one_of(token_ids, known):
    """(B, T) bool: whether a token is one of the known ones."""
    known = ops.convert_to_tensor(known, "int32")
    return ops.any(ops.expand_dims(ops.cast(token_ids, "int32"), -1) == known, axis=-1)


def _index(x):
    """0 .. T - 1 for each row of x (B, T)."""
    return ops.cumsum(ops.ones_like(x, "int32"), axis=1) - 1


def _others_around(digits):
    """The indices of the tokens before and after each one that are no digits, -1 and T at the ends.

    Before includes the token itself, after does not.
    """
    others = ops.logical_not(digits)
    places = _sorted(_index(digits), others)
    count = ops.cumsum(ops.cast(others, "int32"), axis=1)
    length = ops.shape(digits)[1]
    # Without digits there are no more others than T, and no digit asks for the one after them.
    after = _taken(places, ops.minimum(count + 1, length))
    return _taken(places, count), ops.minimum(after, length)


def _sorted(index, marked):
    """-1, the indices of the marked tokens in order, then numbers of at least T: (B, T + 1)."""
    length = ops.shape(index)[1]
    places = ops.sort(ops.where(marked, index, length + _index(marked)), axis=1)
    return ops.pad(places, [(0, 0), (1, 0)], constant_values=-1)


def _taken(places, count):
    """The `count`-th of the places, -1 for 0."""
    return ops.take_along_axis(places, count, axis=1)


@keras.saving.register_keras_serializable(package="keras_posenc")
class PaddedPositionIds(Configured, keras.layers.Layer):
    """Position ids that skip padding, so that padding on either side shifts no token.

    id[t] = (number of tokens up to and including t that are not padding) - 1, and 0 on leading
    padding. This is RoBERTa's numbering without its constant offset.

    Args:
        pad_token_id: int. The id of the padding token.

    Call arguments:
        token_ids: (B, T) integers.

    Returns:
        (B, T) int32.

    Example:

    >>> ids = PaddedPositionIds(pad_token_id=1)(np.array([[1, 1, 7, 8, 9]]))
    >>> ops.convert_to_numpy(ids).tolist()
    [[0, 0, 0, 1, 2]]

    Reference: [RoBERTa](https://arxiv.org/abs/1907.11692), as numbered by fairseq.
    """

    def __init__(self, pad_token_id: int = 0, **kwargs):
        kwargs["dtype"] = "int32"
        super().__init__(**kwargs)
        self.pad_token_id = pad_token_id
        self.built = True

    def call(self, token_ids):
        real = ops.cast(ops.not_equal(token_ids, self.pad_token_id), "int32")
        return ops.maximum(ops.cumsum(real, axis=-1) - 1, 0)

    def compute_output_shape(self, token_ids_shape):
        return token_ids_shape
