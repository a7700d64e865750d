"""Tables in Parquet's format, read by pyarrow a part at a time."""

from keras_posenc.files.untrusted import check_pointer, quote, shorten

# What a label or a text may be; other cells, such as dates, become str.
PLAIN = (str, int, float, bool, list, dict, type(None))


def parquet_parts(path, size):
    """Yields (columns, rows) of a file; rows are (number from 1, dict).

    `size`: int, rows of a part. Raises ImportError without pyarrow.
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
            names = file.schema_arrow.names
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{path}: two columns are named {quote(twice)}; rename one.")
            for batch in file.iter_batches(batch_size=size):
                rows = []
                for row in batch.to_pylist():
                    number += 1
                    rows.append((number, {k: _plain(path, number, v) for k, v in row.items()}))
                yield names, rows
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a Parquet file: {shorten(error)}.") from None


def _plain(path, number, cell):
    """A cell as a label or a text may be; some writers leave texts as bytes."""
    if isinstance(cell, list):
        return [_plain(path, number, part) for part in cell]
    if isinstance(cell, dict):
        return {key: _plain(path, number, part) for key, part in cell.items()}
    if isinstance(cell, bytes):
        try:
            return cell.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}, line {number}: a cell of bytes is not UTF-8. Received: {quote(cell)}"
            ) from None
    return cell if isinstance(cell, PLAIN) else str(cell)
