"""The checks of arguments: what they take, and the one voice of what they refuse."""

import math

import numpy as np
import pytest

from keras_posenc.arguments import checks

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (checks.whole, {"value": 0}, "`x` must be a positive integer. Received: 0"),
        (checks.whole, {"value": True}, "`x` must be a positive integer. Received: True"),
        (checks.whole, {"value": 2.0, "least": 0}, "an integer of at least 0. Received: 2.0"),
        (checks.whole, {"value": None, "most": 7}, "an integer from 1 to 7. Received: None"),
        (checks.whole, {"value": 8, "most": 7}, "an integer from 1 to 7. Received: 8"),
        (checks.whole, {"value": 3, "least": 2, "even": True}, "a positive even integer. Rec"),
        (checks.whole, {"value": 5, "least": 4, "even": True}, "an even integer of at least 4. R"),
        (checks.whole, {"value": 1, "least": 2, "why": "ln 1 is 0"}, "at least 2: ln 1 is 0. Rec"),
        (checks.number, {"value": "a"}, "`x` must be a number. Received: 'a'"),
        (checks.number, {"value": math.nan}, "`x` must be a number. Received: nan"),
        (
            checks.number,
            {"value": math.inf, "above": 0},
            "must be a positive number. Received: inf",
        ),
        (checks.number, {"value": 1, "least": 0, "below": 1}, "of at least 0 and below 1. Rec"),
        (checks.number, {"value": 0, "above": 0, "most": 1}, "above 0 and at most 1. Received: 0"),
        (checks.number, {"value": 1, "above": 1, "remedy": "leave it"}, "Received: 1; leave it$"),
        (checks.number, {"value": False, "least": 0}, "a number of at least 0. Received: False"),
        (checks.choice, {"value": "ad", "choices": ("add", "mul")}, "'ad'; did you mean 'add'"),
        (
            checks.choice,
            {"value": 1, "choices": (True, "all")},
            "one of .True, 'all'.. Rec",
        ),
        (checks.choice, {"value": ["a"], "choices": {"a": 1}}, "must be one of .'a',.. Received"),
    ],
)
def test_what_is_refused(check, arguments, message):
    with pytest.raises(ValueError, match=message):
        check("x", **arguments)


def test_what_is_taken_is_returned():
    assert checks.whole("x", 4, least=2, most=4, even=True) == 4
    assert type(checks.whole("x", np.int64(4))) is int
    assert checks.number("x", np.float32(0.5), above=0, below=1) == 0.5
    assert checks.number("x", 0, least=0, most=0) == 0
    assert checks.choice("x", None, {None: 1, "a": 2}) is None


def test_an_argument_is_not_given_by_both_of_its_names():
    function = checks.renamed_argument("old", "new")(lambda new: new)
    with pytest.warns(
        DeprecationWarning, match="`old` of .* is called `new` now: give new=.* until"
    ):
        assert function(old=3) == 3
    with pytest.raises(TypeError, match="`old` and `new` of .* are one argument: give `new`"):
        function(old=3, new=4)
