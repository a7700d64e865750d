"""95% intervals of means over units that are drawn independently, such as texts or episodes.

That of a proportion is `keras_posenc.metrics.scores.wilson`.
"""

import math

import numpy as np


def half_width(values):
    """Half the width of the interval of the mean of `values`."""
    return 1.96 * np.std(values, ddof=1) / math.sqrt(len(values))


def ratio(one, other):
    """The ratio of two means, and half the width of its interval, paired by unit.

    Args:
        one, other: arrays of a value per unit.
    """
    kept = one.mean() / other.mean()
    return float(kept), float(half_width(one - kept * other) / other.mean())


def paired(scores, other):
    """Mean of the scores, and the mean difference to another way, paired by unit, each with half
    the width of its interval.

    Args:
        scores, other: (seeds, units) in [0, 1]. Seeds are averaged within a unit.
    """
    scores, other = np.array(scores, float).mean(0), np.array(other, float).mean(0)
    more = scores - other
    values = scores.mean(), half_width(scores), more.mean(), half_width(more)
    return dict(zip(("accuracy", "half", "more", "more_half"), map(float, values), strict=True))
