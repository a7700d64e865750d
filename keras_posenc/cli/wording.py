"""Programs of Python, and errors in which arguments become options."""

import ast
import contextlib
import functools
import logging
import math
import re
import sys
import textwrap
import warnings

from keras_posenc.cli.signatures import PACKAGE, constant
from keras_posenc.files.untrusted import visible_lines

# What errors write behind an argument: `text` (--text-column), overwrite=True (--overwrite).
WITH_OPTION = re.compile(r"[\w=`\"]+ \((--[\w -]+)\)")
# `max_length`, max_length=512, and a name that is no English word.
NAMED = re.compile(
    r"`(?P<quoted>\w+)`|(?<![\w/.-])(?:(?P<true>[a-z]\w*)=True\b"
    r"|(?P<given>[a-z]\w*)=(?P<value>\S)?|(?P<bare>[a-z]+_\w+)(?![/.]\w))"
)

# Calls of Python in errors -> what a user of the command line does.
CALLS = (
    (r"call \w+\((?:open_\w+|Reranker)\(\w+, ([^()]*)\), \.\.\.((?:, [^()]*)?)\)", r"give \1\2"),
    (r"print\(inspect_checkpoint\(.*?\)\)", "keras-posenc inspect CHECKPOINT --all"),
    (r", build the model without it, or let build_transformer_model\(.*?\) .*? values", ""),
    (r"Give tie_word_embeddings=False", "Set tie_word_embeddings to false in config.json"),
    (r"give a dict without it, \{.*?\.items\(\)\}", "rename them in the file"),
    (r"name max_position together with .*?\(hierarchical_position=True\)", "give `extension`"),
    (r"build it with embedder\(directory, pooling='mean'\)", "give --reading chunks:256"),
    (r"as read_texts\(label=\)", "as --label-column NAME"),
    (r'text=\("(\w+)", "(\w+)"\)', r"text=\1,\2"),
)


def in_options(text, flags):
    """Words about arguments of Python as a user of the command line reads them.

    `flags` are two dicts from keywords to options: those of the command, and others, which are
    meant only where they stand as `name`.

    Example:

    >>> in_options("raise `max_length`: chunks=2 is few", ({"max_length": "--max-length"}, {}))
    'raise --max-length: chunks=2 is few'
    """
    of_command, others = flags

    def option(found):
        name = next(filter(None, found.group("quoted", "true", "given", "bare")))
        flag = of_command.get(name, others.get(found["quoted"]))
        return found[0] if flag is None else f"{flag} {found['value'] or ''}".rstrip()

    for python, ours in CALLS:
        text = re.sub(python, ours, text)
    return NAMED.sub(option, WITH_OPTION.sub(r"\1", text))


@contextlib.contextmanager
def warning_in_options(flags):
    """Words warnings, and what is logged, for the command line while a command runs."""
    logger = logging.getLogger("keras_posenc")
    handler = logging.Filter()
    handler.filter = functools.partial(_word_record, flags=flags)
    show = warnings.showwarning

    def show_warning(message, category, *place):
        if not issubclass(category, (UserWarning, DeprecationWarning)):
            return show(message, category, *place)
        text = visible_lines(in_options(str(message), flags))
        print(f"keras-posenc: warning: {text}", file=sys.stderr)

    logger.addFilter(handler)
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            yield
        finally:
            logger.removeFilter(handler)


def _word_record(record, flags):
    record.msg, record.args = visible_lines(in_options(record.getMessage(), flags)), ()
    return True


# Where the names in programs are from: the rooms list most.
ROOMS = ("analysis", "checkpoints", "models", "retrieval", "text", "training")
WRITING = "files.writing"
UNLISTED = {"pictures": "analysis", "replacing": WRITING, "write_text": WRITING}
IMPORTS = ({"json": "import json", "pathlib": "import pathlib"}, {"np": "import numpy as np"})


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
    """A program of the lines that are not None or False, under the imports of the names in it."""
    body = "\n".join(line for line in lines if line is not None and line is not False)
    names = [node for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)]
    used = {node.id for node in names} - {x.id for x in names if isinstance(x.ctx, ast.Store)}
    homes = {name: room for room in ROOMS for name in constant("__all__", f"{PACKAGE.name}.{room}")}
    homes |= UNLISTED
    ours = {}
    for name in sorted(used & homes.keys()):
        ours.setdefault(f"{PACKAGE.name}.{homes[name]}", []).append(name)
    parts = [[line for name, line in part.items() if name in used] for part in IMPORTS]
    parts += [[f"from {room} import {', '.join(ours[room])}" for room in sorted(ours)], [body]]
    return "\n\n".join("\n".join(part) for part in parts if part)
