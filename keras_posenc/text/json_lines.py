"""Results in a .jsonl file, a JSON object per line."""

import pathlib

from keras_posenc.files.untrusted import json_line
from keras_posenc.files.writing import check_place, make_folder, write_text


def check_jsonl(output, inputs=()):
    """Raises an error unless a file has this format, can be written and is none of the inputs; None
    is no file."""
    if output is None:
        return
    if pathlib.Path(output).suffix != ".jsonl":
        raise ValueError(f"`output` must be a .jsonl file. Received: {str(output)!r}")
    check_place(output, inputs)


def write_jsonl(output, rows):
    """Writes dicts, a line each; the folder of the file is created."""
    output = pathlib.Path(output)
    make_folder(output.parent)
    write_text(output, "".join(f"{json_line(row)}\n" for row in rows))
