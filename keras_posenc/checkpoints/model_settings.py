"""The settings of a whole model of sentence-transformers: config_sentence_transformers.json."""

import pathlib

from keras_posenc.files.untrusted import quote, read_object
from keras_posenc.folders.download import local_path
from keras_posenc.folders.lora import base_of

MODEL_CONFIG = "config_sentence_transformers.json"
# The names of the prompt of each side, of which the first in a directory counts.
PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


def read_model_config(directory):
    """The settings of a whole model, config_sentence_transformers.json; empty if there is none."""
    directory = pathlib.Path(local_path(directory))
    if not (directory / MODEL_CONFIG).exists():
        directory = pathlib.Path(base_of(directory) or directory)
    return read_object(directory / MODEL_CONFIG, directory)


def read_size(settings, key, default=None):
    """A positive integer of settings, or `default` where they have none."""
    value = settings.get(key)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise ValueError(f"`{key}` must be an int, at least 1. Found {quote(value)}.")
    return value


def read_similarity(directory, known):
    """How a directory compares vectors.

    Args:
        directory: str or path.
        known: dict, the names of similarities -> what is returned for them. The first is that of a
            directory that names none.
    """
    name = read_model_config(directory).get("similarity_fn_name")
    if name is None:
        return next(iter(known.values()))
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{directory}: similarity_fn_name={quote(name)} is not supported; those are: "
            f"{', '.join(known)}."
        )
    return known[name]


def read_prompts(directory):
    """The prompts of a model, by their names, and the name of the one that is put before all."""
    config = read_model_config(directory)
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise ValueError(f"{directory}: `prompts` must be texts by name. Found {quote(prompts)}.")
    return prompts, default if default in list(prompts) else None


def prompt_of_side(prompts, default, side):
    """The prompt of queries or of documents, as `encode_query` and `encode_document` choose it.

    Args:
        prompts, default: as `read_prompts` returns them.
        side: str, "query" or "document".

    Returns:
        str. Without a prompt of this side it is the one that is put before all texts, or "".
    """
    named = (prompts[name] for name in PROMPT_NAMES[side] if name in prompts)
    return next(named, prompts.get(default, ""))
