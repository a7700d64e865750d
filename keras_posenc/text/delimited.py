"""Delimited text, read as Python's csv reads it when it is strict, with fields of any length.

csv bounds the length of a field by one number for the whole process. Lifting it for a file would
change it for every thread, which may be reading another.
"""

import re

NEWLINE = re.compile(r"\r\n|\r|\n")


class NotCSV(ValueError):
    """A row is not as csv writes it."""


class UnendedField(NotCSV):
    """A quoted field does not end."""


def read_rows(content, delimiter):
    """Splits a text into rows of fields.

    `delimiter`: str of one character. Yields (number of the line where a row starts, from 1; list
    of its fields, empty for a blank line). Raises NotCSV if a quoted field does not end, or
    something follows its closing quote.
    """
    for line, fields, _, _ in rows_with_ends(content, delimiter):
        yield line, fields


def rows_with_ends(content, delimiter, line=1):
    """As `read_rows`, of a text that begins on a line of a file: (line, fields, where the row ends
    in the text, the line after it)."""
    plain = re.compile(f"[^{re.escape(delimiter)}\r\n]*")
    place = 0
    while place < len(content):
        first, start, fields = place, line, []
        while not fields or content.startswith(delimiter, place):
            place += bool(fields)
            if content.startswith('"', place):
                field, place = _quoted(content, place, delimiter, start)
                line += field.count("\n") + field.count("\r") - field.count("\r\n")
            else:
                match = plain.match(content, place)
                field, place = match[0], match.end()
            fields.append(field)
        if place == first:
            fields = []
        end = NEWLINE.match(content, place)
        place, line = end.end() if end else place, line + 1
        yield start, fields, place, line


def _quoted(content, place, delimiter, line):
    """A quoted field, in which a doubled quote is one, and where it ends."""
    parts, end = [], place
    while not parts or content.startswith('"', end):
        begin, end = end + 1, content.find('"', end + 1)
        if end < 0:
            raise UnendedField(f"line {line}: not CSV (unexpected end of data).")
        parts.append(content[begin:end])
        end += 1
    if end < len(content) and content[end] not in f"{delimiter}\r\n":
        found = content[end]
        raise NotCSV(f"line {line}: not CSV ({delimiter!r} expected after '\"', not {found!r}).")
    return '"'.join(parts), end
