"""Expressions modulo 5 with brackets: sampling from a grammar, and evaluation, vectorised.

Tokens: 0 to 4 are digits, then +, -, *, ( and ).
"""

import numpy as np

MODULUS = 5
PLUS, MINUS, TIMES, OPEN, CLOSE = range(MODULUS, MODULUS + 5)

# A product modulo 5 is a sum of logarithms to the base 2 modulo 4; a minus is a factor of -1 = 2^2.
LOGARITHM = np.array([0, 0, 1, 3, 2])
POWER = np.array([1, 2, 4, 3])
TOKEN_LOGARITHM = np.zeros(CLOSE + 1, int)
TOKEN_LOGARITHM[:MODULUS], TOKEN_LOGARITHM[MINUS] = LOGARITHM, 2

# The expressions of one digit (0 stands for it) with one to four tokens, and where the digit is.
SHORT = ((0,), (MINUS, 0), (OPEN, 0, CLOSE), (OPEN, MINUS, 0, CLOSE))
DIGIT_PLACE = np.array([0, 1, 1, 2])


def draw_expressions(rng, count, length, operators):
    """Draws expressions of the published grammar, all of one length.

    Up to four tokens they are d, -d, (d), (-d); longer ones (E operator E), with a left E whose
    length is uniform in 1 .. length - 4. All rows are expanded together, one tree level at a time.

    `rng`: a NumPy generator. `count`: int. Number of expressions. `length`: int, at least 1. Tokens
    in each. `operators`: int. How many of +, -, * are used. Returns an int32 array (count, length).
    """
    tokens = np.empty(count * length, "int32")
    start, size = np.arange(count) * length, np.full(count, length)
    leaves = []
    while start.size:
        long = size > len(SHORT)
        leaves.append((start[~long], size[~long]))
        start, size = start[long], size[long]
        left = rng.integers(1, size - 3)
        tokens[start], tokens[start + size - 1] = OPEN, CLOSE
        tokens[start + left + 1] = PLUS + rng.integers(0, operators, size.size)
        start = np.concatenate([start + 1, start + left + 2])
        size = np.concatenate([left, size - left - 3])
    start, size = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
    for number, short in enumerate(SHORT, 1):
        at = start[size == number]
        for place, token in enumerate(short):
            tokens[at + place] = token
    tokens[start + DIGIT_PLACE[size - 1]] = rng.integers(0, MODULUS, start.size)
    return tokens.reshape(count, length)


def evaluate(tokens, name):
    """Evaluates expressions: brackets, then *, then + and -; any operand may have a minus.

    Each level of brackets in the batch is one flat list of expressions, evaluated from the
    innermost on; a closing bracket stands for the value of its group in the level around it.
    `tokens`: ints (B, L) from 0 to CLOSE. `name`: str. Name of the task in the error. Returns B
    ints from 0 to 4.
    """
    rows, length = tokens.shape
    level = np.cumsum((tokens == OPEN).astype("int16") - (tokens == CLOSE), axis=1, dtype="int16")
    unbalanced = (level.min(1) < 0) | (level[:, -1] != 0)
    if unbalanced.any():
        _refuse(name, np.flatnonzero(unbalanced)[0])
    tokens, level = tokens.ravel(), level.ravel()
    # An opening bracket is on the level that it begins, a closing one on the level around it.
    order = np.argsort(level, kind="stable")
    deepest = int(level.max())
    ends = np.cumsum(np.bincount(level, minlength=deepest + 1))
    inner = np.empty(0, int)
    for depth in range(deepest, -1, -1):
        at = order[ends[depth - 1] if depth else 0 : ends[depth]]
        token, group, count = tokens[at], at // length, rows
        if depth:
            opens = token == OPEN
            group = np.cumsum(opens) - 1
            count = int(group[-1]) + 1
            outside, at = at[opens] // length, at[~opens]
            token, group = token[~opens], group[~opens]
            empty = np.bincount(group, minlength=count) == 0
            if empty.any():
                _refuse(name, outside[empty][0])
        inner, wrong = _flat_values(token, inner, group, count)
        if wrong.any():
            _refuse(name, at[wrong][0] // length)
    return inner


def _flat_values(token, inner, group, count):
    """Evaluates expressions without brackets, and marks the tokens that do not fit.

    `token`: of all the expressions in order; each CLOSE is an operand with a value of `inner`.
    `group`: for each token the number of its expression, 0 to count - 1.
    """
    closed = token == CLOSE
    operand = closed | (token < MODULUS)
    first = np.ones(len(token), bool)
    first[1:] = group[1:] != group[:-1]
    last = np.append(first[1:], True)
    after_operand = ~first
    after_operand[1:] &= operand[:-1]
    sign = ~operand & ~after_operand
    after_sign = ~first
    after_sign[1:] &= sign[:-1]
    wrong = (operand & after_operand) | (sign & ((token != MINUS) | after_sign)) | (last & ~operand)
    # A term is what * holds together; its minus, if any, is its first token or a sign in it.
    starts = np.flatnonzero(first | (after_operand & ~operand & (token != TIMES)))
    exponent, zero = TOKEN_LOGARITHM[token], token == 0
    exponent[closed], zero[closed] = LOGARITHM[inner], inner == 0
    terms = POWER[np.add.reduceat(exponent, starts) % 4]
    terms[np.logical_or.reduceat(zero, starts)] = 0
    return np.bincount(group[starts], terms, count).astype(int) % MODULUS, wrong


def _refuse(name, row):
    raise ValueError(
        f"{name}: row {int(row)} is not valid: a row is one expression with digits, operators "
        "between them and brackets that match."
    )
