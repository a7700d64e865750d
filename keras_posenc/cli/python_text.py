"""How calls and values are written in a Python program."""

import math
import textwrap


class Name(str):
    """A name in a program, in contrast to a string."""


def call(function, *positional, **keywords):
    """The text of a call: on one line if it is short, else an argument a line."""
    parts = [literal(value) for value in positional]
    parts += [f"{name}={literal(value)}" for name, value in keywords.items()]
    short = f"{function}({', '.join(parts)})"
    if len(short) <= 80:
        return short
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def literal(value):
    """How a value is written in Python: as `repr` does, strings in double quotes where possible."""
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple) and len(value) > 1:
        return f"({', '.join(map(literal, value))})"
    if isinstance(value, str) and repr(value)[1:-1] == value and '"' not in value:
        return f'"{value}"'
    return repr(value)


def replace_file(output, save):
    """The text that saves to a new file, which then takes the place of what has its name."""
    return f"with replacing({literal(output)}) as partial:\n{indented(save)}"


def indented(text):
    return textwrap.indent(text, "    ")


def program(*lines):
    return "\n".join(line for line in lines if line is not None and line is not False)
