"""Checks of the rotary encodings' arguments."""

import difflib
import math
import numbers


def one_of(name, value, said, otherwise):
    """Merges an argument with its counterpart in `scaling`; if both are given they must agree."""
    if name not in said:
        return otherwise if value is None else value
    plain = [list(x) if isinstance(x, tuple) else x for x in (value, said[name])]
    if value is not None and plain[0] != plain[1]:
        raise ValueError(
            f"`{name}` is {value!r}, but `scaling` says {said[name]!r}: leave one of them out."
        )
    return said[name]


def check_choice(name, value, choices):
    """Raises ValueError for a value that is not among the choices, with the nearest one."""
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"`{name}` must be one of {choices}. Received: {value!r}{hint}")


def check_positive(name, value):
    """Raises ValueError for a value that is not a positive finite number."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"`{name}` must be a positive number. Received: {value!r}")


def checked_base(base):
    """The base as a float; raises ValueError unless it is above 1."""
    if not _is_number(base) or not 1 < base < math.inf:
        raise ValueError(f"`base` must be a number above 1. Received: {base!r}")
    return float(base)


def checked_size(size):
    """`rotary_dim`; raises ValueError unless it is None, a positive even int, or a share in (0,
    1]."""
    whole = isinstance(size, int) and not isinstance(size, bool) and size > 0 and size % 2 == 0
    if not (size is None or whole or isinstance(size, float) and 0 < size <= 1):
        raise ValueError(
            "`rotary_dim` must be None, a positive even integer, or a float in (0, 1] that is the "
            f"share of the features. Received: {size!r}"
        )
    return size


def checked_sections(sections):
    """`sections` as a tuple; raises ValueError unless they are positive integers."""
    if sections is None:
        return None
    if (
        not isinstance(sections, (list, tuple))
        or not sections
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sections)
    ):
        raise ValueError(
            "`sections` must be a list of positive integers, the pairs of features that each axis "
            f"turns. Received: {sections!r}"
        )
    return tuple(sections)


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
