"""What lies beside the weights in a directory, for a checkpoint that was written elsewhere."""

import contextlib
import pathlib

from keras_posenc.folders.folder import Folder
from keras_posenc.folders.written import sentence_transformers_files, write_files
from keras_posenc.text import Tokenizer


def copy_settings(sources, directory, max_length=None):
    """Writes tokenizer, pooling and prompts of other directories beside a checkpoint.

    Args:
        sources: list of str or path. Directories; of several, the last one that has a file counts.
            What is no directory is left out, and so is an adapter behind the first whose base model
            is not here.
        directory: str or path. Where the checkpoint is.
        max_length: int. Tokens after which sentence-transformers is to cut texts. Default: as in
            `sources`.

    Raises:
        FileNotFoundError: if the base model of a first adapter, or a module, is missing.

    Example:

    >>> _ = save_checkpoint(build_transformer_model("all-MiniLM-L6-v2"), "copy")
    >>> copy_settings(["all-MiniLM-L6-v2"], "copy")
    >>> embed("copy", ["A text."], verbose=0).shape
    (1, 384)
    """
    folders = [folder for source in sources if (folder := Folder.of(source)).is_directory]
    for folder in _with_bases(folders):
        with contextlib.suppress(FileNotFoundError):  # no tokenizer
            Tokenizer(folder).save(directory)
        write_files(pathlib.Path(directory), sentence_transformers_files(folder, max_length))


def _with_bases(folders):
    """The folders to read, bases first: an adapter alone takes from its base what it lacks."""
    bases, found = [], []
    for number, folder in enumerate(folders):
        try:
            base = folder.base
        except (FileNotFoundError, ValueError):
            if number:  # its base is the directory before, whatever its file names
                continue
            raise
        bases += [] if base is None else [base]
        found.append(folder)
    return [*bases, *found]
