"""A fine-tuned model in one directory: model, tokenizer, labels and input length."""

import dataclasses
import json
import pathlib

import keras
import numpy as np

from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.checkpoints.folder import newest, replacing_together

# Importing these modules registers our layers, which loading a saved model needs.
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.models import heads, transformer  # noqa: F401
from keras_posenc.models.model import model_on
from keras_posenc.text import TextBatches, Tokenizer
from keras_posenc.training.recipe import in_range, one_of
from keras_posenc.training.tasks import TASKS
from keras_posenc.training.tasks.base import POOLS
from keras_posenc.training.text_model import check_table
from keras_posenc.untrusted import from_hub, quote, read_json, shorten
from keras_posenc.writing import replacing, write_text

FILES = ("model.keras", "labels.json")


@dataclasses.dataclass
class FineTuned:
    """A fine-tuned model with its tokenizer and labels.

    Attributes:
        model: `keras.Model` from token ids and segment ids (B, T) to logits (B, C), or to what else
            its task has.
        tokenizer: `keras_posenc.text.Tokenizer`.
        labels: list of strings: the classes or tags in the order of the logits, or the names of
            other outputs.
        max_length: int. Tokens after which documents are truncated.
        token_budget: int. Maximum tokens in a batch, padding included.
        chunks: int or None. Read all of a document in chunks of so many tokens, in place of its
            first `max_length` tokens.
        pool: "mean" or "max". Of the chunks' probabilities, class by class; in the mean a chunk
            counts by its tokens.
        task: str, as in `finetune`.
        stride: int or None. With task "qa", tokens that windows of a passage share.

    Raises:
        ValueError: on a bad `chunks` or `pool`, a task that reads no chunks, or a tokenizer with
            more tokens than the model's table has rows.

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
    task: str = "classify"
    stride: int | None = None

    def __post_init__(self):
        one_of("pool", self.pool, tuple(POOLS))
        check_table(self.tokenizer, self.model)
        if self.chunks is not None:
            in_range("chunks", self.chunks, above=self.tokenizer.special_tokens())
            if not self.kind.reads_chunks:
                raise ValueError(
                    f"chunks={self.chunks}: {self.task} reads all of a text already, in windows of "
                    "max_length tokens. Give max_length."
                )

    @property
    def kind(self):
        """The task's own part, a `keras_posenc.training.tasks.Task`."""
        return TASKS[self.task]

    def batches(self, texts, labels=None, **options):
        """Makes `TextBatches` of raw texts, encoded as in training.

        Args:
            texts: list of str, or of what else the task takes.
            labels: list of str, or of what else the task takes, or None.
            **options: further arguments of `TextBatches`.

        Returns:
            `TextBatches`, in a fixed order unless `shuffle=True` is given.
        """
        read = {"max_length": self.max_length, "stride": self.stride}
        if self.chunks is not None:
            read = {"max_length": self.chunks, "stride": 0}
        return TextBatches(
            texts,
            self.kind.labels(self.labels, labels),
            tokenizer=self.tokenizer,
            token_budget=self.token_budget,
            **{"shuffle": False, **read, **options},
        )

    def judged(self, texts, verbose="auto"):
        """What the model predicts for texts.

        Args:
            texts: list of str, or of what else the task takes.
            verbose: as in `keras.Model.predict`.

        Returns:
            The logits (N, C), of pooled probabilities where documents are read in chunks, or what
            else the task has for each text, and the number of tokens (N,) of each text.
        """
        batches = self.batches(texts)
        outputs = self._by_token if self.kind.per_token else self._by_row
        results = outputs(batches, verbose)
        return self.kind.merged(texts, batches, results, self.labels, self.pool), batches.lengths

    def _by_row(self, batches, verbose):
        """The outputs (N, ...) of unshuffled `batches`, in the order of their rows."""
        return batches.restore_order(self.model.predict(batches, verbose=verbose))

    def _by_token(self, batches, verbose):
        """A list of the outputs (T, ...) of each row, without those of its padding."""
        # `predict` would join the batches, which are of several lengths.
        answers = [row for inputs in batches for row in self.model.predict_on_batch(inputs)]
        rows = np.empty(len(answers), object)
        rows[:] = answers
        ordered = batches.restore_order(rows)
        return [
            output[: len(row.token_ids)] for output, row in zip(ordered, batches.rows, strict=True)
        ]

    def save(self, directory):
        """Writes model.keras, labels.json and the tokenizer's files, all of them atomically."""
        settings = {
            "labels": self.labels,
            "max_length": self.max_length,
            "token_budget": self.token_budget,
            "task": self.task,
            "pad_id": self.tokenizer.pad_id,
        }
        settings |= {} if self.stride is None else {"stride": self.stride}
        with replacing_together(pathlib.Path(directory)) as folder:
            # A finished model does not need the optimizer's two copies of its weights.
            with replacing(folder / "model.keras") as partial:
                _without_optimizer(self.model).save(partial)
            self.tokenizer.save(folder)
            write_text(folder / "labels.json", json.dumps(settings, indent=1, ensure_ascii=False))

    def export(self, directory):
        """Writes a checkpoint with the head and its labels, and the tokenizer, for transformers.

        `transformers.pipeline` runs it: "token-classification" of `task="tag"`,
        "question-answering" of "qa", "text-classification" of classes and numbers, trained with
        `pooling="head"`. Of a head with another pooling transformers reads the encoder alone, and
        `build_transformer_model(directory, head="sequence_classification")` all of it. Of "embed"
        it writes the encoder, without its pooling.

        Args:
            directory: where to write.

        Returns:
            list of the paths of the weights and the config.
        """
        config = self.model.transformer.config
        if self.kind.problem_type is not None and config.source is not None:
            # It decides what transformers makes of the logits.
            source = {**config.source, "problem_type": self.kind.problem_type}
            self.model.transformer.config = dataclasses.replace(config, source=source)
        longer = config.position_table and self.max_length > config.max_position
        written = save_checkpoint(
            self.model,
            directory,
            positions=self.max_length if longer else None,
            labels=None if self.task in ("qa", "embed") else self.labels,
        )
        self.tokenizer.save(directory)
        return written


def _without_optimizer(model):
    """The same layers in an uncompiled model."""
    return model_on(model, model.outputs, model.name)


def _check_positions(model, name, length):
    """Refuses a length that is given where the model has no position, before a text is read."""
    layer = model.transformer.layers.get("Embedding-Position")
    bound = getattr(layer, "bound", getattr(layer, "input_dim", None))
    if bound is not None and isinstance(length, int) and length > bound:
        raise ValueError(
            f"{name}={length}: the model has {bound} positions. Give at most so many: chunks= "
            "reads texts of any length, and a training with a longer stage makes more positions."
        )


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
        ValueError: if a file in it is damaged, the model has no positions for a length, or both
            `max_length` and `chunks` are given.

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
        raise FileNotFoundError(
            f"There is no directory {directory} to load a model from.{from_hub(directory)}"
        )
    lacking = [name for name in FILES if not newest(directory, name).is_file()]
    if lacking:
        raise FileNotFoundError(
            f"{directory} is not the output of a finished fine-tuning: "
            f"it lacks {' and '.join(lacking)}."
        )
    try:
        keys = ("labels", "max_length", "token_budget")
        settings = read_json(newest(directory, "labels.json"), keys)
        labels = settings["labels"]
        saved_length, saved_budget = int(settings["max_length"]), int(settings["token_budget"])
        # Before there were tasks, all was classification.
        task, stride = settings.get("task", "classify"), settings.get("stride")
        pad = settings.get("pad_id")
        is_known = task in TASKS and all(n is None or type(n) is int for n in (stride, pad))
        is_known = is_known and isinstance(labels, list)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{directory / 'labels.json'} is damaged ({shorten(error)}).") from None
    if not is_known:
        raise ValueError(
            f"{directory / 'labels.json'} is damaged (task {quote(task)}, stride {quote(stride)}, "
            f"pad_id {quote(pad)}, labels {quote(labels)})."
        )
    labels = [str(name) for name in labels]
    model = load_keras(newest(directory, "model.keras"))
    length = max_length if chunks is None else chunks
    _check_positions(model, "max_length" if chunks is None else "chunks", length)
    file = newest(directory, "tokenizer.json")
    tokenizer = Tokenizer(file if file.is_file() else directory)
    tokenizer.pad_id = tokenizer.pad_id if pad is None else pad
    if stride is not None and max_length is not None:
        stride = min(stride, max_length // 4)
    return FineTuned(
        model,
        tokenizer,
        labels,
        saved_length if max_length is None else max_length,
        saved_budget if token_budget is None else token_budget,
        chunks,
        pool,
        task,
        stride,
    )
