"""Tables in Parquet's format, read by pyarrow a part at a time."""

from keras_posenc.untrusted import check_pointer, shorten

# What a label or a text may be; other cells, such as dates, become str.
PLAIN = (str, int, float, bool, list, dict, type(None))


def read_parquet(path, content=None):
    """(columns, rows, flagged) of a file, as readers of other tables return them."""
    parts = list(parquet_parts(path, 1024))
    return parts[0][0] if parts else [], [row for _, rows in parts for row in rows], {}


def parquet_parts(path, size):
    """Yields (columns, rows) of a file; rows are (number from 1, dict).

    Args:
        path: `pathlib.Path`.
        size: int, rows of a part.

    Raises:
        ImportError: without pyarrow.
        ValueError: if the file is not in this format.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError(
            f"{path} needs pyarrow: pip install pyarrow, or give a .jsonl file."
        ) from None
    with open(path, "rb") as opened:
        check_pointer(path, opened.read(200))
        number = 0
        try:
            file = parquet.ParquetFile(opened)
            for batch in file.iter_batches(batch_size=size):
                rows = [_plain(row) for row in batch.to_pylist()]
                yield list(batch.schema.names), list(enumerate(rows, number + 1))
                number += len(rows)
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a Parquet file: {shorten(error)}.") from None


def _plain(row):
    return {name: cell if isinstance(cell, PLAIN) else str(cell) for name, cell in row.items()}
