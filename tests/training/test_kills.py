"""A training that may be killed at any of its file operations: one run, copied before each of them.

A copy is what `kill -9` leaves at that moment, without what the process buffers, and no lock.
Copies that differ in temporary folders alone are one: nothing reads those, a new run clears them.
`make kills` kills processes instead, one for each operation.
"""

import contextlib
import os
import sys

import keras
import pytest
from training.kill_at_every_file import EVENTS, JOBS, NEW, OLD, pretrained, same

from keras_posenc.files.writing import PARTIAL

BACKEND = keras.backend.backend()
WATCHED = []  # an audit hook cannot be taken out again


def before_operation(event, arguments):
    if WATCHED and event in EVENTS and isinstance(arguments[0], (str, os.PathLike)):
        writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes:
            watched = WATCHED.pop()
            watched()
            WATCHED.append(watched)


sys.addaudithook(before_operation)


def lasting(files):
    return {path: files[path] for path in files if not path.parts[0].startswith(PARTIAL)}


@contextlib.contextmanager
def moments(folder):
    """Yields a list of all that is in a folder before each operation, as dicts: path -> bytes."""
    found = []

    def look():
        paths = sorted(path.relative_to(folder) for path in folder.rglob("*"))
        files = {p: (folder / p).read_bytes() if (folder / p).is_file() else None for p in paths}
        if not found or lasting(files) != lasting(found[-1]):
            found.append(files)

    WATCHED.append(look)
    try:
        yield found
    finally:
        WATCHED.remove(look)


def write(files, folder):
    folder.mkdir()
    for path, content in files.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
    return folder


@pytest.mark.once
@pytest.mark.parametrize("name", ["finetune", "pretrain"])
def test_any_moment_leaves_the_old_model_or_the_new_one(tmp_path, name):
    """And from there the same call goes on to the same weights."""
    job, source, output = JOBS[name], tmp_path / "source", tmp_path / "output"
    pretrained(source)
    job.run(source, OLD, output)
    old = job.end(output)
    with moments(output) as found:
        job.run(source, NEW, output, overwrite=True)
    new = job.end(output)
    assert not same(old[0], new[0])
    left = []
    for number, files in enumerate(found):
        weights, labels = job.state(write(files, tmp_path / str(number)))
        left.append("new" if same(weights, new[0]) else "old")
        assert same(weights, (new if left[-1] == "new" else old)[0]), number
        assert labels == (new if left[-1] == "new" else old)[1], number
    assert left == sorted(left, reverse=True) and set(left) == {"old", "new"}

    assert len(found) > 10
    resumed = [n for n, files in enumerate(found) if any(p.name == "state.zip" for p in files)]
    resumed = [resumed[0], resumed[-1]]
    if BACKEND == "torch":  # which compiles nothing
        resumed = sorted({*resumed, *range(0, len(found), 4), left.index("new")})
    for number in resumed:
        folder = tmp_path / str(number)
        # The same call starts again, since it overwrites; without that it resumes, or refuses.
        try:
            job.run(source, NEW, folder, overwrite=not (folder / "recipe.json").exists())
        except ValueError as error:  # the old recipe is still there
            assert "overwrite" in str(error)
            job.run(source, NEW, folder, overwrite=True)
        assert same(job.state(folder)[0], new[0]), number
        assert not list(folder.glob(".[prs]*")) and not (folder / "state.zip").exists(), number
