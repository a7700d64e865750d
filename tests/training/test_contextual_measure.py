"""The measure of contextual training, of vectors that are given."""

import types

import numpy as np
import pytest

from keras_posenc.training.contextual.measure import Measure


@pytest.mark.once
def test_copies_that_look_the_same_are_found_by_chance():
    """What does not read the name gives each copy the same vector: a quarter is right, not all."""
    case = types.SimpleNamespace(named=[["a", "b", "c"]] * 4)
    found = types.SimpleNamespace(cases=[case])
    same, apart = np.ones((4, 3, 8)), np.eye(12, 12).reshape(4, 3, 12)
    half = np.repeat(np.eye(2), 2, axis=0)[:, None].repeat(3, axis=1)  # two pairs of copies
    for vectors, fraction in ((same, 0.25), (half, 0.5), (apart, 1.0)):
        queries = vectors.reshape(12, -1)
        fractions, _ = Measure._found(found, lambda _, v=vectors: v, lambda _, q=queries: q)
        assert fractions == [pytest.approx(fraction)]
