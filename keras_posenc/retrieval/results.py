"""What `search` and `rerank` return, as a table for a terminal."""

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import shorten

CHARACTERS = 100  # of a text in a table


def search_table(found, characters=CHARACTERS):
    """Formats the results of `search` or `rerank` for a terminal.

    Args:
        found: list of dicts, as `search` or `rerank` returns them.
        characters: int or None. How much of a text is shown. None shows all of it.

    Returns:
        str: a line with the names of the columns, then a line with each query, followed by a line
            per result: rank, score, id, for chunks their start and end, and the text.

    Example:

    >>> row = {"query": "two", "rank": 1, "score": 0.5, "id": 7, "start": 5, "end": 9}
    >>> print(search_table([row | {"text": "Two."}]))
    rank  score   id  chars  text
    two
    1     0.5000  7   5-9    Two.
    """
    if characters is not None:
        checks.whole("characters", characters)
    cells = [_cells(row, characters) for row in found]
    names = list(cells[0]) if cells else ["rank", "score", "id"]
    widths = [max(map(len, column)) for column in zip(names, *map(dict.values, cells), strict=True)]
    lines = [_line(names, widths)]
    for row, values in zip(found, cells, strict=True):
        lines += [shorten(row["query"], CHARACTERS)] if row["rank"] == 1 else []
        lines.append(_line(values.values(), widths))
    return "\n".join(lines)


def _cells(row, characters):
    """{column: str} of a result."""
    cells = {"rank": str(row["rank"]), "score": f"{row['score']:.4f}", "id": shorten(row["id"])}
    if "start" in row:
        cells["chars"] = f"{row['start']}-{row['end']}"
    if "text" in row:
        cells["text"] = shorten(row["text"], characters or len(row["text"]))
    return cells


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
