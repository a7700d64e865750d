"""A fine-tuned classifier in one folder: model, tokenizer, labels and input length."""

import dataclasses
import json
import pathlib

import keras

from keras_posenc.checkpoints.folder import newest, replacing_together

# Importing these modules registers our layers, which loading a saved model needs.
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.models import heads, transformer  # noqa: F401
from keras_posenc.text import TextBatches, Tokenizer
from keras_posenc.training.state import replacing, write_text
from keras_posenc.untrusted import read_json, shorten

FILES = ("model.keras", "labels.json")


@dataclasses.dataclass
class FineTuned:
    """A fine-tuned classifier with its tokenizer and labels.

    Attributes:
        model: `keras.Model` from token ids and segment ids (B, T) to logits (B, C).
        tokenizer: `keras_posenc.text.Tokenizer`.
        labels: list of C strings, in the order of the logits.
        max_length: int. Where documents are truncated, in tokens.
        token_budget: int. Maximum tokens in a batch, padding included.

    Example:

    >>> finetuned = load_finetuned("out")
    >>> batches = finetuned.batches(["w1 w4 w7 w10", "w2 w5"])
    >>> finetuned.logits(batches, verbose=0).shape
    (2, 3)
    """

    model: keras.Model
    tokenizer: Tokenizer
    labels: list
    max_length: int
    token_budget: int

    def batches(self, texts, labels=None, **options):
        """Returns `TextBatches` of raw texts, encoded as in training.

        Args:
            texts: list of str.
            labels: list of str, or None.
            **options: of `TextBatches`.
        """
        options = {"shuffle": False, **options}
        return TextBatches(
            texts,
            labels,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            token_budget=self.token_budget,
            classes=self.labels,
            **options,
        )

    def logits(self, batches, verbose="auto"):
        """Computes the logits (N, C) of unshuffled `batches`, in the order of their texts."""
        return batches.restore_order(self.model.predict(batches, verbose=verbose))

    def save(self, directory):
        """Writes model.keras, labels.json and the tokenizer's files, all of them atomically."""
        settings = {
            "labels": self.labels,
            "max_length": self.max_length,
            "token_budget": self.token_budget,
        }
        with replacing_together(pathlib.Path(directory)) as folder:
            # A finished model does not need the optimizer's two copies of its weights.
            with replacing(folder / "model.keras") as partial:
                _without_optimizer(self.model).save(partial)
            self.tokenizer.save(folder)
            write_text(folder / "labels.json", json.dumps(settings, indent=1, ensure_ascii=False))


def _without_optimizer(model):
    """The same layers in an uncompiled model."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


def load_finetuned(directory, max_length=None, token_budget=None):
    """Loads a model that `finetune` saved.

    Args:
        directory: str or path, the `output` of `finetune`.
        max_length: int or None. Where to truncate documents; default as in training.
        token_budget: int or None. Maximum tokens in a batch; default as in training.

    Returns:
        A `FineTuned`.

    Raises:
        FileNotFoundError: if `directory` does not exist or lacks a file.
        ValueError: if a file in it is damaged.

    Example:

    >>> finetuned = load_finetuned("out", max_length=32)
    >>> finetuned.labels
    ['a', 'b', 'c']
    """
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(f"There is no directory {directory} to load a model from.")
    lacking = [name for name in FILES if not newest(directory, name).is_file()]
    if lacking:
        raise FileNotFoundError(
            f"{directory} is not the output of a finished fine-tuning: "
            f"it lacks {' and '.join(lacking)}."
        )
    try:
        keys = ("labels", "max_length", "token_budget")
        settings = read_json(newest(directory, "labels.json"), keys)
        labels = [str(name) for name in settings["labels"]]
        saved_length, saved_budget = int(settings["max_length"]), int(settings["token_budget"])
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{directory / 'labels.json'} is damaged ({shorten(error)}).") from None
    file = newest(directory, "tokenizer.json")
    return FineTuned(
        load_keras(newest(directory, "model.keras")),
        Tokenizer(file if file.is_file() else directory),
        labels,
        saved_length if max_length is None else max_length,
        saved_budget if token_budget is None else token_budget,
    )
