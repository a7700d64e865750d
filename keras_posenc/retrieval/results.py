"""What `search` and `rerank` return, as a table for a terminal."""

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import shorten

CHARACTERS = 100  # of a text in a table
TITLE = 40  # of a title
COLUMNS = ("rank", "score", "id", "vector", "word", "chars", "title", "text")
BEFORE = 20  # of them before the first word of the query


def search_table(found, characters=CHARACTERS):
    """Formats the results of `search` or `rerank` for a terminal.

    Args:
        found: list of dicts, as `search` or `rerank` returns them.
        characters: int or None. How much of a text is shown. None shows all of it.

    Returns:
        str: a line with the names of the columns, then a line with each query, followed by a line
            per result: rank, score, id, for chunks their start and end, and the text, from the
            first word of the query on if words were searched. If vectors and words were, it has
            the score by each.

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
    names = [name for name in COLUMNS if name in COLUMNS[:3] or any(name in each for each in cells)]
    cells = [[each.get(name, "") for name in names] for each in cells]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    lines = [_line(names, widths)]
    for row, values in zip(found, cells, strict=True):
        lines += [shorten(row["query"], CHARACTERS)] if row["rank"] == 1 else []
        lines.append(_line(values, widths))
    return "\n".join(lines)


def _cells(row, characters):
    """{column: str} of a result."""
    cells = {"rank": str(row["rank"]), "score": f"{row['score']:.4f}", "id": shorten(row["id"])}
    for name in ("vector_score", "word_score"):
        if name in row and len(row.keys() & {"vector_score", "word_score"}) > 1:
            cells[name.removesuffix("_score")] = f"{row[name]:.4f}"
    if "start" in row:
        cells["chars"] = f"{row['start']}-{row['end']}"
    if "title" in row:
        cells["title"] = shorten(row["title"], TITLE)
    if "text" in row:
        cells["text"] = _excerpt(row["text"], row.get("matches"), characters)
    return cells


def _excerpt(text, matches, characters):
    """A part of a text, from a little before the first word of the query on."""
    if characters is None:
        return shorten(text, len(text))
    first = matches[0][0] if matches else 0
    if first + BEFORE <= characters or len(text) <= characters:
        return shorten(text, characters)
    start = min(first - BEFORE, len(text) - characters)
    return f"...{shorten(text[start:], characters)}"


def _line(cells, widths):
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
