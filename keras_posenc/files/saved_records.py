"""What is expected of a record that a run or a model saved, checked before anything is made of it.

An expectation is a function of a value and of where it stands; it raises ValueError.
"""

import math

from keras_posenc.files.untrusted import quote

MOST = 1e15  # larger numbers are no counts or lengths, and not all can be drawn


def anything(value, where):
    """Accepts all values."""


def number(value, where):
    """A finite number that can be drawn."""
    sound = isinstance(value, (int, float)) and not isinstance(value, bool)
    _expect(sound and -MOST <= value <= MOST, value, where, "a number")


def score(value, where):
    """A number, which is NaN where nothing could be measured or a training diverged."""
    if not (isinstance(value, float) and math.isnan(value)):
        number(value, where)


def loss(value, where):
    """A number, which is NaN or infinite where a training diverged."""
    if not (isinstance(value, float) and not math.isfinite(value)):
        number(value, where)


def whole(least=0, most=MOST):
    """A whole number within bounds, which are included."""
    words = f"a whole number from {least}" + f" to {most}" * (most < MOST)

    def check(value, where):
        sound = isinstance(value, int) and not isinstance(value, bool)
        _expect(sound and least <= value <= most, value, where, words)

    return check


def string(value, where):
    """Any string."""
    _expect(isinstance(value, str), value, where, "a text")


def one_of(choices):
    """One of these."""
    choices = tuple(choices)
    words = f"one of {', '.join(map(repr, choices))}"
    return lambda value, where: _expect(value in choices, value, where, words)


def text(value, where):
    """A string that can be written."""
    sound = isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)
    _expect(sound and "\0" not in value, value, where, "a text")


def maybe(expected):
    """The value, or null."""
    return lambda value, where: None if value is None else expected(value, where)


def every(expected, length=None, fewest=0):
    """A list of such values."""

    def check(value, where):
        right = isinstance(value, list) and len(value) >= fewest
        words = "a list" if length is None else f"a list of {length}"
        words += f" of at least {fewest}" * (fewest > 0)
        _expect(right and length in (None, len(value)), value, where, words)
        for index, each in enumerate(value):
            expected(each, f"{where}[{index}]")

    return check


def by_name(expected):
    """An object of such values, by texts."""

    def check(value, where):
        _expect(isinstance(value, dict), value, where, "an object")
        for name, each in value.items():
            text(name, f"a key of {where or 'the file'}")
            expected(each, _within(where, name))

    return check


def keys(needed, optional=None):
    """An object with these keys; optional ones may be missing, and others are not looked at."""

    def check(value, where):
        _expect(isinstance(value, dict), value, where, "an object")
        for name in needed:
            if name not in value:
                raise ValueError(f"it lacks {_within(where, name)}")
        for name, expected in (needed | (optional or {})).items():
            if name in value:
                expected(value[name], _within(where, name))

    return check


def both(*expectations):
    """All of them, in turn."""

    def check(value, where):
        for expected in expectations:
            expected(value, where)

    return check


def checked(path, value, expected, remedy="Restore or delete it."):
    """Returns a value that was read from a file if it is as expected; an error ends in `remedy`."""
    try:
        expected(value, "")
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}). {remedy}") from None
    return value


count, positive = whole(), whole(1)


def _within(where, name):
    name = quote(name)[1:-1]
    return f"{where}.{name}" if where else name


def _expect(right, value, where, words):
    if not right:
        raise ValueError(f"{where or 'the whole'} should be {words}, not {quote(value)}")
