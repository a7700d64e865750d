"""Checks of arguments, in one voice: what an argument must be, why, what came, and the remedy.

Each returns the value, so that it can be checked where it is stored.
"""

import difflib
import functools
import math
import numbers
import operator
import typing
import warnings

Function = typing.TypeVar("Function", bound=typing.Callable)


def choice(name, value, choices):
    """The value; raises ValueError, with the nearest of the choices, if it is not among them."""
    choices = tuple(choices)
    # By type too: 1 is no True, and an array has no single answer to `in`.
    if not any(isinstance(value, type(known)) and value == known for known in choices):
        names = [known for known in choices if isinstance(known, str)]
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"`{name}` must be one of {choices}. Received: {value!r}{hint}")
    return value


def instance(name, value, kind, wanted):
    """The value; raises TypeError unless it is of a type, or of one of several."""
    if not isinstance(value, kind):
        raise TypeError(_message(name, wanted, "", value, ""))
    return value


def whole(name, value, least=1, most=None, even=False, why="", remedy=""):
    """The value as an int; raises ValueError unless it is an integer, and no bool, in these bounds,
    both included. `why` is the reason for a bound, `remedy` what to do."""
    sound = isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least
    if sound and (most is None or value <= most) and not (even and value % 2):
        return int(value)
    kind = "an even integer" if even else "an integer"
    wanted = f"{kind} of at least {least}"
    if most is not None:
        wanted = f"{kind} from {least} to {most}"
    elif least == 1 or (even and least == 2):
        wanted = kind.replace("an ", "a positive ")
    raise ValueError(_message(name, wanted, why, value, remedy))


def seed(value, name="seed"):
    """The value as an int; raises ValueError unless NumPy and the backends take it as a seed."""
    return whole(name, value, least=0, most=2**32 - 1)


def number(name, value, least=None, above=None, below=None, most=None, why="", remedy=""):
    """The value; raises ValueError unless it is a finite number in these bounds, a bool being none;
    `least` and `most` are included."""
    bounds = (
        ("of at least", least, operator.ge),
        ("above", above, operator.gt),
        ("below", below, operator.lt),
        ("at most", most, operator.le),
    )
    bounds = [each for each in bounds if each[1] is not None]
    sound = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if sound and all(within(value, bound) for _, bound, within in bounds):
        return value
    bounds = [f"{word} {bound}" for word, bound, _ in bounds]
    wanted = "a positive number" if bounds == ["above 0"] else f"a number {' and '.join(bounds)}"
    raise ValueError(_message(name, wanted.strip(), why, value, remedy))


def renamed_argument(old: str, new: str) -> typing.Callable[[Function], Function]:
    """A decorator for functions that still take an argument by the name it had, with a warning."""
    # The hints say that editors still see the arguments of the function.

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if old in kwargs:
                of = function.__qualname__.removesuffix(".__init__")
                if new in kwargs:
                    raise TypeError(f"`{old}` and `{new}` of {of} are one argument: give `{new}`.")
                warn_renamed(old, new, of)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def warn_renamed(old, new, of):
    """Warns the caller's caller that what it used is called otherwise now."""
    warnings.warn(
        f"`{old}` of {of} is called `{new}` now: give {new}=...; {old} works until version 0.7.",
        DeprecationWarning,
        stacklevel=3,
    )


def warn_former(of, call, names):
    """Warns the caller's caller of arguments that have another form now; `call` is what to do in
    place of it, such as "give max_length=8"."""
    warnings.warn(
        f"{of}: {call} in place of {listed(names)}. The former spelling works until version 0.7.",
        DeprecationWarning,
        stacklevel=3,
    )


def listed(names):
    """Names as a text has them: `a`, `b` and `c`."""
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


def _message(name, wanted, why, value, remedy):
    why, remedy = why and f": {why}", remedy and f"; {remedy}"
    return f"`{name}` must be {wanted}{why}. Received: {value!r}{remedy}"
