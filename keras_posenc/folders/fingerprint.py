"""Which weights a directory has, as a short hash."""

import hashlib

from keras_posenc.folders.sentence_transformers import module_folders

WEIGHTS = (".safetensors", ".bin", ".keras", ".h5")


def fingerprint(folder):
    """A hash of the weights of a model and its modules, the same for copies; None without such
    files."""
    folders = [folder] if folder.file else module_folders(folder)
    files = {file for each in folders for file in each.weights}
    if files:
        return hash_of(files)
    return hash_of_all(folder.path) if folder.is_directory else None


def hash_of_all(directory):
    """The same of all files with weights below a directory, also of those that nothing reads."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return hash_of(path for path in files if path.suffix in WEIGHTS or ".data-" in path.name)


def hash_of(files):
    """A hash of the contents of files, in any order."""
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:16]
