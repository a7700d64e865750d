"""A file that is written part by part, and goes on where an interrupted call left it."""

import contextlib
import hashlib
import json
import os
import pathlib

from keras_posenc import backend
from keras_posenc.files import saved_records as e
from keras_posenc.files.side_files import (
    check_folder_is_ours,
    companion,
    identify,
    is_identified,
    remove_files,
)
from keras_posenc.files.untrusted import check_inside, read_json
from keras_posenc.files.writing import check_place, make_folder, named, open_regular, write_text
from keras_posenc.folders.written import LOCK, owned
from keras_posenc.training.progress import Progress, printer
from keras_posenc.training.runs import check_same_run, environment

# What is known of the parts that are written; at the end also of the whole file.
STATE = {"parts": 0, "bytes": 0, "digest": "", "data": "", "file": None}
BLOCK = 2**20  # bytes that are read at a time
DATA, RECIPE, PROGRESS = "data", "recipe.json", "progress.json"
# In the order in which they are removed: as long as the progress is there, the run is known.
NAMES = (DATA, PROGRESS, RECIPE, LOCK)
IDENTITY = e.keys({"bytes": e.count, "time": e.whole(most=2**63), "digest": e.string})
# What may be written into the folder of a model, and is no part of it.
OUTPUTS = (".npy", ".npz", ".jsonl", ".parquet")


def write_parts(
    output, settings, directory, stream, size, rows, compute, verbose="auto", ids=None, record=None
):
    """Writes what is computed of many texts, a part of `size` texts at a time.

    The parts are in the folder `output`.parts until all are there. Another call with the same
    arguments continues after the last part that is whole. A process killed at the end, while files
    are moved and removed, leaves a result that the next call completes without computing.

    `compute` takes a list of texts and the number of texts before them, and returns bytes. A change
    in `settings`, which decide what is computed, or in the model's `directory` makes another run.
    `ids` and `record` are written with the file. Raises BlockingIOError if another call writes the
    same output.
    """
    if backend.processes()[1] > 1:
        raise ValueError(
            "part_size is for one process: start each process without the others, with a `shard` "
            f"of its own. Received: part_size={size}"
        )
    output, folder = pathlib.Path(output), parts_folder(output)
    run = {
        **settings,
        "directory": str(directory),
        "files": _files(directory),
        "texts": len(stream),
        "part_size": size,
        "first": rows.start,
        "last": rows.stop,
        **environment(),
    }
    texts_and_ids = _Parts(stream, size, rows, ids)
    print_line = printer(verbose, to_errors=True)
    if not (folder / PROGRESS).exists() and _is_complete(record, run, texts_and_ids):
        print_line(f"{output} is complete. Remove it to compute it again.")
        remove_files(folder, NAMES)
        return
    make_folder(output.parent)
    with owned(folder):
        remedy = f"Give those arguments, another output, or remove {folder} to start again."
        check_same_run(folder, run, remedy)
        write_text(folder / RECIPE, json.dumps(run, indent=1, ensure_ascii=False))
        identity, digest = _finish(output, folder, texts_and_ids, compute, print_line)
        if record is not None:
            record.write(identity, {"settings": _digest(json.dumps(run)), "texts": digest})
        remove_files(folder, NAMES[:-1])
    remove_files(folder, NAMES)


def parts_folder(output):
    """The folder of the parts of a file that is not complete; OSError if it cannot be written."""
    check_place(output)
    folder = companion(output, ".parts")
    check_folder_is_ours(folder, NAMES)
    return folder


class _Parts:
    """The texts of a run, part by part, with a digest of them and their ids."""

    def __init__(self, stream, size, rows, ids):
        self._arguments, self._ids = (size, rows.start, rows.stop), ids
        self._stream, self.size, self.count = stream, size, -(-len(rows) // size)

    def __iter__(self):
        """Yields (texts, digest of these and of all before)."""
        digest = ""
        for number, texts in enumerate(self._stream.parts(*self._arguments)):
            first = number * self.size
            ids = None if self._ids is None else list(self._ids[first : first + self.size])
            digest = _digest(digest + repr(texts) + ("" if ids is None else repr(ids)))
            yield texts, digest


def _is_complete(record, run, parts):
    """Whether the record shows that the output is what this call would compute."""
    made = None if record is None else record.run()
    if made is None or made["settings"] != _digest(json.dumps(run)):
        return False
    return made["texts"] == [digest for _, digest in parts][-1]


def _finish(output, folder, parts, compute, print_line):
    """Writes the parts that are not there yet, and moves the file to its place; returns its
    identity and the digest of the texts."""
    state = _state(folder, output)
    moved = state["file"] is not None and not (folder / DATA).exists()
    with contextlib.ExitStack() as stack:
        file = None
        if not moved:
            file = stack.enter_context(contextlib.closing(open_regular(folder / DATA)))
        state = _write(file, folder, state, parts, compute, print_line)
    if not moved:
        state = state | {"file": identify(folder / DATA)}
        write_text(folder / PROGRESS, json.dumps(state))
        os.replace(folder / DATA, output)
    return state["file"], state["digest"]


def _write(file, folder, state, parts, compute, print_line):
    """Writes the parts that are not there yet, and returns the new state."""
    done = state["parts"]
    if done:
        print_line(f"resuming after part {done:,} of {parts.count:,}")
    progress = Progress(parts.count, done, print_line, unit="part")
    written = _written(file, folder, state)
    for number, (texts, digest) in enumerate(parts):
        if number < done:
            if number == done - 1 and digest != state["digest"]:
                raise ValueError(
                    f"{folder} holds parts of other texts, or ids, than those that are given: "
                    "remove it to start again, or give another output."
                )
            continue
        data = memoryview(compute(texts, number * parts.size))
        written.update(data)
        with named(folder / DATA):
            file.seek(state["bytes"])
            file.truncate()
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        facts = {"bytes": file.tell(), "digest": digest, "data": written.hexdigest()}
        state = {**STATE, "parts": number + 1, **facts}
        write_text(folder / PROGRESS, json.dumps(state))
        progress.step()
    return state


def _written(file, folder, state):
    """The digest of the parts that are there, which must be what was written."""
    found, left = hashlib.sha256(), 0 if file is None else state["bytes"]
    while left and (block := file.read(min(left, BLOCK))):
        found.update(block)
        left -= len(block)
    # Versions before 0.6 stored no digest.
    if file is not None and state["data"] not in ("", found.hexdigest()):
        raise ValueError(
            f"{folder / DATA} has changed since an earlier call wrote its parts: remove {folder} "
            "to start again."
        )
    return found


def _state(folder, output):
    """What the last call left, where it is sound."""
    path, data = folder / PROGRESS, folder / DATA
    if not path.exists():
        return dict(STATE)
    check_inside(path, folder)
    remedy = f"Remove {folder} to start again."
    state = STATE | read_json(path, remedy=remedy)
    if not data.exists() and isinstance(state["file"], dict):
        if not is_identified(output, state["file"]):
            raise ValueError(
                f"{output} was moved from {folder} by an earlier call, and has changed since then. "
                + remedy
            )
        data = output
    written = e.whole(most=data.stat().st_size if data.exists() else 0)
    keys = {"parts": e.count, "bytes": written, "digest": e.string, "data": e.string}
    keys |= {"file": e.maybe(IDENTITY)}
    return e.checked(path, state, e.keys(keys), remedy)


def _digest(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _files(directory):
    """A fingerprint of the names, sizes and times of the files of a model."""
    directory = pathlib.Path(directory)
    found = []
    for path in sorted(directory.rglob("*")):
        place = path.relative_to(directory)
        if path.is_file() and not any(map(_is_output, place.parts)):
            status = path.stat()
            found.append((str(place), status.st_size, status.st_mtime_ns))
    return _digest(repr(found))[:16]


def _is_output(name):
    """Whether a file or a folder of this name is temporary, or of an output."""
    return name.startswith(".") or name.removesuffix(".parts").removesuffix(".json").endswith(
        OUTPUTS
    )
