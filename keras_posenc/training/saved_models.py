"""Loads the directories that `finetune` and `TextModel.save` write."""

import pathlib

# Importing these modules registers our layers, which loading a saved model needs.
from keras_posenc.checkpoints.folder import newest
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import read_json
from keras_posenc.folders.download import local_path
from keras_posenc.folders.hub_names import from_hub
from keras_posenc.models import heads  # noqa: F401
from keras_posenc.text import Tokenizer
from keras_posenc.training.finetuning.task import POOLS
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.text_model import (
    FIELDS,
    LABELS,
    SETTINGS,
    SIDES,
    TextModel,
    check_chunks,
)

FILES = ("model.keras", LABELS)
MORE = ("task", "stride", "pad_id", "prompts", "chunks", "pool")
# What the settings of a model must be, by the keys of its file. Earlier versions wrote fewer.
OPTIONAL = {
    "prompt": e.string,
    "stride": e.maybe(e.count),
    "pad_id": e.maybe(e.count),
    "prompts": e.maybe(e.keys(dict.fromkeys(SIDES, e.string))),
    "chunks": e.maybe(e.positive),
    "pool": e.one_of(POOLS),
}
WITH_TASK = e.keys(
    {
        "labels": e.every(e.string),
        "max_length": e.maybe(e.positive),
        "token_budget": e.positive,
    },
    {**OPTIONAL, "task": e.one_of(TASKS)},
)
WITHOUT_TASK = e.keys(
    {
        "labels": e.maybe(e.every(e.string)),
        "max_length": e.maybe(e.positive),
        "token_budget": e.positive,
    },
    {**OPTIONAL, "task": e.one_of([None])},
)


def load_text_model(directory, max_length=None, token_budget=None, chunks=None, pool=None):
    """Loads what `TextModel.save` or `finetune` wrote.

    Args:
        directory: str or path.
        max_length: int or None. Tokens after which documents are truncated; default as saved.
        token_budget: int or None. Maximum tokens in a batch; default as saved.
        chunks: int or None. As in `TextModel`; default as saved, or None if `max_length` is given.
        pool: str or None. As in `TextModel`; default as saved, or "mean" if `chunks` is given.

    Returns:
        `TextModel`.

    Raises:
        FileNotFoundError: if the directory or a file in it is missing.

    Example:

    >>> TextModel(embedder("all-MiniLM-L6-v2"), Tokenizer("all-MiniLM-L6-v2"), 32).save("mine")
    >>> load_text_model("mine").max_length
    32
    """
    directory = pathlib.Path(local_path(directory))
    if not newest(directory, SETTINGS).is_file() and newest(directory, LABELS).is_file():
        return load_finetuned(directory, max_length, token_budget, chunks, pool)
    _check_files(
        directory, ("model.keras", SETTINGS, "tokenizer.json"), "what TextModel.save wrote"
    )
    return _load(directory, SETTINGS, max_length, token_budget, chunks, pool)


def load_finetuned(directory, max_length=None, token_budget=None, chunks=None, pool=None):
    """Loads a model that `finetune` saved.

    Args:
        directory: str or path, the `output` of `finetune`.
        max_length, token_budget, chunks, pool: as in `load_text_model`.

    Returns:
        A `TextModel` with a task.

    Raises:
        FileNotFoundError: if `directory` does not exist or lacks a file.

    Example:

    >>> finetuned = load_finetuned("out", max_length=32)
    >>> finetuned.label_names
    ['a', 'b', 'c']
    """
    directory = _finished(directory)
    return _load(directory, LABELS, max_length, token_budget, chunks, pool)


def is_finetuned(directory):
    """Whether a directory holds a model that `finetune` saved."""
    directory = pathlib.Path(local_path(directory))
    return all(newest(directory, name).is_file() for name in FILES)


def task_of(directory):
    """The `FinetuneTask` of a model that `finetune` saved, which is not loaded."""
    directory = _finished(directory)
    return TASKS[_read_settings(newest(directory, LABELS), directory / LABELS)["task"]]


def label_names_of(directory):
    """The names of the outputs of a model that `finetune` saved, which is not loaded."""
    directory = _finished(directory)
    return _read_settings(newest(directory, LABELS), directory / LABELS)["labels"]


def max_length_of(directory):
    """The tokens that a model that `finetune` saved reads of a text, which is not loaded."""
    directory = _finished(directory)
    return _read_settings(newest(directory, LABELS), directory / LABELS)["max_length"]


def prompts_of(directory):
    """The prompts by their names of a model that `finetune` saved, which is not loaded."""
    directory = _finished(directory)
    return _read_settings(newest(directory, LABELS), directory / LABELS)["prompts"] or {}


def _finished(directory):
    """The path of a directory that holds a fine-tuned model."""
    directory = pathlib.Path(local_path(directory))
    if not directory.is_dir():
        raise FileNotFoundError(
            f"There is no directory {directory} to load a model from.{from_hub(directory)}"
        )
    _check_files(directory, FILES, "the output of a finished fine-tuning")
    return directory


def _check_files(directory, names, what):
    lacking = [name for name in names if not newest(directory, name).is_file()]
    if lacking:
        begun = (directory / "recipe.json").exists()
        hint = " The run is not finished: give the same command or call again." if begun else ""
        raise FileNotFoundError(
            f"{directory} is not {what}: it lacks {' and '.join(lacking)}.{hint}"
        )


def _load(directory, name, max_length, token_budget, chunks, pool):
    check_chunks(chunks, max_length)
    settings = _read_settings(newest(directory, name), directory / name)
    pad_id = settings.pop("pad_id")
    model = load_keras(newest(directory, "model.keras"))
    file = newest(directory, "tokenizer.json")
    tokenizer = Tokenizer(file if file.is_file() else directory)
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
        raise ValueError(f"{directory}: {error}") from None


def _read_settings(path, shown):
    """The settings of the model in a directory: fields of `TextModel`, and `pad_id`."""
    has_task = shown.name == LABELS
    saved = e.checked(shown, read_json(path), WITH_TASK if has_task else WITHOUT_TASK)
    # Before there were tasks, all was classification.
    settings = {"task": "classify" if has_task else None, "stride": None, "prompt": ""}
    settings |= {"pad_id": None, "prompts": None} | {
        key: saved[key] for key in saved if key in (*FIELDS, *MORE)
    }
    return settings
