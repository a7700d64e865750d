"""Directories that hold a LoRA adapter and no model: the rest is read from its base model."""

import os

from keras_posenc.files.untrusted import check_name, quote, read_object
from keras_posenc.folders.hub_names import from_hub

CONFIG = "adapter_config.json"
MODEL_CONFIGS = ("config.json", "bert_config.json")


def base_of(directory):
    """The directory of the model that an adapter was trained on, or None.

    PEFT writes adapter_config.json and adapter_model.safetensors, and no config of the model;
    sentence-transformers puts modules.json and the tokenizer beside them.

    Args:
        directory: str or path.

    Returns:
        str, the `base_model_name_or_path` of the adapter; None for a directory without an adapter,
            or with a config of its own.

    Raises:
        FileNotFoundError: if the base model is not a directory of this machine.
    """
    if not _is_adapter_alone(directory):
        return None
    file = os.path.join(directory, CONFIG)
    base = read_object(file, directory).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ValueError(f"{file} names no base model. Received: {quote(base)}. {_remedy('BASE')}")
    check_name(base)
    if base.replace("\\", "/").startswith("//"):  # asking whether it is there would already connect
        raise ValueError(
            f"{file} names a network path as the base model. Received: {quote(base)}. "
            f"{_remedy('BASE')}"
        )
    if not os.path.isdir(base):
        raise FileNotFoundError(
            f"{directory} holds a LoRA adapter alone, and its base model {quote(base)} is no "
            f"directory here.{from_hub(base)} {_remedy(base)}"
        )
    if os.path.samefile(base, directory):
        raise ValueError(f"{file} names its own directory as the base model. {_remedy('BASE')}")
    if _is_adapter_alone(base):
        raise ValueError(
            f"{file} names another adapter as the base model. Received: {quote(base)}. Merge that "
            f"one into its base first: keras-posenc convert {quote(base)} OUTPUT. "
            f"{_remedy('OUTPUT')}"
        )
    return base


def _is_adapter_alone(directory):
    beside = (os.path.join(directory, name) for name in MODEL_CONFIGS)
    return os.path.isfile(os.path.join(directory, CONFIG)) and not any(map(os.path.isfile, beside))


def _remedy(base):
    return (
        f'Give the path of {base} as "base_model_name_or_path" in {CONFIG}, or where there is an '
        "argument `adapter`, the base model and the adapter."
    )
