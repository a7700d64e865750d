"""Rows and fields of delimited files: .csv, .tsv, and Orange's .tab."""

import collections
import csv
import io
import re

from keras_posenc.files.untrusted import quote, shorten

NEWLINE = re.compile(r"\r\n|\r|\n")


class UnendedField(ValueError):
    """A quoted field does not end."""


def csv_rows(content, delimiter, line=1):
    """Splits a text into rows of fields, as csv writes them.

    `delimiter`: str of one character. `line`: the number of the text's first line. Yields (number
    of the line where a row starts; list of its fields, empty for a blank line; where it ends in
    the text; the line after it). ValueError if something follows the closing quote of a field,
    UnendedField if there is none.
    """
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
        raise ValueError(
            f"line {line}: not CSV ({delimiter!r} expected after '\"', not {found!r})."
        )
    return '"'.join(parts), end


ORANGE_FLAGS = ("class", "c", "meta", "m", "ignore", "i", "weight", "w")


def lines_of(content):
    """Splits into (number from 1, line) at newlines only: texts may hold U+2028, form feeds, ...

    A carriage return alone ends a line only in a file without newlines, as old Macs wrote them.
    """
    lines = content.split("\n" if "\n" in content else "\r")
    return [(number, line.removesuffix("\r")) for number, line in enumerate(lines, 1)]


def read_tab(path, content):
    """Reads Orange's format: names, types, flags, then one row per line.

    Of the flags, `class` marks the label and `include=True` the text.
    """
    head = [line.split("\t") for _, line in lines_of(content)[:3]]
    flags = [cell.split() for cell in head[-1]]
    known = all(word in ORANGE_FLAGS or "=" in word for words in flags for word in words)
    if len(head) < 3 or not known or len(flags) > len(head[0]):
        raise ValueError(
            f"{path}, line {len(head)}: a .tab file has three lines above its rows, as Orange "
            "writes it: names, types, flags (class, meta, ...); with names alone it is a .tsv."
        )
    lines = [(number, line) for number, line in lines_of(content)[3:] if line.strip()]
    table = [(number, fields_in(line, len(head[0]))) for number, line in lines]
    names, rows = named_rows(path, (1, head[0]), table)
    flagged = {}
    for name, words in zip(names, flags, strict=False):
        if "class" in words or "c" in words:
            flagged.setdefault("label", name)
        elif "include=True" in words:
            flagged.setdefault("text", name)
    return names, rows, flagged


def fields_in(line, columns):
    """Splits at tabs. Quotes are ordinary characters unless csv would have written this very
    line."""
    if '"' in line:
        try:
            _, quoted, *_ = next(csv_rows(line, "\t"))
        except ValueError:
            quoted = []
        styles = csv.QUOTE_MINIMAL, csv.QUOTE_ALL
        if len(quoted) == columns and line in [_as_csv(quoted, style) for style in styles]:
            return quoted
    return line.split("\t")


def _as_csv(fields, quoting):
    line = io.StringIO()
    csv.writer(line, delimiter="\t", quoting=quoting, lineterminator="").writerow(fields)
    return line.getvalue()


def named_rows(path, header, table):
    """(names, rows as dicts) from (line number, fields)."""
    names = check_header(path, header)
    for number, fields in table:
        if len(fields) != len(names):
            raise ValueError(
                f"{path}, line {number}: {len(fields)} fields where there are {len(names)} "
                f"columns ({shorten(', '.join(names))}).{_open_quote(path, fields)}"
            )
    return names, [(number, dict(zip(names, fields, strict=True))) for number, fields in table]


def _open_quote(path, fields):
    """What to do where a field seems to go on in the next line, as words of an error."""
    opened = path.suffix.lower() != ".csv" and fields[-1].startswith('"')
    if not opened or fields[-1].count('"') % 2 == 0:
        return ""
    return (
        f" The quotes of its last field do not end in that line: in {path.suffix} a row is one "
        "line. Write a file with line ends in its texts as .csv, with commas, or as .jsonl."
    )


def check_header(path, header):
    """The names of the columns, from (line number, fields)."""
    number, fields = header
    names = [name.strip() for name in fields]
    counts = collections.Counter(filter(None, names))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        name = quote(twice[0])
        raise ValueError(f"{path}, line {number}: two columns are named {name}; rename one.")
    if len(names) == 1 and any(mark in names[0] for mark in ",;|\t"):
        raise ValueError(
            f"{path}, line {number}: one column, {quote(names[0])}; .csv is separated by commas, "
            ".tsv and .tab by tabs."
        )
    return names
