"""Files and folders that the library names itself, after a path of the user: v.npy.json of v.npy.

Such a name may be taken, by a file of the user or by a link that came with an archive. So it is
checked before anything is computed, and only files that the library wrote are replaced or removed.
"""

import contextlib
import hashlib
import os
import pathlib
import stat

from keras_posenc.files.writing import is_folder, is_partial

REMEDY = "the library keeps files under this name. Move it, or give another output."


def companion(path, suffix):
    """The path whose name is that of another path, with a suffix.

    Example:

    >>> companion("out/v.npy", ".json").name
    'v.npy.json'
    """
    path = pathlib.Path(path)
    return path.with_name(f"{path.name}{suffix}")


def check_file_is_ours(path, is_ours):
    """Refuses to replace a regular file, if it is there, that the library has not written."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{path} is refused: it is a link, a folder or a device, and {REMEDY}")
    if not is_ours(path):
        raise ValueError(f"{path} is refused: this library has not written it, and {REMEDY}")


def check_folder_is_ours(folder, names):
    """Refuses to write into a folder that holds other files than the library's `names`."""
    if not os.path.lexists(folder):
        return
    if not is_folder(folder):
        raise ValueError(f"{folder} is refused: it is a link or a file, and {REMEDY}")
    for path in sorted(folder.iterdir()):
        ours = is_partial(path) if is_folder(path) else path.name in names
        if not ours or path.is_symlink():
            raise ValueError(f"{path} is refused: a run has not written it. Move it elsewhere.")


def remove_files(folder, names):
    """Removes the files of these names in their order, and the folder if nothing else is in it."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def identify(path):
    """What distinguishes a file from a later one of the same name: size, time and digest."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": status.st_size, "time": status.st_mtime_ns, "digest": digest}


def is_identified(path, identity):
    """Whether a file is the one that `identify` was given; it is read only if its time changed."""
    if not os.path.isfile(path):
        return False
    status = os.stat(path)
    if status.st_size != identity.get("bytes"):
        return False
    same_time = status.st_mtime_ns == identity.get("time")
    return same_time or identify(path)["digest"] == identity.get("digest")
