"""Labels of other kinds than one name, in a cell of a table: several names, numbers."""

import math

from keras_posenc.untrusted import parse_json, quote


def names_in(where, cell):
    """The labels of a cell: a JSON list of names, or names with | between."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        cell = _json_list(cell)
    elif isinstance(cell, str):
        cell = [name for name in cell.split("|") if name.strip()]
    if not isinstance(cell, list) or not all(isinstance(name, str) for name in cell):
        raise ValueError(f"{where} should be a list of names, or names with | between.")
    return [name.strip() for name in cell]


def _json_list(cell):
    """The list that JSON writes so; a name that begins so, if it is none."""
    try:
        return parse_json(cell.encode())
    except ValueError:
        return [name for name in cell.split("|") if name.strip()]


def numbers_in(where, cell):
    """The numbers of a cell: a number, a JSON list of them, or numbers with | between."""
    if isinstance(cell, str):
        cell = _json_list(cell) if cell.strip().startswith("[") else cell.split("|")
    cells = cell if isinstance(cell, list) else [cell]
    try:
        numbers = [float(value) for value in cells]
    except (TypeError, ValueError):
        numbers = []
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{where} should be a number, not {quote(cell)}.")
    return numbers
