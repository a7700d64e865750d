"""Published length curricula: the training length as a function of (step, seed) alone."""

import numpy as np

from keras_posenc.arguments import checks


class Fixed:
    """Always the same length.

    `length`: int, at least 1.

    Example:

    >>> Fixed(40)(step=7)
    40
    """

    def __init__(self, length):
        self.length = checks.whole("length", length)

    def __call__(self, step, seed=0):
        return self.length


class Uniform:
    """A length drawn uniformly: from 1 to 40 in the papers.

    `lengths`: ints, each at least 1.

    Example:

    >>> 1 <= Uniform(range(1, 41))(step=7, seed=0) <= 40
    True
    """

    def __init__(self, lengths=range(1, 41)):
        self.lengths = _lengths(lengths)

    def __call__(self, step, seed=0):
        return int(np.random.default_rng((seed, step)).choice(self.lengths))


class ReverseExponential:
    """A length n drawn with a probability proportional to tau^n: short lengths are more frequent.

    `lengths`: ints, each at least 1. `tau`: float between 0 and 1, both excluded.

    Example:

    >>> ReverseExponential([1, 2], tau=1 / 3).probabilities.tolist()
    [0.75, 0.25]
    """

    def __init__(self, lengths=range(1, 41), tau=0.9):
        checks.number("tau", tau, above=0, below=1)
        self.lengths = _lengths(lengths)
        # Relative to the shortest, so that no power is lost to 0.
        weights = tau ** (self.lengths - self.lengths.min()).astype("float64")
        self.probabilities = weights / weights.sum()

    def __call__(self, step, seed=0):
        rng = np.random.default_rng((seed, step))
        return int(rng.choice(self.lengths, p=self.probabilities))


class RegularIncrease:
    """A length that grows by `amount` every `every` steps.

    `start`: int. The length at step 0. `amount`: int. The increase. `every`: int. Steps between
    increases. `sample_all`: bool. Draw uniformly from all lengths reached so far, instead of the
    newest.

    Example:

    >>> [RegularIncrease(1, amount=2, every=100)(step) for step in (0, 99, 100, 250)]
    [1, 1, 3, 5]
    """

    def __init__(self, start=1, amount=1, every=1000, sample_all=False):
        self.start, self.amount = checks.whole("start", start), checks.whole("amount", amount)
        self.every, self.sample_all = checks.whole("every", every), sample_all

    def __call__(self, step, seed=0):
        reached = step // self.every
        if self.sample_all:
            reached = int(np.random.default_rng((seed, step)).integers(0, reached + 1))
        return self.start + self.amount * reached


CURRICULA = {
    "fixed": Fixed,
    "regular_increase": RegularIncrease,
    "reverse_exponential": ReverseExponential,
    "uniform": Uniform,
}


def _lengths(lengths):
    lengths = np.array(list(lengths), int)
    if not lengths.size or lengths.min() < 1:
        raise ValueError(
            f"`lengths` must list one length or more, each at least 1. Received: {lengths.tolist()}"
        )
    return lengths
