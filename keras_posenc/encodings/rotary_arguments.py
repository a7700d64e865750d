"""Checks of the rotary encodings' arguments."""


def one_of(name, value, scaling, otherwise):
    """Merges an argument with its counterpart in `scaling`; if both are given they must agree."""
    if name not in scaling:
        return otherwise if value is None else value
    plain = [list(x) if isinstance(x, tuple) else x for x in (value, scaling[name])]
    if value is not None and plain[0] != plain[1]:
        raise ValueError(
            f"`{name}` is {value!r}, but `scaling` has {scaling[name]!r}: leave one of them out."
        )
    return scaling[name]


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
