"""A directory that one run locks, and whose results are replaced together."""

import contextlib
import os
import pathlib
import shutil
import socket

from keras_posenc.untrusted import shorten

LOCK = ".lock"
RESULTS = ".results"  # complete, and newer than what lies beside it
FAR = 2**30  # on Windows a lock keeps others from reading the bytes it is on


@contextlib.contextmanager
def owned(folder):
    """Creates a directory and locks it; the system releases the lock when the process ends.

    Args:
        folder: `pathlib.Path`.

    Raises:
        NotADirectoryError: if it is a file.
        BlockingIOError: if another run holds the lock.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"output={os.fspath(folder)!r} is a file; give a directory.")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        if not _lock(file):
            file.seek(0)
            holder = shorten(file.read(200)) or "unknown"
            raise BlockingIOError(
                f"{folder} is in use by another run, process {holder}: wait for its end, stop it, "
                "or give another output."
            )
        file.truncate(0)
        file.write(f"{os.getpid()} on {socket.gethostname()}")
        file.flush()
        for path in folder.glob(".partial-*"):  # what a kill while writing leaves
            shutil.rmtree(path) if path.is_dir() else path.unlink()
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
    partial = folder / ".partial-results"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        _settle(folder)
        os.rename(partial, folder / RESULTS)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _settle(folder)


def newest(folder, name):
    """The current path of a file of a directory, even if its results are not all in place yet."""
    path = pathlib.Path(folder) / RESULTS / name
    return path if path.exists() else pathlib.Path(folder) / name


def _settle(folder):
    """Moves new results to their places; `newest` finds those that are not moved yet."""
    if (folder / RESULTS).is_dir():
        for path in sorted((folder / RESULTS).iterdir()):
            if path.is_dir():  # which no rename replaces
                shutil.rmtree(folder / path.name, ignore_errors=True)
            os.replace(path, folder / path.name)
        (folder / RESULTS).rmdir()
