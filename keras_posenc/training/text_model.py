"""A model and its tokenizer in one: raw texts in, the results of a task or rows of numbers out."""

import dataclasses
import functools
import json
import pathlib

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.files.untrusted import quote
from keras_posenc.files.writing import replacing, write_text
from keras_posenc.folders.finetuned import LABELS, MODEL, SETTINGS, SIDES
from keras_posenc.folders.written import embedder_files, replacing_together, write_files
from keras_posenc.models.inputs import inputs_of
from keras_posenc.models.model import TransformerModel, model_on
from keras_posenc.models.pooling import MaskedPooling
from keras_posenc.models.precision import lower_precision
from keras_posenc.text import TextBatches, Tokenizer
from keras_posenc.text.disk_list import DiskList
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.encoded_texts import encode_texts
from keras_posenc.text.labels.tags import WordsOf
from keras_posenc.text.shapes import longest_length, prepare_predictions, shape_options
from keras_posenc.training.cached_texts import cached_tokens
from keras_posenc.training.finetuning.task import POOLS, RowPerText
from keras_posenc.training.finetuning.tasks import TASKS
from keras_posenc.training.progress import BatchProgress
from keras_posenc.training.source import check_max_length, check_table

INPUTS = ("token_ids", "segment_ids")
FIELDS = {  # of a file, and what they are called here
    "max_length": "max_length",
    "token_budget": "token_budget",
    "labels": "label_names",
    "prompt": "prompt",
}


@dataclasses.dataclass
class TextModel:
    """A model with the tokenizer that its texts go through, and with the task it was trained for.

    Attributes:
        model: `keras.Model`. Maps token ids (and segment ids) (B, T) to (B, ...), one row per text,
            or to the output of its task.
        tokenizer: `Tokenizer`. The tokenizer of the model.
        max_length: int or None. Tokens after which texts are truncated, which is logged; None
            truncates none.
        token_budget: int. Maximum number of tokens in a batch, padding included; on a CPU,
            predictions have at most 1,024.
        label_names: list of str or None. The names of the model's outputs, such as classes or tags
            in the order of the logits.
        prompt: str. Text that precedes every text.
        task: str or None. As in `finetune`; None for a model that gives one row per text.
        chunks: int or None. Read all of a document in chunks of this many tokens, in place of its
            first `max_length` tokens.
        pool: str. "mean" or "max" of the chunks' probabilities, class by class, or "logits", the
            mean of their outputs. Means are weighted by tokens.
        stride: int or None. With task "qa", tokens that windows of a passage share.
        prompts: dict or None. With task "embed", the texts that precede the first text of a tuple,
            the "query", and the others, each a "document".
        words: True or None. With task "tag", a str is read word by word, as in the training.

    Example:

    >>> texts = TextModel(embedder("all-MiniLM-L6-v2"), Tokenizer("all-MiniLM-L6-v2"))
    >>> texts.predict(["Train short, test long.", "Short."], verbose=0).shape
    (2, 384)
    >>> texts.save("mine")
    >>> load_text_model("mine").predict(["Short."], verbose=0).shape
    (1, 384)
    """

    model: keras.Model
    tokenizer: Tokenizer
    max_length: int | None = None
    token_budget: int = 8192
    label_names: list | None = None
    prompt: str = ""
    task: str | None = None
    chunks: int | None = None
    pool: str = "mean"
    stride: int | None = None
    prompts: dict | None = None
    words: bool | None = None

    def __post_init__(self):
        checks.choice("pool", self.pool, tuple(POOLS))
        checks.choice("task", self.task, (None, *TASKS))
        if not isinstance(self.prompt, str):
            raise TypeError(f"`prompt` must be a str. Received: {quote(self.prompt)}")
        shape = self.model.output_shape
        if self.task is None and (isinstance(shape, list) or len(shape) != 2):
            raise ValueError(
                "A TextModel gives one row (B, D) for each text: give an embedder or a "
                f"classifier. The model's outputs are {shape}."
            )
        names = [x.name for x in self.model.inputs]
        if not set(names) <= set(INPUTS):
            raise ValueError(
                f"A TextModel gives its model {' and '.join(INPUTS)}: the model must have no other "
                f"inputs. Received: inputs {quote(names)}"
            )
        check_table(self.tokenizer, self.model)
        self.kind.check_outputs(self.model, self.label_names)
        check_max_length(self.model, "max_length", self.max_length)
        check_max_length(self.model, "chunks", self.chunks)
        if self.chunks is not None:
            checks.whole("chunks", self.chunks, least=self.tokenizer.special_tokens() + 1)
            if not self.kind.reads_chunks:
                raise ValueError(
                    f"chunks={self.chunks}: {self.task} reads all of a text already, in windows of "
                    "max_length tokens. Give max_length."
                )

    @property
    def kind(self):
        """What the task does, a `FinetuneTask`."""
        return RowPerText() if self.task is None else TASKS[self.task]

    def batches(self, texts, labels=None, **options):
        """Makes `TextBatches` of raw texts, as in training, in a fixed order unless shuffled.

        Args:
            texts: list of str, or of what else the task takes.
            labels: list of str, or of what else the task takes, or None.
            **options: further arguments of `TextBatches`.
        """
        read = {"max_length": self.max_length, "stride": self.stride}
        if self.chunks is not None:
            read = {"max_length": self.chunks, "stride": 0}
        options = {"shuffle": False, **shape_options(self.model), **read, **options}
        if isinstance(texts, DiskList):
            texts, labels = self._cached_tokens(texts, labels, options), None
        else:
            texts = self._with_all_prompts(texts)
        return TextBatches(
            texts,
            self.kind.labels(self.label_names, labels),
            tokenizer=self.tokenizer,
            token_budget=self.token_budget,
            **options,
        )

    def _with_all_prompts(self, texts):
        if not self.prompt and not self.prompts:
            return texts
        kind = kind_of_all(texts)  # with the prompt none is empty
        if self.prompt and not self.prompts and kind in ("pair of str", "words"):
            raise ValueError(
                f"`prompt` precedes texts that are str, and these are of the kind {kind!r}: put it "
                f'into the texts, and give prompt="". Received: prompt={quote(self.prompt)}'
            )
        return [self.with_prompts(text) for text in texts]

    def _cached_tokens(self, texts, labels, options):
        """`EncodedTexts` of a `DiskList`, whose tokens are beside it."""
        names = ("max_length", "stride", "apart")
        how = {name: options[name] for name in names if options.get(name) is not None}
        settings = {**how, "prompt": self.prompt, "prompts": self.prompts, "task": self.task}
        settings |= {"names": self.label_names, "labels": labels is not None}
        if getattr(self.kind.labels(self.label_names), "of_sides", False):
            settings["labels"] = "texts"  # until version 0.5, numbers of the first text alone

        def encode(texts, part):
            values = None if labels is None else labels[part]
            texts = self._with_all_prompts(texts)
            return encode_texts(
                texts, self.kind.labels(self.label_names, values), self.tokenizer, **how
            )

        one_kind = not options.get("apart")
        return cached_tokens(texts, settings, self.tokenizer, encode, one_kind)

    def with_prompts(self, text):
        """A text with what precedes it: the prompt of texts, or those of the tuples of "embed"."""
        if isinstance(text, str):
            return self.prompt + text
        if not self.prompts:
            return text
        query, document = (self.prompts[side] for side in SIDES)
        return (query + text[0], *(document + each for each in text[1:]))

    def predict(self, texts, verbose="auto"):
        """Computes the results for raw texts.

        Args:
            texts: list of str, of pairs of str, or of what else the task takes.
            verbose: 0, 1, 2 or "auto". 0 is silent. 1 and "auto" draw a bar. 2 prints a line per
                minute on the standard error, with the time left.

        Returns:
            NumPy array (N, ...), a row for each text, in their order; or what else the task has for
            each text.
        """
        return self.judged(texts, verbose)[0]

    def judged(self, texts, verbose="auto"):
        """Returns the results for raw texts, as `predict`, and the numbers of their tokens (N,).

        Args:
            texts: list of str, or of what else the task takes.
            verbose: as in `predict`.
        """
        if self.words and not isinstance(texts, DiskList):
            texts = [WordsOf(text) if isinstance(text, str) else text for text in texts]
        longest = longest_length(self.model, self.chunks or self.max_length)
        batches = self.batches(texts, fixed_shapes=longest)
        outputs = self._by_token if self.kind.per_token else self.of_batches
        results = outputs(batches, verbose)
        merged = self.kind.merged(texts, batches, results, self.label_names, self.pool)
        return merged, batches.lengths

    def of_batches(self, batches, verbose="auto"):
        """The rows for a `TextBatches` that does not shuffle, in the order of its texts."""
        model, progress = self._checked, BatchProgress(batches, verbose)
        # What `predict` does around batches takes as long as a query, or longer.
        alone = len(batches) == 1 and backend.row_multiple() == backend.processes()[1] == 1
        prepare_predictions(model, batches, on_batch=alone)
        chosen = _Chosen(batches, model)
        with lower_precision(model):
            if alone:
                outputs = model.predict_on_batch(chosen[0])
                progress.step()
            else:
                outputs = model.predict(chosen, verbose=0, callbacks=[progress])
        return batches.restore_order(outputs)

    def _by_token(self, batches, verbose):
        """A list of the outputs (T, ...) of each row, without those of its padding."""
        # `predict` would join the batches, which are of several lengths.
        prepare_predictions(self.model, batches, on_batch=True)
        answers, progress = [], BatchProgress(batches, verbose)
        for inputs in _Chosen(batches, self.model):
            with lower_precision(self.model):
                answers += list(self.model.predict_on_batch(inputs))
            progress.step()
        rows = np.empty(len(answers), object)
        rows[:] = answers
        ordered = batches.restore_order(rows)
        return [
            output[: len(row.token_ids)] for output, row in zip(ordered, batches.rows, strict=True)
        ]

    @functools.cached_property
    def _checked(self):
        """The model, if need be as one that checks its ids and outlives what it refuses."""
        if isinstance(self.model, TransformerModel):
            return self.model
        return TransformerModel(self.model.inputs, self.model.outputs)

    def save(self, directory):
        """Writes model.keras, the tokenizer's files and the settings, all of them or none.

        Args:
            directory: str or path; created if missing.
        """
        settings = {key: getattr(self, name) for key, name in FIELDS.items()}
        settings["pad_id"] = self.tokenizer.pad_id
        more = {name: getattr(self, name) for name in ("task", "stride", "prompts", "words")}
        settings |= {name: value for name, value in more.items() if value is not None}
        settings |= {} if self.chunks is None else {"chunks": self.chunks, "pool": self.pool}
        name = SETTINGS if self.task is None else LABELS
        with replacing_together(pathlib.Path(directory)) as folder:
            # A finished model does not need the optimizer's two copies of its weights.
            with replacing(folder / MODEL) as partial:
                saved = self.model
                if self.task is not None:
                    saved = model_on(saved, saved.outputs, saved.name)
                saved.save(partial)
            self.tokenizer.save(folder)
            write_text(folder / name, json.dumps(settings, indent=1, ensure_ascii=False))

    def export(self, directory):
        """Writes a checkpoint with the head and its labels, and the tokenizer, for transformers.

        `transformers.pipeline` runs it: "token-classification" of `task="tag"`,
        "question-answering" of "qa", "text-classification" of classes and numbers, trained with
        `pooling="head"`. Of another head, such as a tagger's of ModernBERT, transformers reads the
        encoder alone, and `build_transformer_model(directory, head=...)` all of it. Of "embed" it
        is a directory of sentence-transformers, with pooling, normalisation and prompts.

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
        written = save_checkpoint(
            self.model,
            directory,
            positions=config.beyond_table(self.max_length),
            label_names=None if self.task in ("qa", "embed") else self.label_names,
        )
        self.tokenizer.save(directory)
        if self.task == "embed":
            (pooling,) = (x for x in self.model.layers if isinstance(x, MaskedPooling))
            prompts = self.prompts or dict.fromkeys(SIDES, self.prompt)
            files = embedder_files(pooling.pooling, config.hidden_size, self.max_length, prompts)
            write_files(pathlib.Path(directory), files)
        return written


def check_chunks(chunks, max_length):
    """Refuses to read all of a document in chunks, and to cut it off."""
    if chunks is not None and max_length is not None:
        raise ValueError(
            "chunks reads all of a document and max_length cuts it off: give one of them. "
            f"Received: chunks={chunks!r}, max_length={max_length!r}"
        )


class _Chosen(keras.utils.PyDataset):
    """The inputs that a model has, out of those of other batches."""

    def __init__(self, batches, model):
        super().__init__()
        self._batches, self._model = batches, model
        self.pad_id, self.padding_share = batches.pad_id, batches.padding_share

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        return inputs_of(self._model, self._batches[index])
