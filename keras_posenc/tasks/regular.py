"""The four regular tasks: one answer, which a finite automaton can compute."""

import numpy as np

from keras_posenc.tasks.arithmetic import MODULUS, PLUS, evaluate
from keras_posenc.tasks.synthetic_task import Task, all_scored


class Regular(Task):
    level = "regular"
    paper = "https://arxiv.org/abs/2207.02098"


class EvenPairs(Regular):
    """Whether the number of pairs 01 and 10 is even (0) or odd (1): whether the ends are equal.

    Example:

    >>> EvenPairs().solve([[0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1]])[0].tolist()
    [[0], [1]]
    """

    name, vocabulary_size, classes, chance = "even_pairs", 2, 2, 0.5

    def _answer(self, tokens):
        return all_scored(tokens[:, 0] != tokens[:, -1])


class ParityCheck(Regular):
    """The number of ones modulo 2.

    Example:

    >>> ParityCheck().solve([[1, 0, 1, 0, 1, 0, 0]])[0].tolist()
    [[1]]
    """

    name, vocabulary_size, classes, chance = "parity_check", 2, 2, 0.5

    def _answer(self, tokens):
        return all_scored(tokens.sum(1) % 2)


class CycleNavigation(Regular):
    """The position on a cycle of length five after a sequence of moves from position 0.

    In the published code the tokens 0, 1, 2 mean back, stay and forward. In the paper they mean
    stay, forward and back. `variant`: "code" or "paper".

    Example:

    >>> CycleNavigation("paper").solve([[0, 1, 0, 2, 1, 1]])[0].tolist()
    [[2]]
    """

    name, vocabulary_size, classes, chance = "cycle_navigation", 3, 5, 0.2
    variants = ("code", "paper")

    def _answer(self, tokens):
        steps = np.array([-1, 0, 1] if self.variant == "code" else [0, 1, -1])
        return all_scored(steps[tokens].sum(1) % 5)


class ModularArithmetic(Regular):
    """The value modulo 5 of an expression of digits and operators, * before + and -.

    Token ids index the string "01234+-*". The id 8 is a blank that is never drawn and means 0 or +.
    Expressions have an odd length. An even length is reduced by one in the published code, and
    increased in the paper. (The published code multiplies in 32 bits, which overflow at a product
    of sixteen fours; this code does not.) `variant`: "code" or "paper".

    Example:

    >>> ModularArithmetic().solve([[1, 5, 2, 7, 3], [1, 6, 1, 6, 1]])[0].tolist()
    [[2], [4]]
    """

    name, vocabulary_size, classes, chance = "modular_arithmetic", MODULUS + 4, MODULUS, 0.2
    variants = ("code", "paper")

    def input_length(self, length):
        if length % 2:
            return length
        return length - 1 if self.variant == "code" else length + 1

    def _draw(self, rng, batch_size, length):
        tokens = np.empty((batch_size, self.input_length(length)), "int32")
        digits, operators = tokens[:, ::2], tokens[:, 1::2]
        digits[...] = rng.integers(0, MODULUS, digits.shape)
        operators[...] = rng.integers(MODULUS, MODULUS + 3, operators.shape)
        return tokens

    def _answer(self, tokens):
        length = tokens.shape[1]
        if length % 2 == 0:
            raise ValueError(f"{self.name}: {length} tokens; an expression has an odd number.")
        blank = tokens == MODULUS + 3
        fits = (tokens >= MODULUS) == (np.arange(length) % 2 == 1)
        self._require((fits | blank).all(1), "has digits (0 to 4) between operators (5 to 7)")
        filled = np.where(np.arange(length) % 2, PLUS, 0)
        return all_scored(evaluate(np.where(blank, filled, tokens), self.name))
