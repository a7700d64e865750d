"""A docstring as Markdown: sections as lists, examples as code."""

import re
import textwrap

# Titles of sections; "Args" alone is short for what a reader calls arguments.
TITLES = {
    "Args": "Arguments",
    "Call arguments": "Call arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Example": "Example",
    "Examples": "Examples",
    "Reference": "Reference",
    "References": "References",
}
LISTS = ("Args", "Call arguments", "Attributes", "Raises")
SECTION = re.compile(rf"^({'|'.join(TITLES)}):\n", re.MULTILINE)
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
CODE = re.compile(r"^>>> .*\n(?:.+\n)*|^```\w*\n(?:.*\n)*?```$", re.MULTILINE)
# Signs that Markdown would take for itself, outside of code.
PLAIN = re.compile(r"(`[^`]*`)|([*_<])")


def markdown(text):
    """`text`, a cleaned docstring, as Markdown."""
    purpose, *sections = SECTION.split(text.rstrip() + "\n")
    parts = [_prose(purpose)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts += [f"**{TITLES[title]}**", _section(title, body)]
    return "\n\n".join(part for part in parts if part)


def _section(title, body):
    if title in LISTS:
        return _entries(body)
    if title.startswith("Example") and ">>>" not in body:  # code that no test can run
        return f"```py\n{textwrap.dedent(body).strip()}\n```"
    return _prose(_flush(body))


def _flush(body):
    """A section's text without its indent; what follows it flush left stays in place."""
    indented, rest = re.fullmatch(r"((?: {4}.*\n|\n)*)((?:.|\n)*)", body).groups()
    return textwrap.dedent(indented) + rest


def _entries(body):
    """`names: explanation` per entry as a list; text behind the list stays text."""
    listed, rest = re.fullmatch(r"((?: {4}.*\n|\n)*)((?:.|\n)*)", body).groups()
    lines = []
    for entry in filter(str.strip, ENTRY.split(textwrap.dedent(listed))):
        names, colon, explanation = entry.partition(": ")
        if not colon or "\n" in names:  # a sentence of its own
            names, explanation = "", entry
        words = escaped(" ".join(explanation.split()))
        lines.append(f"- `{names}`: {words}" if names else f"- {words}")
    return "\n".join(lines) + ("\n\n" + _prose(rest) if rest.strip() else "")


def _prose(text):
    """Paragraphs, lists, and indented formulas; examples as blocks of code."""
    parts, last = [], 0
    for found in CODE.finditer(text):
        parts += [_paragraphs(text[last : found.start()]), _code(found[0])]
        last = found.end()
    parts.append(_paragraphs(text[last:]))
    return "\n\n".join(part for part in parts if part)


def _code(text):
    """A block of code; its language is not "python", whose blocks the tests of pages run."""
    if text.startswith("```"):
        return text.replace("```python", "```py")
    return f"```pycon\n{text.rstrip()}\n```"


def _paragraphs(text):
    made = []
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines):
            made.append(f"```text\n{textwrap.dedent(paragraph)}\n```")
        else:
            made.append("\n".join(map(_line, lines)))
    return "\n\n".join(made)


def _line(line):
    bullet = line.startswith(("- ", "* "))
    return "- " + escaped(line[2:]) if bullet else escaped(line)


def escaped(text):
    """`text` with a backslash before what Markdown would take for itself, outside of code."""
    return PLAIN.sub(lambda found: found[1] or "\\" + found[2], text)
