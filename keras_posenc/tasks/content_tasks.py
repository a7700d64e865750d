"""Flip-flop and selective copy: tasks on content, in which distances do not matter."""

import numpy as np

from keras_posenc.tasks.synthetic_task import Task


class NextToken(Task):
    """A causal task whose targets are the next tokens, some of which are scored.

    The last position has no next token: its target is 0 and is not scored. `split`: one of
    `splits`. `variant`: one of `variants`. `splits`: the first is for training, the others are out
    of distribution.
    """

    causal = True
    splits = {}

    def __init__(self, split="train", variant=None):
        super().__init__(variant)
        if split not in self.splits:
            raise ValueError(
                f"{self.name} has no split {split!r}: give one of {', '.join(self.splits)}."
            )
        self.split = split

    def _next(self, tokens):
        return np.concatenate([tokens[:, 1:], np.zeros((len(tokens), 1), tokens.dtype)], axis=1)


class FlipFlop(NextToken):
    """A one-bit memory: each "read" is followed by the bit of the last "write".

    The instructions are 0 (write), 1 (read) and 2 (ignore). Each is followed by a bit: token 3
    stands for 0, and token 4 for 1. The first instruction is a write and the last a read. Each in
    between is an "ignore" with the probability of the split, else a write or a read with equal
    probability. The paper has 512 tokens.

    `split`: "train" (ignore 0.8), "sparse" (0.98) or "dense" (0.1).

    Example:

    >>> targets, mask = FlipFlop().solve([[0, 4, 2, 3, 1, 4]])  # w 1 i 0 r 1
    >>> targets.tolist(), mask.tolist()
    ([[4, 2, 3, 1, 4, 0]], [[0, 0, 0, 0, 1, 0]])
    """

    name, vocabulary_size, classes, chance = "flip_flop", 5, 5, 0.5
    splits = {"train": 0.8, "sparse": 0.98, "dense": 0.1}
    paper = "https://arxiv.org/abs/2306.00946"

    def _draw(self, rng, batch_size, length):
        if length < 4 or length % 2:
            raise ValueError(
                f"{self.name}: length={length}; it is pairs of an instruction and a bit, at least "
                "two: give an even length from 4 on."
            )
        shape = batch_size, length // 2
        ignore = rng.random(shape) < self.splits[self.split]
        instruction = np.where(ignore, 2, rng.integers(0, 2, shape))
        instruction[:, 0], instruction[:, -1] = 0, 1
        bit = rng.integers(0, 2, shape)
        tokens = np.stack([instruction, 3 + _register(instruction, bit)], axis=2)
        return tokens.reshape(batch_size, length)

    def _answer(self, tokens):
        instruction, bit = tokens[:, ::2], tokens[:, 1::2] - 3
        pairs = tokens.shape[1] % 2 == 0 and ((instruction < 3) & (bit >= 0)).all()
        if not pairs or instruction[:, 0].any():
            raise ValueError(
                f"{self.name}: tokens are pairs of an instruction (0 to 2) and a bit (3 or 4), of "
                "which the first is a write (0)."
            )
        true = (_register(instruction, bit) == bit).all(1)
        self._require(true, "reads (1) the bit of the last write (0)")
        return self._next(tokens), tokens == 1


def _register(instruction, bit):
    """Replaces the bits after a read by the bit of the last write."""
    place = np.arange(bit.shape[1])
    written = np.maximum.accumulate(np.where(instruction == 0, place, 0), axis=1)
    return np.take_along_axis(bit, np.where(instruction == 1, written, place), axis=1)


class SelectiveCopy(NextToken):
    """Copies the tokens without the blanks between them.

    The ids 0 to 15 are tokens, 16 is a blank and 17 ends the text; then the copy follows. The
    length is the number of tokens to copy, 128 in the paper. The split determines the number of
    blanks, which are at uniformly random positions.

    (The numbers of tokens and blanks are the paper's. The end mark, the 16 tokens and the layout
    are our choice, because no code was published.) `split`: "train" (as many blanks as tokens),
    "dense" (half) or "sparse" (twice).

    Example:

    >>> targets, mask = SelectiveCopy().solve([[7, 16, 16, 3, 17, 7, 3]])
    >>> targets.tolist(), mask.tolist()
    ([[16, 16, 3, 17, 7, 3, 0]], [[0, 0, 0, 0, 1, 1, 0]])
    """

    name, vocabulary_size, classes, chance = "selective_copy", 18, 18, 1 / 16
    splits = {"train": 1.0, "dense": 0.5, "sparse": 2.0}
    paper = "https://arxiv.org/abs/2405.18719"
    blank, end = 16, 17

    def input_length(self, length):
        return 2 * length + round(self.splits[self.split] * length) + 1

    def _draw(self, rng, batch_size, length):
        copied = rng.integers(0, self.blank, (batch_size, length))
        text = np.full((batch_size, self.input_length(length) - length - 1), self.blank)
        places = np.argsort(rng.random(text.shape), axis=1)[:, :length]
        np.put_along_axis(text, np.sort(places, axis=1), copied, axis=1)
        return np.concatenate([text, np.full((batch_size, 1), self.end), copied], axis=1)

    def _answer(self, tokens):
        rows, length = tokens.shape
        place = np.arange(length)
        middle = (tokens == self.end).argmax(1)[:, None]
        copied = (tokens < self.blank) & (place < middle)
        copy = place > middle
        shape_fits = ((tokens == self.end).sum(1) == 1) & (copied.sum(1) == copy.sum(1))
        rule = "is tokens and blanks (0 to 16), one end (17), and the tokens again"
        self._require(shape_fits, rule)
        same = np.zeros(tokens.shape, bool)
        same[copy] = tokens[copy] == tokens[copied]
        self._require((same == copy).all(1), rule)
        scored = (place >= middle) & (place < length - 1)
        return self._next(tokens), scored
