"""Files of text: whether they are there, and their bytes as characters."""

import pathlib
import re
import typing

from keras_posenc.files.untrusted import UTF_16, check_name, check_pointer, check_text, quote

BY = '(iconv -f {} -t utf-8, or "CSV UTF-8" in a spreadsheet)'


class FilePart(typing.NamedTuple):
    """Rows of a table, in the place of the path of the whole table; see `file_parts`."""

    path: pathlib.Path
    columns: list
    rows: list

    @property
    def suffix(self):
        """That of the file."""
        return self.path.suffix

    def __str__(self):
        return str(self.path)


def existing(path):
    """The `pathlib.Path` of a file that there is; a `FilePart` as it is."""
    if isinstance(path, FilePart):
        return path
    path = pathlib.Path(path)
    check_name(path)
    if not path.is_file():
        hint = "" if path.suffix else f" A text is given in a list: [{quote(str(path))}]."
        raise FileNotFoundError(f"No file {path}.{hint}")
    return path


def existing_text(path):
    """The same of a file of text, or of Parquet."""
    path = existing(path)
    if not isinstance(path, FilePart) and path.suffix.lower() != ".parquet":
        with open(path, "rb") as file:
            check_text(path, file.read(1024))
    return path


def decode(path):
    """The text of a file, in UTF-8 and not empty; errors name the byte."""
    content = decode_any(path)
    if not content.strip():
        raise ValueError(f"{path} is empty.")
    return content


def decode_any(path):
    """The same, or no text."""
    data = path.read_bytes()
    check_pointer(path, data)
    check_no_utf16(path, data)
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        newline = b"\n" if b"\n" in data else b"\r"
        line = data.count(newline, 0, error.start) + 1
        byte = error.start - data.rfind(newline, 0, error.start)
        raise not_utf8(path, line, byte, data[error.start]) from None
    if "\ufeff" in content:  # of files that were joined, each with its mark
        content = re.sub(r"(^|(?<=[\r\n]))\ufeff+", "", content)
    return content


def check_no_utf16(path, data):
    """Refuses a file that begins with the mark of UTF-16."""
    if data[:2] in UTF_16:
        raise ValueError(
            f"{path}, line 1: this is UTF-16; convert the file to UTF-8 {BY.format('utf-16')}."
        )


def not_utf8(path, line, byte, value):
    """The error about a byte that is no part of UTF-8."""
    return ValueError(
        f"{path}, line {line}, byte {byte}: 0x{value:02x} is not UTF-8; convert the file to UTF-8 "
        f"{BY.format('latin1')}."
    )
