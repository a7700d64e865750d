"""Untrusted files: bounded reading, and text from them that is safe to print."""

import json
import os
import pathlib
import re
import reprlib
import stat

MOST_JSON = 2**24  # bytes; Python objects take up to 25 times as many
MOST_QUOTED = 200  # characters
# What moves a terminal's cursor, colours it, ends a line, or turns the direction of what follows;
# a byte order mark, which readers drop at the start of a file.
CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
# How files begin that are no text -> what they are, and how to get the text.
FORMATS = {
    rb"\x1f\x8b": ("is compressed by gzip", "unpack it (gzip -dc {0} > {1})"),
    rb"BZh\d1AY&": ("is compressed by bzip2", "unpack it (bzip2 -dc {0} > {1})"),
    rb"\xfd7zXZ\0": ("is compressed by xz", "unpack it (xz -dc {0} > {1})"),
    rb"\x28\xb5\x2f\xfd": ("is compressed by zstd", "unpack it (zstd -dc {0} > {1})"),
    rb"PK\x03\x04": (
        "is a zip archive or a spreadsheet (.xlsx)",
        'unpack it (unzip {0}), or export the spreadsheet as "CSV UTF-8"',
    ),
    rb"7z\xbc\xaf\x27\x1c": ("is a 7z archive", "unpack it (7z x {0})"),
    rb"PAR1[\x0e-\x1f]": ("is a Parquet file", "rename it to {2}.parquet"),
    rb"%PDF-\d": ("is a PDF file", "extract its text (pdftotext {0} {2}.txt)"),
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SURROGATES = re.compile("[\ud800-\udfff]")  # no encoding can write them
# Spreadsheets remove the quotes around a cell before they look for a formula.
FORMULA = re.compile(r"[\"\s]*[=+\-@\uff1d\uff0b\uff0d\uff20].", re.DOTALL)

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MOST_QUOTED


def check_file(path):
    """Raises ValueError unless a path leads to a regular file.

    Opening a pipe may block for ever, and a device may have no end.
    """
    check_name(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is not an ordinary file, but a folder, a pipe or a device.")


def check_name(path):
    """Raises ValueError if a path has control characters: errors show paths whole."""
    if CONTROLS.search(os.fsdecode(path)):
        raise ValueError(f"The path {quote(os.fsdecode(path))} has control characters: rename it.")


def check_inside(path, folder):
    """Raises ValueError if a file or folder in a folder is a link out of it.

    Such a link could come out of an unpacked archive and put the reader's own files into a model.
    In the cache of Hugging Face the files of a snapshot are links into the model's own blobs:
    `models--NAME/snapshots/REVISION/FILE` leads to `models--NAME/blobs/HASH`.
    """
    try:
        # Not `strict`: a file that is missing, or a link to nothing, is for the reader to report.
        real, root = pathlib.Path(path).resolve(), pathlib.Path(folder).resolve()
    except RuntimeError:  # links in a circle, before Python 3.13
        return
    if real.is_relative_to(root):
        return
    for revision in (root, *root.parents):
        if revision.parent.name == "snapshots" and real.parent == revision.parents[1] / "blobs":
            return
    raise ValueError(
        f"{path} is refused: it is a link to a file elsewhere, {quote(str(real))}. If you trust "
        "it, put a copy in its place."
    )


def read_bytes(path, most=MOST_JSON):
    """Reads at most `most` bytes of a regular file."""
    check_file(path)
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is refused: it is longer than {most} bytes.")
    check_pointer(path, data)
    return data


def check_pointer(path, start):
    """Raises ValueError if a file, which begins with `start`, is what Git LFS keeps in its place.

    A clone without `git lfs`, and many a download, has such a text of three lines for each large
    file, among them tokenizers.
    """
    if start.startswith(b"version https://git-lfs"):
        raise ValueError(
            f"{path} is a git-LFS pointer, not the file itself: run `git lfs pull`, or download "
            "the file again."
        )


def check_text(path, start):
    """Raises ValueError if a file that is to be text is compressed, or of another format."""
    for magic, (what, remedy) in FORMATS.items():
        if re.match(magic, start):
            suffix = "".join(path.suffixes[:1]) or ".txt"
            stem = path.name.partition(".")[0] or "texts"
            remedy = remedy.format(path.name, f"{stem}-unpacked{suffix}", stem)
            raise ValueError(f"{path} {what}, and no text: {remedy}.")
    if b"\0" not in start or start[:2] in UTF_16:
        return
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # else a character may go on behind the start
            raise ValueError(
                f"{path} is a binary file, and no text: give a file of text in UTF-8."
            ) from None


def read_json(path, keys=(), kind=dict, nan=True, remedy="Restore or delete it."):
    """The content of a JSON file, by default of one that a run wrote; an object has the `keys`."""
    data = read_bytes(path)
    try:
        value = parse_json(data, nan)
        if not isinstance(value, kind):
            raise ValueError(f"it holds a {type(value).__name__}")
        missing = [key for key in keys if key not in value]
        if missing:
            raise ValueError(f"it lacks {missing[0]}")
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({shorten(error)}). {remedy}") from None
    return value


def read_object(path, folder):
    """The object in a JSON file that comes with a model; {} where there is no such file."""
    if not os.path.exists(path):
        return {}
    check_inside(path, folder)
    return read_json(path, nan=False, remedy="Download it again.")


def parse_json(data, nan=False):
    """Parses a JSON text in UTF-8; with `nan`, NaN and Infinity are numbers, as Python has them."""
    constant = float if nan else _constant
    text = data.decode("utf-8-sig")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=constant)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _constant(name):
    raise ValueError(f"it has {name}, which is not JSON")


def _object(pairs):
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"it has the key {quote(twice)} twice")
    return mapping


def quote(value):
    """`repr` of a value from a file, in one line of bounded length."""
    return shorten(_REPR.repr(value))


def shorten(text, most=MOST_QUOTED):
    """Shortens text to one line of at most `most` characters, without control characters."""
    text = str(text)[: most + 1]
    text = re.sub(r"\s+", " ", text)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def visible(text):
    """Text with control characters and surrogates escaped, and nothing else changed or left out."""
    return _escaped(text, lambda found: ascii(found[0])[1:-1])


def visible_lines(text):
    """As `visible`, for text of several lines and columns: line ends and tabs stay."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def visible_json(text):
    """JSON text with control characters and surrogates in its strings escaped: the same values."""
    return _escaped(text, lambda found: f"\\u{ord(found[0]):04x}")


def json_line(row):
    """A line of a .jsonl file: a dict as JSON, without its line end, as `visible_json`."""
    return visible_json(json.dumps(row, ensure_ascii=False))


def _escaped(text, escape):
    return SURROGATES.sub(escape, CONTROLS.sub(escape, text))


def cell(text):
    """The text of a cell of a TSV or CSV file: one line, and no formula to a spreadsheet.

    What begins like a formula, and is no number, gets an apostrophe in front, as a user of a
    spreadsheet would type it.
    """
    text = visible(" ".join(text.split()))
    return f"'{text}" if FORMULA.match(text) and not _is_number(text) else text


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
