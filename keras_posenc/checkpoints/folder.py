"""A directory that one run locks, and whose results are replaced together."""

import contextlib
import os
import pathlib
import re
import socket

from keras_posenc.files.untrusted import check_inside, check_name, shorten
from keras_posenc.files.writing import (
    alone,
    check_folder,
    clear_partials,
    is_folder,
    make_folder,
    open_regular,
    released,
    remove,
    temporary_folder,
)

LOCK = ".lock"
RESULTS = ".results"  # complete, and newer than what lies beside it
COMPLETE = ".complete"  # in them, until they are in their places
HOLDER = re.compile(r"\d+ on .*")
FAR = 2**30  # on Windows a lock keeps others from reading the bytes it is on


@contextlib.contextmanager
def owned(folder):
    """Creates a directory and locks it; the system releases the lock when the process ends.

    A fork of the process does not keep the lock.

    Args:
        folder: `pathlib.Path`.

    Raises:
        NotADirectoryError: if it is a file.
        BlockingIOError: if another run holds the lock.
    """
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"output={os.fspath(folder)!r} is a file; give a directory.")
    make_folder(folder)
    with open_regular(folder / LOCK) as file:
        locked = _lock(file)
        file.seek(0)
        holder = file.read(200).decode("utf-8", "replace")
        if holder and not HOLDER.fullmatch(holder):
            raise ValueError(
                f"{folder / LOCK} is refused: a run keeps its lock under this name, and this is "
                "another file. Move it, or give another output."
            )
        if not locked:
            holder = shorten(holder) or "unknown"
            raise BlockingIOError(
                f"{folder} is in use by another run, process {holder}: wait for its end, stop it, "
                "or give another output."
            )
        with released(file.fileno(), file.close):
            file.truncate(0)
            file.seek(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}".encode())
            clear_partials(folder)
            with alone(folder):
                _settle(folder)
            yield


def _lock(file):
    """Tries to lock an open file, without waiting; returns whether it succeeded."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def replacing_together(folder):
    """Yields a new directory, whose files replace those of `folder` once all are written.

    A single rename decides: a process killed before it leaves the old files, and one killed after
    it the new ones, which `newest` finds.

    Args:
        folder: `pathlib.Path`, created if missing.

    Yields:
        `pathlib.Path` of an empty directory.
    """
    make_folder(folder)
    clear_partials(folder)
    with temporary_folder(folder) as place:
        partial = place / "results"
        partial.mkdir()
        yield partial
        with alone(folder):  # each of several writers replaces all files
            _settle(folder)
            (partial / COMPLETE).touch()
            os.rename(partial, folder / RESULTS)
            _settle(folder)


def newest(folder, name):
    """The current path of a file of a directory, even if its results are not all in place yet."""
    folder = pathlib.Path(folder)
    path = folder / RESULTS / name
    path = path if path.exists() else folder / name
    check_inside(path, folder)
    return path


def _settle(folder):
    """Moves new results to their places; `newest` finds those that are not moved yet."""
    results = folder / RESULTS
    check_folder(results)
    if results.is_dir():
        mark = results / COMPLETE
        # Runs of versions before 0.5 have no mark.
        if not mark.exists() and not (folder / "recipe.json").exists() and any(results.iterdir()):
            raise ValueError(
                f"{results} is refused: it holds files that no run wrote. Move it, or give another "
                "output."
            )
        for path in sorted(set(results.iterdir()) - {mark}):
            target = folder / path.name
            if is_folder(path) or is_folder(target):  # which no rename replaces
                remove(target)
            os.replace(path, target)
        mark.unlink(missing_ok=True)
        results.rmdir()
