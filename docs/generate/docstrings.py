"""Our docstrings in the words of griffe, which reads them for the API reference."""

import re

import griffe

LISTS = re.compile(r"^(Call arguments|Attributes):\n((?:(?: {4}.*)?\n)+?)(?=\S|\Z)", re.MULTILINE)
PROMPTS = re.compile(r"^>>> .*\n(?:.+\n)*", re.MULTILINE)


def in_griffe_words(text):
    """`text` with examples as blocks of code, and arguments of a call as a list."""
    text = LISTS.sub(_as_list, text + "\n")
    text = PROMPTS.sub(lambda m: f"```pycon\n{m[0]}```\n", text)
    return re.sub(r"^(Example|Examples):$", r"**\1**", text, flags=re.MULTILINE).rstrip()


def _as_list(match):
    title, body = match.groups()
    lines = [f"**{title}**", ""]
    for line in body.splitlines():
        line = line[4:]
        if line and not line.startswith(" "):
            names, _, rest = line.partition(": ")
            line = f"- `{names}`: {rest}" if rest else f"- {line}"
        lines.append(line)
    return "\n".join(lines) + "\n"


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_instance(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = in_griffe_words(obj.docstring.value)
