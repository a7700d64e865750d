"""The four deterministic context-free tasks, which need a stack."""

import numpy as np

from keras_posenc.tasks.arithmetic import (
    CLOSE,
    MINUS,
    MODULUS,
    OPEN,
    PLUS,
    draw_expressions,
    evaluate,
)
from keras_posenc.tasks.synthetic_task import Task, all_scored


class ContextFree(Task):
    level = "context_free"
    paper = "https://arxiv.org/abs/2207.02098"


class ReverseString(ContextFree):
    """The tokens in reverse order.

    Example:

    >>> ReverseString().solve([[0, 1, 1, 0, 1, 0]])[0].tolist()
    [[0, 1, 0, 1, 1, 0]]
    """

    name, vocabulary_size, classes, chance = "reverse_string", 2, 2, 0.5

    def output_length(self, tokens_length):
        return tokens_length

    def _answer(self, tokens):
        return all_scored(tokens[:, ::-1])


class StackManipulation(ContextFree):
    """The contents of a stack after a sequence of actions.

    The bits 0 and 1 are the stack from its bottom, and the actions follow. Token 2 pops (nothing
    from an empty stack). Tokens 3 and 4 push 0 and 1. The answer is the stack from its top, then 2,
    then zeros; it is scored up to the 2. The number of bits is uniform from 1 to length - 1.

    Example:

    >>> targets, mask = StackManipulation().solve([[0, 1, 1, 0, 4, 2, 2]])
    >>> targets.tolist(), mask.tolist()
    ([[1, 1, 0, 2, 0, 0, 0, 0]], [[1, 1, 1, 1, 0, 0, 0, 0]])
    """

    name, vocabulary_size, classes, chance = "stack_manipulation", 5, 3, 0.5

    def output_length(self, tokens_length):
        return tokens_length + 1

    def _draw(self, rng, batch_size, length):
        bits = rng.integers(1, max(length, 2), (batch_size, 1))
        shape = batch_size, length
        actions = rng.integers(2, 5, shape)
        return np.where(np.arange(length) < bits, rng.integers(0, 2, shape), actions)

    def _answer(self, tokens):
        rows, length = tokens.shape
        action = tokens >= 2
        ordered = ~action[:, 0] & (action[:, 1:] >= action[:, :-1]).all(1)
        self._require(ordered, "is bits (0, 1), at least one, then actions (2, 3, 4)")
        # A bit is pushed, too. Pops from the empty stack lift the walk back to 0.
        walk = np.cumsum(np.where(tokens == 2, -1, 1), axis=1)
        height = walk - np.minimum(np.minimum.accumulate(walk, axis=1), 0)
        # What the last push to a height put there is what stays.
        row, column = np.nonzero(tokens != 2)
        latest = np.zeros(rows * (length + 1), int)
        np.maximum.at(latest, row * (length + 1) + height[row, column], column)
        content = np.isin(np.take_along_axis(tokens, latest.reshape(rows, -1), 1), (1, 4))
        final = height[:, -1:]
        place = np.arange(length + 1)
        targets = np.take_along_axis(content, np.maximum(final - place, 0), 1) & (place < final)
        return np.where(place == final, 2, targets), place <= final


class ModularArithmeticBrackets(ContextFree):
    """The value modulo 5 of an expression with brackets.

    Token ids index the string "01234+-*()", and 10 is never used. Samples follow the published
    grammar (d, -d, (d), (-d), (E operator E)). `solve` accepts any expression, with * before + and
    -. A third of the values are 0, because of the products: always answering 0 is right more often
    than `chance`.

    Example:

    >>> -(1 - 2) * (4 - 3 * (-2)) % 5
    0
    >>> tokens = [[6, 8, 1, 6, 2, 9, 7, 8, 4, 6, 3, 7, 8, 6, 2, 9, 9]]
    >>> ModularArithmeticBrackets().solve(tokens)[0].tolist()
    [[0]]
    """

    name = "modular_arithmetic_brackets"
    vocabulary_size, classes, chance = MODULUS + 6, MODULUS, 0.2

    def _draw(self, rng, batch_size, length):
        return draw_expressions(rng, batch_size, length, operators=3)

    def _answer(self, tokens):
        self._require((tokens <= CLOSE).all(1), f"has the ids 0 to {CLOSE}: {CLOSE + 1} is unused")
        return all_scored(evaluate(tokens, self.name))


class SolveEquation(ContextFree):
    """The x modulo 5 that solves an equation.

    Token ids index the string "01234+-()x=". The equation is an expression of length - 2 tokens
    without *, in which x replaces one digit, then = and the value. Below 3 tokens there is no
    equation, only zeros with the answer 0.

    Example:

    >>> SolveEquation().solve([[7, 9, 6, 3, 8, 10, 1]])[0].tolist()  # (x - 3) = 1
    [[4]]
    """

    name, vocabulary_size, classes, chance = "solve_equation", MODULUS + 6, MODULUS, 0.2
    unknown, equals = MODULUS + 4, MODULUS + 5
    # From the ids of the grammar, which has a *, and back.
    from_grammar = np.array([*range(MODULUS), 5, 6, -1, 7, 8])
    to_grammar = np.array([*range(MODULUS), PLUS, MINUS, OPEN, CLOSE])

    def _draw(self, rng, batch_size, length):
        if length < 3:
            return np.zeros((batch_size, length), "int32")
        expressions = draw_expressions(rng, batch_size, length - 2, operators=2)
        values = evaluate(expressions, self.name)
        # As in the published code: the first digit from a uniform position on, cyclically.
        digit = expressions < MODULUS
        turn = (np.arange(length - 2) - rng.integers(0, length - 2, (batch_size, 1))) % (length - 2)
        chosen = np.where(digit, turn, length).argmin(1)
        tokens = np.empty((batch_size, length), "int32")
        tokens[:, :-2] = self.from_grammar[expressions]
        tokens[np.arange(batch_size), chosen] = self.unknown
        tokens[:, -2], tokens[:, -1] = self.equals, values
        return tokens

    def _answer(self, tokens):
        length = tokens.shape[1]
        if length < 3:
            self._require((tokens == 0).all(1), "of fewer than 3 tokens has only zeros")
            return all_scored(np.zeros(len(tokens), int))
        left, value = tokens[:, :-2], tokens[:, -1]
        unknown = left == self.unknown
        shape_fits = (tokens[:, -2] == self.equals) & (value < MODULUS) & (unknown.sum(1) == 1)
        self._require(
            shape_fits & (left != self.equals).all(1), "has one x, then = and a digit at its end"
        )
        # x stands once, with the sign that the difference of two values shows.
        tries = np.concatenate([np.where(unknown, 0, left), np.where(unknown, 1, left)])
        at_0, at_1 = evaluate(self.to_grammar[tries], self.name).reshape(2, -1)
        return all_scored((value - at_0) * (at_1 - at_0) % MODULUS)
