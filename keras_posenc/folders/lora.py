"""Directories that hold a LoRA adapter and no model: the rest is read from its base model."""

import os

from keras_posenc.files.untrusted import check_name, quote
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.huggingface import config_name

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


def base_of(folder):
    """The `Folder` of the model that an adapter was trained on; None for a directory without an
    adapter, or with a config of its own.

    PEFT writes adapter_config.json and adapter_model.safetensors, and no config of the model;
    sentence-transformers puts modules.json and the tokenizer beside them.
    """
    if not is_adapter_alone(folder):
        return None
    file = folder.path / CONFIG
    name = folder.json(CONFIG).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{file} names no base model. Received: {quote(name)}. {_remedy('BASE')}")
    check_name(name)
    if name.replace("\\", "/").startswith("//"):  # asking whether it is there would already connect
        raise ValueError(
            f"{file} names a network path as the base model. Received: {quote(name)}. "
            f"{_remedy('BASE')}"
        )
    if not os.path.isdir(name):
        raise FileNotFoundError(
            f"{folder} holds a LoRA adapter alone, and its base model {quote(name)} is no "
            f"directory here.{from_hub(name)} {_remedy(name)}"
        )
    if os.path.samefile(name, folder.path):
        raise ValueError(f"{file} names its own directory as the base model. {_remedy('BASE')}")
    base = folder.of(name)
    if is_adapter_alone(base):
        raise ValueError(
            f"{file} names another adapter as the base model. Received: {quote(name)}. Merge that "
            f"one into its base first: keras-posenc convert {quote(name)} OUTPUT. "
            f"{_remedy('OUTPUT')}"
        )
    return base


def is_adapter_alone(folder):
    """Whether a directory has an adapter, and no config of a model."""
    return folder.has(CONFIG) and config_name(folder) is None


def weights_file(folder):
    """The file with the tensors of an adapter."""
    name = next((name for name in WEIGHTS if folder.has(name)), None)
    if name is None:
        raise FileNotFoundError(f"No {' or '.join(WEIGHTS)} in {folder}, the directory `adapter`.")
    return folder.place(name)


def _remedy(base):
    return (
        f'Give the path of {base} as "base_model_name_or_path" in {CONFIG}, or where there is an '
        "argument `adapter`, the base model and the adapter."
    )
