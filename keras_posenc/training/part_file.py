"""A file that is written part by part, and goes on where an interrupted call left it."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil

from keras_posenc import backend
from keras_posenc import expected as e
from keras_posenc.checkpoints.folder import owned
from keras_posenc.training.progress import Progress, printer
from keras_posenc.training.runs import check_same_run, environment
from keras_posenc.untrusted import check_inside, read_json
from keras_posenc.writing import make_folder, open_regular, write_text

# What is known of the parts that are written.
STATE = {"parts": 0, "bytes": 0, "digest": ""}


def write_parts(output, settings, directory, stream, size, rows, compute, verbose="auto"):
    """Writes what is computed of many texts, a part at a time.

    The parts are in the folder `output`.parts until all are there. Another call with the same
    arguments continues after the last part that is whole.

    Args:
        output: str or path. The file.
        settings: dict. What decides what is computed, as JSON can store it.
        directory: str or path. The model's folder. A change in it makes another run.
        stream: `TextStream`.
        size: int. Texts per part.
        rows: range. The texts to read.
        compute: Function of a list of texts and of the number of texts before them. It returns
            bytes.
        verbose: int. 0 prints no progress.

    Raises:
        BlockingIOError: if another call writes the same output.
        ValueError: if there are parts of a call with other arguments, or of other texts.
    """
    if backend.processes()[1] > 1:
        raise ValueError(
            "part_size is for one process: start each process without the others, with a `shard` "
            f"of its own. Received: part_size={size}"
        )
    output = pathlib.Path(output)
    if output.is_dir():
        raise ValueError(f"{output} is a folder: give the path of a file, which is replaced.")
    make_folder(output.parent)
    folder = output.with_name(f"{output.name}.parts")
    record = {
        **settings,
        "directory": str(directory),
        "files": _files(directory),
        "texts": len(stream),
        "part_size": size,
        "first": rows.start,
        "last": rows.stop,
        **environment(),
    }
    with owned(folder):
        remedy = f"Give those arguments, another output, or remove {folder} to start again."
        check_same_run(folder, record, remedy)
        write_text(folder / "recipe.json", json.dumps(record, indent=1, ensure_ascii=False))
        with contextlib.closing(open_regular(folder / "data")) as file:
            _write(file, folder, record, stream, compute, printer(verbose, to_errors=True))
        os.replace(folder / "data", output)
    shutil.rmtree(folder)


def _write(file, folder, record, stream, compute, print_line):
    """Writes the parts that are not there yet."""
    state = _state(folder, file)
    first, last, size = record["first"], record["last"], record["part_size"]
    total = -(-(last - first) // size)
    if state["parts"]:
        print_line(f"resuming after part {state['parts']:,} of {total:,}")
    progress = Progress(total, state["parts"], print_line, unit="part")
    digest = ""
    for number, texts in enumerate(stream.parts(size, first, last)):
        digest = _chained(digest, texts)
        if number < state["parts"]:
            if number == state["parts"] - 1 and digest != state["digest"]:
                raise ValueError(
                    f"{folder} holds parts of other texts than those that are given: remove it to "
                    "start again, or give another output."
                )
            continue
        file.seek(state["bytes"])
        file.truncate()
        data = memoryview(compute(texts, number * size))
        while data:
            data = data[file.write(data) :]
        os.fsync(file.fileno())
        state = {"parts": number + 1, "bytes": file.tell(), "digest": digest}
        write_text(folder / "progress.json", json.dumps(state))
        progress.step()


def _state(folder, file):
    """What the last call left, where it is sound."""
    path = folder / "progress.json"
    if not path.exists():
        return STATE
    check_inside(path, folder)
    written = e.whole(most=os.fstat(file.fileno()).st_size)
    expected = e.keys({"parts": e.count, "bytes": written, "digest": e.string})
    return e.checked(path, read_json(path), expected, f"Remove {folder} to start again.")


def _chained(digest, texts):
    """A fingerprint of texts and of all that came before them."""
    content = digest + repr(texts)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _files(directory):
    """A fingerprint of the names, sizes and times of the files of a model."""
    directory = pathlib.Path(directory)
    found = []
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            status = path.stat()
            found.append((str(path.relative_to(directory)), status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()[:16]
