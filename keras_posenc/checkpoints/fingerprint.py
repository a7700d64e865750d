"""Which weights a path leads to, as a short hash."""

import hashlib
import pathlib

from keras_posenc.checkpoints.reader import weight_files
from keras_posenc.checkpoints.sentence_transformers import module_folders
from keras_posenc.folders.download import local_path

WEIGHTS = (".safetensors", ".bin", ".keras", ".h5")


def fingerprint(path):
    """A hash of the weights of a model, which is the same for copies of them.

    Args:
        path: str or path of a directory, whose modules count, of a file, or the prefix of a
            TensorFlow checkpoint.

    Returns:
        str, or None if there are no such files.
    """
    path = pathlib.Path(local_path(path))
    if path.is_dir():
        files = {file for folder in module_folders(path) for file in weight_files(folder)}
        return hash_of(files) if files else hash_of_all(path)
    files = [path] if path.is_file() else sorted(path.parent.glob(f"{path.name}.data-*"))
    return hash_of(files) if files else None


def hash_of_all(directory):
    """The same of all files with weights below a directory, also of those that nothing reads."""
    files = [path for path in pathlib.Path(directory).rglob("*") if path.is_file()]
    return hash_of(path for path in files if path.suffix in WEIGHTS or ".data-" in path.name)


def hash_of(files):
    """A hash of the contents of files, in any order."""
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]
