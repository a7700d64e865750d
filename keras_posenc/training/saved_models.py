"""Loads the directories that `finetune` and `TextModel.save` write."""

# Importing these modules registers our layers, which loading a saved model needs.
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.folders.finetuned import (
    LABELS,
    MODEL,
    SETTINGS,
    check_files,
    check_finished,
    saved_settings,
)
from keras_posenc.folders.folder import Folder
from keras_posenc.models import heads  # noqa: F401
from keras_posenc.text import Tokenizer
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.text_model import FIELDS, TextModel, check_chunks


def load_text_model(directory, max_length=None, token_budget=None, chunks=None, pool=None):
    """Returns the `TextModel` that `TextModel.save` or `finetune` wrote.

    Args:
        directory: str or path.
        max_length: int or None. Tokens after which documents are truncated; default as saved.
        token_budget: int or None. Maximum tokens in a batch; default as saved.
        chunks: int or None. As in `TextModel`; default as saved, or None if `max_length` is given.
        pool: str or None. As in `TextModel`; default as saved, or "mean" if `chunks` is given.

    Raises:
        FileNotFoundError: if the directory or a file in it is missing.

    Example:

    >>> TextModel(embedder("all-MiniLM-L6-v2"), Tokenizer("all-MiniLM-L6-v2"), 32).save("mine")
    >>> load_text_model("mine").max_length
    32
    """
    folder = Folder.of(directory)
    if not folder.has(folder.newest(SETTINGS)) and folder.has(folder.newest(LABELS)):
        return load_finetuned(folder, max_length, token_budget, chunks, pool)
    check_files(folder, (MODEL, SETTINGS, "tokenizer.json"), "what TextModel.save wrote")
    settings = saved_settings(folder, SETTINGS)
    return _load(folder, settings, max_length, token_budget, chunks, pool)


def load_finetuned(directory, max_length=None, token_budget=None, chunks=None, pool=None):
    """Returns the `TextModel`, with its task, that `finetune` saved.

    Args:
        directory: str or path, the `output` of `finetune`.
        max_length, token_budget, chunks, pool: as in `load_text_model`.

    Raises:
        FileNotFoundError: if `directory` does not exist or lacks a file.

    Example:

    >>> finetuned = load_finetuned("out", max_length=32)
    >>> finetuned.label_names
    ['a', 'b', 'c']
    """
    folder = Folder.of(directory)
    return _load(folder, saved_as(folder), max_length, token_budget, chunks, pool)


def task_of(directory):
    """The `FinetuneTask` of a model that `finetune` saved, which is not loaded."""
    return TASKS[saved_as(directory)["task"]]


def label_names_of(directory):
    """The names of the outputs of a model that `finetune` saved, which is not loaded."""
    return saved_as(directory)["labels"]


def saved_as(directory):
    """The settings of a model that `finetune` saved, which is not loaded."""
    folder = Folder.of(directory)
    check_finished(folder)
    return folder.finetuned


def _load(folder, settings, max_length, token_budget, chunks, pool):
    check_chunks(chunks, max_length)
    settings = dict(settings)
    pad_id = settings.pop("pad_id")
    model = load_keras(folder.place(folder.newest(MODEL)))
    name = folder.newest("tokenizer.json")
    tokenizer = Tokenizer(folder if name == "tokenizer.json" else folder.place(name))
    tokenizer.pad_id = tokenizer.pad_id if pad_id is None else pad_id
    if chunks is not None:
        settings |= {"chunks": chunks, "pool": "mean"}
    settings |= {} if pool is None else {"pool": pool}
    if max_length is not None:
        settings |= {"max_length": max_length, "chunks": None}
        if settings["stride"] is not None:
            settings["stride"] = min(settings["stride"], max_length // 4)
    if token_budget is not None:
        settings["token_budget"] = token_budget
    try:
        settings = {FIELDS.get(key, key): value for key, value in settings.items()}
        return TextModel(model, tokenizer, **settings)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
