"""The seven context-sensitive tasks, which need a tape."""

import math

import numpy as np

from keras_posenc.tasks.synthetic_task import Task, all_scored


class ContextSensitive(Task):
    level = "context_sensitive"
    paper = "https://arxiv.org/abs/2207.02098"


class DuplicateString(ContextSensitive):
    """The tokens twice.

    Example:

    >>> DuplicateString().solve([[1, 0, 1]])[0].tolist()
    [[1, 0, 1, 1, 0, 1]]
    """

    name, vocabulary_size, classes, chance = "duplicate_string", 2, 2, 0.5

    def output_length(self, tokens_length):
        return 2 * tokens_length

    def _answer(self, tokens):
        return all_scored(np.tile(tokens, 2))


class MissingDuplicateString(ContextSensitive):
    """The bit that a 2 replaces, in a string of bits that is written twice.

    A sample of odd length ends in a 3. The only sample of length 1 is a 1, with the answer 1.

    Example:

    >>> MissingDuplicateString().solve([[0, 1, 1, 0, 0, 2, 1, 0]])[0].tolist()
    [[1]]
    >>> MissingDuplicateString().solve([[1, 0, 1, 1, 2, 1, 3]])[0].tolist()
    [[0]]
    """

    name, vocabulary_size, classes, chance = "missing_duplicate_string", 4, 2, 0.5

    def _draw(self, rng, batch_size, length):
        half = length // 2
        tokens = np.full((batch_size, length), 3, "int32")
        if length == 1:
            tokens[:] = 1
            return tokens
        tokens[:, :half] = rng.integers(0, 2, (batch_size, half))
        tokens[:, half : 2 * half] = tokens[:, :half]
        tokens[np.arange(batch_size), rng.integers(0, 2 * half, batch_size)] = 2
        return tokens

    def _answer(self, tokens):
        rows, length = tokens.shape
        if length == 1:
            self._require((tokens == 1).all(1), "of one token is a 1")
            return all_scored(np.ones(rows, int))
        half = length // 2
        first, second, end = np.split(tokens, [half, 2 * half], axis=1)
        missing = (first == 2) | (second == 2)
        same = ((first == second) | missing).all(1) & (end == 3).all(1)
        once = (tokens == 2).sum(1) == 1
        self._require(
            same & once & (tokens[:, : 2 * half] < 3).all(1),
            "holds the same bits twice, one of them replaced by 2, and then, if its length is odd, "
            "a 3",
        )
        # Of a pair with a 2 the other is smaller.
        return all_scored(np.minimum(first, second)[missing])


class OddsFirst(ContextSensitive):
    """The tokens at even positions (t2 t4 ...), then those at odd ones, as in the published code.

    In the paper, as in the name, the odd positions t1 t3 t5 ... come first. `variant`: "code" or
    "paper".

    Example:

    >>> OddsFirst("paper").solve([[0, 0, 0, 1, 0, 0]])[0].tolist()
    [[0, 0, 0, 0, 1, 0]]
    >>> OddsFirst().solve([[0, 0, 0, 1, 0, 0]])[0].tolist()
    [[0, 1, 0, 0, 0, 0]]
    """

    name, vocabulary_size, classes, chance = "odds_first", 2, 2, 0.5
    variants = ("code", "paper")

    def output_length(self, tokens_length):
        return tokens_length

    def _answer(self, tokens):
        odd, even = tokens[:, ::2], tokens[:, 1::2]
        parts = [even, odd] if self.variant == "code" else [odd, even]
        return all_scored(np.concatenate(parts, axis=1))


class BinaryOperation(ContextSensitive):
    """Two binary numbers, lowest bit first, separated by a 2.

    The number of bits of the first is uniform in 1 .. length - 2, and neither number is 0. The
    answer is the result, lowest bit first, then 2, then zeros; it is scored up to the 2.
    """

    vocabulary_size, classes, chance = 3, 3, 0.5

    def _draw(self, rng, batch_size, length):
        if length < 3:
            # All but the highest number of so many bits.
            return to_bits(rng.integers(0, 2**length - 1, batch_size).tolist(), length)
        middle = rng.integers(1, length - 1, (batch_size, 1))
        place = np.arange(length)
        tokens = np.where(place == middle, 2, 0)
        tokens = draw_positive(rng, tokens, place < middle)
        return draw_positive(rng, tokens, place > middle)

    def _answer(self, tokens):
        rows, length = tokens.shape
        sign, place = tokens == 2, np.arange(length)
        if length < 3:
            self._require(~sign.any(1), "of fewer than 3 tokens has only bits")
            numbers = self._alone(tokens)
        else:
            self._require(
                (sign.sum(1) == 1) & ~sign[:, 0] & ~sign[:, -1],
                "is two binary numbers with one 2 between them",
            )
            middle = sign.argmax(1)[:, None]
            first = to_numbers(np.where(place < middle, tokens, 0))
            second = to_numbers(np.where(place > middle, tokens, 0))
            shifts = (middle[:, 0] + 1).tolist()
            pairs = zip(first, second, shifts, strict=True)
            numbers = [self._combine(n, m >> shift) for n, m, shift in pairs]
        width = self.output_length(length)
        end = np.array([max(n.bit_length(), 1) for n in numbers])[:, None]
        # The one token of a product of length 1 is the 2.
        end = np.minimum(end, width - 1)
        place = np.arange(width)
        return np.where(place == end, 2, to_bits(numbers, width)), place <= end


class BinaryAddition(BinaryOperation):
    """The sum of two binary numbers, lowest bit first.

    One or two tokens are a single number, which is the answer.

    Example:

    >>> BinaryAddition().solve([[0, 0, 1, 2, 0, 1, 1, 0, 1]])[0].tolist()  # 4 + 22 = 26
    [[0, 1, 0, 1, 1, 2, 0, 0, 0, 0]]
    """

    name = "binary_addition"

    def output_length(self, tokens_length):
        return tokens_length + 1

    def _alone(self, tokens):
        return to_numbers(tokens)

    def _combine(self, first, second):
        return first + second


class BinaryMultiplication(BinaryOperation):
    """The product of two binary numbers, lowest bit first.

    For one token the answer is 2, for two it is 0 2, as in the paper.

    Example:

    >>> BinaryMultiplication().solve([[0, 0, 1, 2, 0, 1, 1, 0, 1]])[0].tolist()  # 4 * 22 = 88
    [[0, 0, 0, 1, 1, 0, 1, 2, 0]]
    """

    name = "binary_multiplication"

    def output_length(self, tokens_length):
        return tokens_length

    def _alone(self, tokens):
        return [0] * len(tokens)

    def _combine(self, first, second):
        return first * second


class ComputeSqrt(ContextSensitive):
    """The integer part of the square root of a positive binary number.

    The number and the answer, which has half as many bits (rounded up), start with the highest bit
    in the published code, and with the lowest bit in the paper. `variant`: "code" or "paper".

    Example:

    >>> ComputeSqrt().solve([[1, 0, 0, 1, 0, 1]])[0].tolist()  # 37 -> 6
    [[1, 1, 0]]
    """

    name, vocabulary_size, classes, chance = "compute_sqrt", 2, 2, 0.5
    variants = ("code", "paper")

    def output_length(self, tokens_length):
        return -(-tokens_length // 2)

    def _draw(self, rng, batch_size, length):
        shape = batch_size, length
        return draw_positive(rng, np.zeros(shape, int), np.ones(shape, bool))

    def _answer(self, tokens):
        order = slice(None, None, -1 if self.variant == "code" else 1)
        roots = [math.isqrt(number) for number in to_numbers(tokens[:, order])]
        return all_scored(to_bits(roots, self.output_length(tokens.shape[1]))[:, order])


class BucketSort(ContextSensitive):
    """The tokens 0 to 4 in increasing order.

    Example:

    >>> BucketSort().solve([[4, 2, 1, 3, 0, 2, 2, 1, 4]])[0].tolist()
    [[0, 1, 1, 2, 2, 2, 3, 4, 4]]
    """

    name, vocabulary_size, classes, chance = "bucket_sort", 5, 5, 0.2

    def output_length(self, tokens_length):
        return tokens_length

    def _answer(self, tokens):
        return all_scored(np.sort(tokens, axis=1))


def to_numbers(bits):
    """Converts rows of bits (B, L) to a list of B integers."""
    packed = np.packbits(bits.astype(bool), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def to_bits(numbers, width):
    """Converts integers to rows of bits (B, width)."""
    count = -(-width // 8)
    data = b"".join(number.to_bytes(count, "little") for number in numbers)
    packed = np.frombuffer(data, "uint8").reshape(len(numbers), count)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :width].astype("int32")


def draw_positive(rng, bits, part):
    """Redraws the bits in `part`, (B, L) bool, of each row until they are not all 0.

    The positive numbers are then uniformly distributed.
    """
    zero = np.arange(len(bits))
    while zero.size:
        shape = zero.size, bits.shape[1]
        bits[zero] = np.where(part[zero], rng.integers(0, 2, shape), bits[zero])
        zero = zero[~(bits[zero] * part[zero]).any(1)]
    return bits
