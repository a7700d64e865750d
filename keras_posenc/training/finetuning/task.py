"""The protocol of a task of `finetune`."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.models.heads import classifier
from keras_posenc.text.file_parts import STREAMED
from keras_posenc.text.labels.protocol import class_weights
from keras_posenc.training.finetuning.labelled_documents import (
    check_known_labels,
    check_names,
    open_documents,
)
from keras_posenc.training.settings import Settings

# Combine the outputs for the chunks of a text (chunks, ...), given their numbers of tokens. The
# last chunk is short, so the mean gives it less weight.
POOLS = {
    "mean": lambda parts, tokens: np.average(parts, axis=0, weights=tokens),
    "max": lambda parts, tokens: parts.max(axis=0),
    # Of the outputs and not of the probabilities: of a linear head, the output of the mean vector.
    "logits": lambda parts, tokens: np.average(parts, axis=0, weights=tokens),
}

# What `finetune` had until version 0.4, of whatever task; records still have all of them.
FORMER_SETTINGS = {
    "stride": None,
    "pooling": "mean",
    "loss": None,
    "matryoshka": None,
    "query_prompt": None,
    "document_prompt": None,
    "head_dropout": 0.1,
    "class_weight": None,
}


@dataclasses.dataclass(frozen=True, repr=False)
class FinetuneTask(Settings):
    """What one kind of fine-tuning has of its own. Its fields are the settings of the task.

    `label_names` are what the outputs of a model are: its classes, tags or numbers. They are made
    from the training documents and saved as `labels`.
    """

    name = None  # as `finetune(task=)` takes it
    scores = {}  # keys of the metrics and their titles, the one that matters most first
    watched = ()  # names of the metrics in training
    needs_labels = True
    per_token = False  # whether outputs are (T, ...) a row
    has_windows = False  # whether long texts are always read whole, in windows with a stride
    embeds = False  # whether the model makes vectors
    output_per_name = True  # whether the model has one output for each of the label names
    reads_plain_texts = False  # whether `read_unlabelled` reads what `read_texts` does
    streamed = STREAMED  # suffixes of files that are read in parts
    reads_chunks = True  # whether `chunks=` makes sense
    name_of_labels = "label"  # what errors call one of the label names
    # What transformers calls it, where a model is a classifier's: features, pooled, and numbers of
    # a text.
    problem_type = None
    loss_of_outputs = None  # class of the loss in training, or what makes one
    metrics_of_outputs = ()  # the same of Keras' metrics, whose names are in `watched`
    training_options = {}  # further arguments of `TextBatches` in training
    prompts = {}  # keywords of a `TextModel`: the prompts that it is made with
    # Settings that only some tasks have as fields.
    pooling, class_weight = None, None

    def __post_init__(self):
        if hasattr(self, "head_dropout"):
            checks.number("head_dropout", self.head_dropout, least=0, below=1)

    # Data: from files and lists to `Texts` with checked labels.
    def read(self, source, role, text=None, label=None):
        """Reads labelled documents: a path, a `Texts`, or a pair (texts, labels)."""
        documents = self.read_part(source, role, text, label)
        self.check_labels(documents, role)
        return documents

    def read_part(self, source, role, text=None, label=None):
        """As `read`, without the checks of all documents together; also of a `FilePart`."""
        return open_documents(source, role, lambda path: self.read_file(path, text, label), self)

    def check_labels(self, documents, role):
        """Checks the labels of all documents together."""
        check_names(map(self.names_in, documents.labels), documents.lines, role)

    def columns(self, text, label):
        """The names of columns to read a file by, of those that were given."""
        return text, label

    def read_file(self, path, text, label):
        """`Texts` of a file, with labels unless `label` is False."""
        raise NotImplementedError

    def read_unlabelled(self, path, text):
        """`Texts` of a file to predict."""
        return self.read_file(path, text, False)

    def check_texts(self, texts):
        """Checks texts to predict, beyond what `TextBatches` does."""

    def checked(self, where, text, value):
        """A label as it is kept, or an error that names the text by `where`."""
        raise NotImplementedError

    def label_names(self, train):
        """The names of the outputs, from the training documents."""
        raise NotImplementedError

    def of_names(self, label_names):
        """The task of a model with these names, as far as its documents depend on them."""
        return self

    def measured(self, label_names):
        """The keys of `scores` that `measure` gives."""
        return tuple(self.scores)

    def names_in(self, label):
        """The names of outputs in one label, where it has some."""
        return ()

    def check_label_names(self, documents, label_names, role):
        """Checks that documents ask for nothing that training did not show."""
        check_known_labels(documents, label_names, role, self.names_in, self.name_of_labels)

    def check_settings(self, label_names):
        """Refuses settings that do not fit the documents, before anything is loaded."""
        if self.class_weight is not None:
            class_weights(self.class_weight, label_names, np.ones(len(label_names)))

    # Batches and model.
    def labels(self, label_names, values=None):
        """The `Labels` of a `TextBatches`."""
        raise NotImplementedError

    def encoded(self, texts, text_model):
        """The texts as ids, with all prompts, if the task encodes them itself.

        A text is None if what counts of it is cut off.
        """
        return None

    def stride_of(self, length):
        """How many tokens neighbouring windows of `length` share, or None without windows."""
        return None

    def record(self):
        """Returns the settings as recipe.json has them."""
        return {**FORMER_SETTINGS, **vars(self), "task": self.name}

    def model(self, encoder, label_names):
        """The model that is saved: the encoder with a head."""
        raise NotImplementedError

    def check_batches(self, batches, label_names):
        """Refuses training batches from which nothing can be learned."""

    def trained(self, model, label_names):
        """The model that is fitted: the same, or one around it."""
        return model

    def make_loss(self, label_names):
        """The loss in training, a `keras.losses.Loss`."""
        return self.loss_of_outputs(reduction="mean_with_sample_weight")

    def metrics(self, label_names):
        """Keras' metrics in training."""
        return [make() for make in self.metrics_of_outputs]

    def check_outputs(self, model, label_names):
        """Refuses a model that has another number of outputs than label names."""
        sound = isinstance(label_names, (list, tuple)) and all(
            isinstance(name, str) for name in label_names
        )
        sound = sound and len(set(label_names)) == len(label_names)
        if not sound or self.output_per_name and len(label_names) != model.output_shape[-1]:
            wanted = f"{model.output_shape[-1]} names" if self.output_per_name else "names"
            raise ValueError(
                f"`label_names` must list {wanted}, each once, of what the model predicts. "
                f"Received: {quote(label_names)}"
            )

    # Results. `merged` gives one result a text, of the outputs of its windows.
    def merged(self, texts, batches, outputs, label_names, pool):
        raise NotImplementedError

    def measure(self, finetuned, documents, verbose):
        """The metrics of a `TextModel` on labelled documents, a dict that JSON can hold."""
        raise NotImplementedError

    def predictions(self, texts, results, label_names):
        """What `predict` returns: a list of named tuples with `cells()`, for tables."""
        raise NotImplementedError


class TextTask(FinetuneTask):
    """A task of whole texts, whose features are pooled."""

    reads_plain_texts = True
    head = classifier

    def model(self, encoder, label_names):
        return type(self).head(encoder, len(label_names), self.pooling, self.head_dropout)


def value_names(count):
    """Names of numbers: of several, with their place."""
    return ["value"] if count == 1 else [f"value_{number}" for number in range(1, count + 1)]


def by_text(batches, rows):
    """A list of arrays: the rows of each text, in the order of its windows."""
    counts = np.bincount(batches.text_of, minlength=len(batches.lengths))
    return np.split(np.asarray(rows), np.cumsum(counts)[:-1])


def pooled(batches, outputs, pool):
    """(N, ...): of each text the outputs of its chunks, if it has some, as one, by `POOLS`."""
    if len(outputs) == len(batches.lengths):
        return outputs
    parts = zip(by_text(batches, outputs), by_text(batches, batches.row_lengths), strict=True)
    return np.array([POOLS[pool](part, tokens) for part, tokens in parts])


def check_encoded(outputs):
    """Raises ValueError if what a model makes of texts is not finite; returns it else."""
    if not np.isfinite(outputs).all():
        raise ValueError(
            "The model's outputs are not finite numbers: a weight is NaN or infinite, or a number "
            "is too large for float16. Restore the weights, or compute in float32 or bfloat16 (see "
            "keras.config.set_dtype_policy)."
        )
    return outputs


class RowPerText(FinetuneTask):
    """What a `TextModel` without a task does: a row of numbers per text, whatever they mean."""

    def labels(self, label_names, values=None):
        return values

    def check_outputs(self, model, label_names):
        """They may be of anything."""

    def merged(self, texts, batches, outputs, label_names, pool):
        """Rows (N, D)."""
        return pooled(batches, check_encoded(outputs), pool)
