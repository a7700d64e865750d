"""A fine-tuned classifier in one directory: model, tokenizer, labels and input length."""

import dataclasses
import json
import pathlib

import keras
import numpy as np

from keras_posenc.checkpoints.folder import newest, replacing_together

# Importing these modules registers our layers, which loading a saved model needs.
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.models import heads, transformer  # noqa: F401
from keras_posenc.text import TextBatches, Tokenizer
from keras_posenc.training.metrics import softmax
from keras_posenc.training.recipe import in_range, one_of
from keras_posenc.training.state import replacing, write_text
from keras_posenc.untrusted import read_json, shorten

FILES = ("model.keras", "labels.json")
# Of the chunks' probabilities (chunks, C) and their numbers of tokens. The last chunk of a document
# is short, and says as much less.
POOLS = {
    "mean": lambda found, tokens: np.average(found, axis=0, weights=tokens),
    "max": lambda found, tokens: found.max(axis=0),
}


@dataclasses.dataclass
class FineTuned:
    """A fine-tuned classifier with its tokenizer and labels.

    Attributes:
        model: `keras.Model` from token ids and segment ids (B, T) to logits (B, C).
        tokenizer: `keras_posenc.text.Tokenizer`.
        labels: list of C strings, in the order of the logits.
        max_length: int. Tokens after which documents are truncated.
        token_budget: int. Maximum tokens in a batch, padding included.
        chunks: int or None. Read all of a document in chunks of so many tokens, in place of its
            first `max_length` tokens.
        pool: "mean" or "max". Of the chunks' probabilities, class by class; in the mean a chunk
            counts by its tokens.

    Raises:
        ValueError: on a bad `chunks` or `pool`.

    Example:

    >>> finetuned = load_finetuned("out")
    >>> logits, lengths = finetuned.judged(["w1 w4 w7 w10", "w2 w5"], verbose=0)
    >>> logits.shape, lengths.tolist()
    ((2, 3), [6, 4])
    """

    model: keras.Model
    tokenizer: Tokenizer
    labels: list
    max_length: int
    token_budget: int
    chunks: int | None = None
    pool: str = "mean"

    def __post_init__(self):
        one_of("pool", self.pool, tuple(POOLS))
        if self.chunks is not None:
            in_range("chunks", self.chunks, above=self.tokenizer.special_tokens())

    def batches(self, texts, labels=None, **options):
        """Makes `TextBatches` of raw texts, encoded as in training.

        Args:
            texts: list of str.
            labels: list of str, or None.
            **options: further arguments of `TextBatches`.

        Returns:
            `TextBatches`, in a fixed order unless `shuffle=True` is given.
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

    def judged(self, texts, verbose="auto"):
        """What the model says of texts.

        Args:
            texts: list of str.
            verbose: as in `keras.Model.predict`.

        Returns:
            The logits (N, C), of pooled probabilities where documents are read in chunks, and the
            number of tokens (N,) of each text.
        """
        if self.chunks is None:
            batches = self.batches(texts)
            return self._logits(batches, verbose), batches.lengths
        by_text = [self.tokenizer.windows(text, self.chunks) for text in texts]
        pieces = [piece for windows in by_text for piece in windows]
        at_chunks = dataclasses.replace(self, max_length=self.chunks, chunks=None)
        found = softmax(at_chunks._logits(at_chunks.batches(pieces), verbose))
        tokens = [[len(ids) for ids, _ in windows] for windows in by_text]
        parts = np.split(found, np.cumsum([len(own) for own in tokens])[:-1])
        pool = POOLS[self.pool]
        pooled = [pool(part, own) for part, own in zip(parts, tokens, strict=True)]
        special = self.tokenizer.special_tokens()
        lengths = [special + sum(len(ids) - special for ids, _ in windows) for windows in by_text]
        return np.log(np.maximum(pooled, 1e-30)), np.array(lengths)

    def _logits(self, batches, verbose):
        """The logits (N, C) of unshuffled `batches`, in the order of their texts."""
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


def load_finetuned(directory, max_length=None, token_budget=None, chunks=None, pool="mean"):
    """Loads a model that `finetune` saved.

    Args:
        directory: str or path, the `output` of `finetune`.
        max_length: int or None. Tokens after which documents are truncated; default as in training.
        token_budget: int or None. Maximum tokens in a batch; default as in training.
        chunks, pool: as in `FineTuned`.

    Returns:
        A `FineTuned`.

    Raises:
        FileNotFoundError: if `directory` does not exist or lacks a file.
        ValueError: if a file in it is damaged, or both `max_length` and `chunks` are given.

    Example:

    >>> finetuned = load_finetuned("out", max_length=32)
    >>> finetuned.labels
    ['a', 'b', 'c']
    """
    if chunks is not None and max_length is not None:
        raise ValueError(
            "chunks reads all of a document and max_length cuts it off: give one of them. "
            f"Received: chunks={chunks!r}, max_length={max_length!r}"
        )
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
        chunks,
        pool,
    )
