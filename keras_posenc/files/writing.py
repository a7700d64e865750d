"""Files that are written whole or not at all, and never through a link that someone else made.

A folder may belong to an archive from elsewhere, or others may write to it. So no temporary file
has a name that can be known before: each lies in a new folder, which only this user may enter.
"""

import contextlib
import os
import pathlib
import re
import shutil
import stat
import tempfile

try:
    import fcntl
except ImportError:  # on Windows, where folders cannot be locked
    fcntl = None

PARTIAL = ".partial-"
DRAWN = re.compile(re.escape(PARTIAL) + "[a-z0-9_]{8}")  # with what `tempfile` appends
_LOCKS = {}  # numbers of open files that are locked, and what closes each
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path on the same disk that replaces `path` once it is completely written.

    A process killed before that leaves `path` unchanged; what it wrote is removed by the next one.
    If `path` is a link to a file, the file replaces the link, and not what it leads to.
    """
    path = pathlib.Path(path)
    _check_replaceable(path)
    clear_partials(path.parent, {path.name})
    with temporary_folder(path.parent) as folder:
        partial = folder / path.name
        with named(path):
            yield partial
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
        os.replace(partial, path)


@contextlib.contextmanager
def named(path):
    """Puts a path into an error about a full disk, which names none: writing knows only numbers."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        elif error.errno is None and "written" in str(error):  # as NumPy has it
            error.args = (f"{path} cannot be written: {error}. Is the disk full?",)
        raise


def check_place(path, inputs=()):
    """Refuses a path where no file can be written, before anything is computed for it.

    Its folder need not be there. `inputs` is what is read: paths, which may be those of files, or
    anything else.
    """
    path = pathlib.Path(path)
    _check_replaceable(path)
    for each in inputs:
        if isinstance(each, (str, os.PathLike)) and is_same(path, each):
            raise ValueError(f"{path} is read and would be replaced: give another path as output.")
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise _no_folder(path.parent)
    try:
        with temporary_folder(folder):
            clear_partials(folder, set())  # of killed checks: nothing else may be written here
    except OSError as error:
        raise type(error)(
            f"{path} cannot be written, because nothing can be created in {folder} "
            f"({error.strerror}): give another path."
        ) from None


def is_same(path, other):
    """Whether two paths lead to the same file or folder; a text that is no path leads to none."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one is missing, or is a text and no path
        return False


def _check_replaceable(path):
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path} is a folder, a pipe or a device: give the path of a file, which is replaced."
        )


def make_folder(folder):
    """Creates a folder, and those that it lies in; NotADirectoryError if one is a file."""
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _no_folder(folder) from None
    return folder


def _no_folder(folder):
    return NotADirectoryError(
        f"{folder} cannot be created: it, or a folder that it lies in, is a file. Give another "
        "path."
    )


def write_text(path, text):
    """Writes `text` to `path` in UTF-8, atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


@contextlib.contextmanager
def temporary_folder(parent):
    """Yields a new folder in another one, and removes it with all that is still in it.
    `clear_partials` leaves it alone until this process ends."""
    with contextlib.ExitStack() as locks:
        folder, process = None, os.getpid()
        # `clear_partials` of another process may remove a folder before it is locked.
        while folder is None or not folder.exists():
            folder = pathlib.Path(tempfile.mkdtemp(prefix=PARTIAL, dir=parent))
            with contextlib.suppress(FileNotFoundError):
                locks.enter_context(alone(folder))
        try:
            yield folder
        finally:
            if os.getpid() == process:  # a fork that ends here leaves it to the process that writes
                shutil.rmtree(folder, ignore_errors=True)


def clear_partials(folder, names=None):
    """Removes temporary folders of killed processes: all, or those with no files but `names`, where
    one that another process is using is locked."""
    for path in filter(is_partial, folder.glob(f"{PARTIAL}*")):
        with contextlib.suppress(OSError), alone(path, wait=False):
            if names is None or fcntl is not None and names.issuperset(os.listdir(path)):
                shutil.rmtree(path, ignore_errors=True)


def is_partial(path):
    """Whether a path is a folder with a name that `temporary_folder` draws."""
    return bool(DRAWN.fullmatch(path.name)) and is_folder(path)


@contextlib.contextmanager
def alone(folder, wait=True):
    """In it, no other process or thread that asks for the same is in this folder; without `wait`,
    BlockingIOError is raised where one is."""
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    with released(number, lambda: os.close(number)):
        _flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@contextlib.contextmanager
def released(number, close):
    """Releases the lock of an open file at the end, and closes it, also in forks of this process.

    A fork has a copy of the open file, which would keep the lock: it closes its copy when it
    begins. It may begin after the end here, so the lock is released, not left to the closing.
    """
    _LOCKS[number] = close
    try:
        yield
    finally:
        if _LOCKS.pop(number, None) is not None:  # else this is a fork, which has closed it
            if fcntl is not None:
                _flock(number, fcntl.LOCK_UN)
            close()


def _forget():
    for close in list(_LOCKS.values()):
        close()
    _LOCKS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _flock(number, operation):
    try:
        fcntl.flock(number, operation)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        pass


def open_regular(path):
    """Opens a file to read and write in binary, and creates it; refuses a link or a pipe."""
    flags = os.O_RDWR | os.O_CREAT | NO_LINK | getattr(os, "O_BINARY", 0)
    try:
        number = os.open(path, flags, 0o666)
    except OSError:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise _refusal(path) from None
        raise
    status = os.fstat(number)
    # A second name may be that of a file elsewhere.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        raise _refusal(path)
    return open(number, "rb+", buffering=0)


def subfolder(parent, name):
    """Creates a folder in a folder of ours, or finds it."""
    path = parent / name
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    check_folder(path)
    return path


def check_folder(path):
    """Raises ValueError if a path in a folder of ours is there, but is not a folder."""
    if os.path.lexists(path) and not is_folder(path):
        raise _refusal(path)


def is_folder(path):
    """Whether a path is a folder, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path):
    """Removes a file, a link or a folder; what a link leads to stays."""
    if is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _refusal(path):
    return ValueError(
        f"{path} is refused: a run writes there, and it is a link to something else, or neither a "
        "file nor a folder of a run. Delete it, or give another output."
    )
