"""A folder that one run owns while it lasts, and whose results are replaced together."""

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
    """Makes a folder and keeps other runs out of it; the system ends that with the process.

    Args:
        folder: `pathlib.Path`.

    Raises:
        NotADirectoryError: it is a file.
        BlockingIOError: another run owns it.
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
    """Whether the lock on an open file could be had. It is never taken from another's hands."""
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
    """Yields a new folder, whose files replace those of a folder once all of them are written.

    One rename decides: a process killed before it leaves the old files, one killed after it the new
    ones, as `newest` finds them.

    Args:
        folder: `pathlib.Path`, made if missing.

    Yields:
        `pathlib.Path` of an empty folder.
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
    """The path of a file of a folder, also where its results were not all moved to their places."""
    path = pathlib.Path(folder) / RESULTS / name
    return path if path.exists() else pathlib.Path(folder) / name


def _settle(folder):
    """Moves new results to their places; those that are not yet moved are still found."""
    if (folder / RESULTS).is_dir():
        for path in sorted((folder / RESULTS).iterdir()):
            os.replace(path, folder / path.name)
        (folder / RESULTS).rmdir()
