"""Every encoding that attention can be given, told by the classes themselves."""

import inspect
import math

from keras_posenc.encodings import ENCODINGS, get
from keras_posenc.encodings.base import HOOKS

MAP_HOOKS = ("bias", "score", "scan", "normalize", "value")
HEADS, HEAD_SIZE = 8, 64
COLUMNS = ("name", "class", "acts on", "learned", "separable", "causal only", "paper")


def facts(encoding):
    """What an encoding is, as its class and a built instance tell.

    Args:
        encoding: a name, a dict or an instance, as `PositionalAttention` takes it.

    Returns:
        dict: `class`; `acts_on`, the hooks that it brings; `learned`, variable -> shape, in 8 heads
        of 64; `separable`, whether fused kernels serve it: True, False, or None for one that only
        closes cells; `causal_only`; `paper`.

    Example:

    >>> facts("alibi")["acts_on"]
    ["heads"]
    """
    encoding = get(encoding)
    acts_on = [hook for hook in HOOKS if encoding.overrides(hook)]
    shapes = [(None, None, HEADS, HEAD_SIZE)]
    shapes += [(None, None, HEADS * HEAD_SIZE)] * ("features" in acts_on)
    encoding.build(*shapes)
    only_closes = set(acts_on) <= {"restrict"}
    return {
        "class": type(encoding).__name__,
        "acts_on": acts_on,
        "learned": {_local(v): tuple(v.shape) for v in encoding.trainable_variables},
        "separable": None if only_closes else not set(acts_on) & set(MAP_HOOKS),
        "causal_only": encoding.causal_only,
        "paper": encoding.paper,
    }


def encoding_table():
    """All of `ENCODINGS` as a Markdown table, each with its default arguments.

    Example:

    >>> print(encoding_table())
    """
    rows = [COLUMNS]
    for name in ENCODINGS:
        found = facts(name)
        rows.append(
            (
                f"`{name}`",
                f"`{found['class']}`",
                ", ".join(f"`{hook}`" for hook in found["acts_on"]),
                f"{_count(found):,}" if found["learned"] else "no",
                {True: "yes", False: "no", None: "–"}[found["separable"]],
                "yes" if found["causal_only"] else "no",
                found["paper"],
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join([lines[0], _line(["-" * width for width in widths], widths), *lines[1:]])


def describe_encoding(name):
    """What an encoding does, its arguments, and what it is with their defaults.

    Args:
        name: a name of `ENCODINGS`.

    Returns:
        str of several lines.

    Raises:
        ValueError: on an unknown name.

    Example:

    >>> print(describe_encoding("alibi"))
    """
    found, kind = facts(name), type(get(name))
    signature = inspect.signature(kind.__init__)
    arguments = [
        str(parameter)
        for parameter in signature.parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    learned = [f"{variable} {shape}" for variable, shape in found["learned"].items()]
    separable = {True: "yes", False: "no, it needs the map", None: "it only closes cells"}
    lines = [
        f"{name}: keras_posenc.{found['class']}({', '.join(arguments)})",
        "",
        inspect.getdoc(kind),
        "",
        f"With the defaults, in {HEADS} heads of {HEAD_SIZE}:",
        f"  acts on      {', '.join(found['acts_on'])}",
        f"  learned      {', '.join(learned) or 'no'}",
        f"  separable    {separable[found['separable']]}",
        f"  causal only  {'yes' if found['causal_only'] else 'no'}",
        f"  paper        {found['paper']}",
    ]
    return "\n".join(lines)


def _local(variable):
    """The name of a variable within its encoding."""
    return variable.path.partition("/")[2] or variable.name


def _count(found):
    return sum(math.prod(shape) for shape in found["learned"].values())


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
