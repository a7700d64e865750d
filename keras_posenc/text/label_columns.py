"""Labels of other kinds than one name, in a cell of a table: several names, numbers."""

import math

from keras_posenc.files.untrusted import parse_json, quote


def names_in(where, cell):
    """The labels of a cell: a JSON list of names, or names with | between."""
    if isinstance(cell, str):
        cell = [name for name in _parts(cell) if not isinstance(name, str) or name.strip()]
    if not isinstance(cell, list) or not all(isinstance(name, str) for name in cell):
        raise ValueError(f"{where} should be a list of names, or names with | between.")
    return [name.strip() for name in cell]


def numbers_in(where, cell):
    """The numbers of a cell: a number, a JSON list of them, or numbers with | between."""
    cells = _parts(cell) if isinstance(cell, str) else cell if isinstance(cell, list) else [cell]
    try:
        numbers = [float(value) for value in cells]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{where} should be a number, not {quote(cell)}.")
    return numbers


def _parts(cell):
    """What a text lists, as JSON if it is that, else between |; a name may begin with a bracket."""
    if cell.strip().startswith("["):
        try:
            return parse_json(cell.encode())
        except ValueError:
            pass
    return cell.split("|")
