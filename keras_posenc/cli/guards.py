"""Around a command: its files are looked for before a backend is imported; signals end it."""

import contextlib
import errno
import os
import signal
import sys
import threading

from keras_posenc.files.untrusted import check_name
from keras_posenc.folders import huggingface
from keras_posenc.folders.download import from_hub, local_path
from keras_posenc.folders.folder import Folder
from keras_posenc.text.folders import matching

MODELS = ("checkpoint", "directory", "reranker")
FILES = (
    "adapter", "config", "corpus", "data", "documents", "file", "pairs", "stretch_first", "test",
    "texts", "tokenizer", "train", "validation", "vectors",
)  # fmt: skip


def check_files(arguments):
    """Raises OSError or ValueError for an argument that is a path of what cannot be read.

    A model of the Hub (`hf://owner/name`) is downloaded.
    """
    for name in (*MODELS, *FILES):
        path = arguments.get(name)
        if not isinstance(path, str):  # not given, a number, or texts
            continue
        check_name(path)
        if name not in MODELS and not os.path.exists(path) and any(matching(path)):
            continue
        path = local_path(path) if name in MODELS else path
        try:
            readable = os.access(
                path, os.R_OK, effective_ids=os.access in os.supports_effective_ids
            )
            os.stat(path)
        except FileNotFoundError:
            if name not in MODELS:
                raise
            _check_prefix(path, "checkpoint" if name == "checkpoint" else "directory")
        else:
            if not readable:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    path = arguments.get("checkpoint")
    if isinstance(path, str) and (folder := Folder.of(path)).is_directory:
        if folder.kind == "huggingface":
            huggingface.weights_file(folder)


def _check_prefix(path, what):
    """Refuses a model without files. One of TensorFlow is several files that share a prefix."""
    if not os.path.exists(f"{path}.index"):
        raise FileNotFoundError(
            f"There is no {what} at {path}: no such file or folder.{from_hub(path)}"
        )


# Time for what closes files on its way out.
AGAIN_AFTER = 5


@contextlib.contextmanager
def interruptible():
    """Makes SIGINT and SIGTERM raise KeyboardInterrupt until it takes effect.

    One raise is not enough. Python drops what is raised in callbacks of its garbage collector, and
    Keras has an `except:` where it inspects the inputs of a model, so the training would continue.
    If the system has SIGALRM, the interrupt is raised again after `AGAIN_AFTER` seconds, without a
    message about the one that was dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup has it ignored
        signals.append(signal.SIGINT)
    again = hasattr(signal, "SIGALRM")
    signals += [signal.SIGALRM] if again else []

    def interrupt(number, frame):
        if again:
            signal.alarm(AGAIN_AFTER)
        raise KeyboardInterrupt

    def dropped(found):
        if found.exc_type is not KeyboardInterrupt:
            default_hook(found)

    before = {number: signal.signal(number, interrupt) for number in signals}
    default_hook = sys.unraisablehook
    if again:
        sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = default_hook
        if again:
            signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
