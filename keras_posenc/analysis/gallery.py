"""Descriptions of every registered encoding, derived from the classes themselves."""

import inspect
import math

from keras_posenc.encodings import ENCODINGS, get
from keras_posenc.encodings.base import HOOKS

MAP_HOOKS = ("bias", "score", "scan", "normalize", "value")
HEADS, HEAD_SIZE = 8, 64
COLUMNS = ("name", "class", "acts on", "learned", "separable", "causal only", "paper")


def facts(encoding):
    """Summarises an encoding: the hooks it overrides, its weights, its restrictions.

    Args:
        encoding: a name, a dict or an instance, as `PositionalAttention` takes it.

    Returns:
        dict: `class`; `acts_on`, the hooks it overrides; `learned`, variable -> shape, with 8 heads
        of size 64; `separable`, whether fused kernels can compute it: True, False, or None for an
        encoding that only masks; `causal_only`; `paper`.

    Example:

    >>> facts("alibi")["acts_on"]
    ['heads']
    """
    encoding = get(encoding)
    acts_on = [hook for hook in HOOKS if encoding.overrides(hook)]
    shapes = [(None, None, HEADS, HEAD_SIZE)]
    shapes += [(None, None, HEADS * HEAD_SIZE)] * len({"features", "query_features"} & set(acts_on))
    encoding.build(*shapes)
    only_closes = set(acts_on) <= {"restrict"}
    return {
        "class": type(encoding).__name__,
        "acts_on": acts_on,
        "learned": {
            v.path.partition("/")[2] or v.name: tuple(v.shape) for v in encoding.trainable_variables
        },
        "separable": None if only_closes else not set(acts_on) & set(MAP_HOOKS),
        "causal_only": encoding.causal_only,
        "paper": encoding.paper,
    }


def encoding_table():
    """Returns `facts` of all `ENCODINGS`, with their defaults, as the rows of a Markdown table.

    Example:

    >>> "| `sandwich` " in encoding_table()
    True
    """
    rows = [COLUMNS]
    for name in ENCODINGS:
        summary = facts(name)
        rows.append(
            (
                f"`{name}`",
                f"`{summary['class']}`",
                ", ".join(f"`{hook}`" for hook in summary["acts_on"]),
                f"{_count(summary):,}" if summary["learned"] else "no",
                {True: "yes", False: "no", None: "–"}[summary["separable"]],
                "yes" if summary["causal_only"] else "no",
                summary["paper"],
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join([lines[0], _line(["-" * width for width in widths], widths), *lines[1:]])


def describe_encoding(name):
    """Returns an encoding as lines of text: signature, docstring, and `facts` with the defaults.

    Args:
        name: a name of `ENCODINGS`.

    Example:

    >>> print(describe_encoding("alibi").splitlines()[0])
    alibi: keras_posenc.encodings.ALiBi(direction='causal', learned=False)
    """
    summary, kind = facts(name), type(get(name))
    signature = inspect.signature(kind.__init__)
    arguments = [
        str(parameter.replace(annotation=parameter.empty))
        for parameter in signature.parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    learned = [f"{variable} {shape}" for variable, shape in summary["learned"].items()]
    separable = {True: "yes", False: "no, it needs the map", None: "it only closes cells"}
    lines = [
        f"{name}: keras_posenc.encodings.{summary['class']}({', '.join(arguments)})",
        "",
        inspect.getdoc(kind),
        "",
        f"With the defaults, in {HEADS} heads of {HEAD_SIZE}:",
        f"  acts on      {', '.join(summary['acts_on'])}",
        f"  learned      {', '.join(learned) or 'no'}",
        f"  separable    {separable[summary['separable']]}",
        f"  causal only  {'yes' if summary['causal_only'] else 'no'}",
        f"  paper        {summary['paper']}",
    ]
    return "\n".join(lines)


def _count(summary):
    return sum(math.prod(shape) for shape in summary["learned"].values())


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
