"""`finetune(freeze="encoder")`: a linear head on vectors that are computed once."""

import dataclasses
import re
import time

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.backend.keras_names import maker_of
from keras_posenc.metrics.scores import length_histogram
from keras_posenc.models.model import model_on
from keras_posenc.processes.together import is_first
from keras_posenc.text.labels.answer_span import is_pair
from keras_posenc.text.labels.protocol import class_weights
from keras_posenc.text.shapes import longest_length
from keras_posenc.training.finetuning.linear import LINKS, fit_linear
from keras_posenc.training.finetuning.trainer import Trainer, text_model_of
from keras_posenc.training.optimizer_settings import Optimizer
from keras_posenc.training.progress import printer
from keras_posenc.training.trainable import parts_of

ENCODER = re.compile(r"encoder(?::(\d+))?")
WHOLE = 512  # tokens of a chunk, if the model has as many positions


def is_frozen(freeze):
    """Whether all of the encoder stays as it is."""
    parts = parts_of(freeze)
    return len(parts) == 1 and isinstance(parts[0], str) and ENCODER.fullmatch(parts[0]) is not None


def check_frozen(recipe, given):
    """Refuses arguments that belong to a training in epochs; None is one that is not given."""
    start = f"freeze={recipe.freeze!r} trains a linear head on vectors that are computed once"
    if recipe.task.problem_type is None:
        raise ValueError(
            f"{start}, for task classify, multilabel or regress. Received: task="
            f"{recipe.task.name!r}"
        )
    if size := chunk_size(recipe.freeze):
        checks.whole("freeze", size, least=3, why="two tokens of a chunk are special")
    given = {name: value for name, value in given.items() if value is not None}
    max_length = given.pop("max_length", None)
    if size and max_length:
        raise ValueError(
            f"freeze={recipe.freeze!r} reads all of a text in chunks, and max_length cuts it off: "
            f"give one of them. Received: max_length={max_length}"
        )
    if isinstance(recipe.optimizer, Optimizer) and given.get("optimizer") in ("adamw", Optimizer()):
        del given["optimizer"]
    if given:
        raise ValueError(f"{start}, and takes no {' and no '.join(given)}: leave them out.")


def as_read(recipe, max_length):
    """The recipe with how a text is read: up to `max_length`, or all of it in chunks."""
    chunks = chunk_size(recipe.freeze)
    if max_length is None and chunks is None:
        config = recipe.source.read_config()
        table = config.max_position if config.position_table and not recipe.stretch_first else WHOLE
        chunks = min(WHOLE, table)
    if chunks is not None:
        recipe = recipe.replace(freeze=f"encoder:{chunks}")
    return recipe.replace(lengths=((chunks or max_length, 1),))


class FrozenTrainer(Trainer):
    """A run that trains the last layer alone, to convergence, on vectors of whole texts.

    Without `max_length`, all of a text is read in chunks, whose mean is its vector.
    """

    def __init__(self, recipe, documents, label_names, before):
        chunks = chunk_size(recipe.freeze)
        self.recipe, self.documents, self.task = recipe, documents, recipe.task
        self.before, self.history, self.steps = before, [], []
        self.finetuned = text_model_of(recipe.replace(freeze=None), label_names)
        if chunks is not None:
            # Of a linear head, the mean of outputs is the output of the mean.
            self.finetuned = dataclasses.replace(self.finetuned, chunks=chunks, pool="logits")
        self.model = self.finetuned.model
        self.transformer = self.model.transformer
        self.head = maker_of(self.model.outputs[0])
        if len(self.head.get_weights()) != 2:
            raise ValueError(
                'The head of this family has no bias, which freeze="encoder" needs: give another '
                'pooling, such as "mean".'
            )
        vectors = model_on(self.model, self.head.input, "vectors")
        plain = {"task": None, "label_names": None, "pool": "mean", "model": vectors}
        self.reader = dataclasses.replace(self.finetuned, **plain)
        longest = longest_length(vectors, chunks or recipe.final_length)
        # Texts that cannot be read are refused before the directory has a run.
        batches = self.reader.batches(documents["train"].texts, fixed_shapes=longest)
        self.batches = {recipe.final_length: batches}
        for role in ("validation", "test"):
            if documents[role] and any(map(is_pair, documents[role].texts)):
                self.reader.batches(documents[role].texts)

    def run(self, state, verbose="auto"):
        """Computes the vectors and trains the head; returns the metrics."""
        began, train = time.perf_counter(), self.documents["train"]
        (batches,) = self.batches.values()
        found = self.reader.of_batches(batches, verbose)
        found = self.reader.kind.merged(train.texts, batches, found, None, "mean")
        vectors = np.asarray(found, "float64")
        targets = _targets(train.labels, self.finetuned.label_names, self.task)
        weights = None
        if self.task.class_weight is not None:
            by_class = class_weights(
                self.task.class_weight, self.finetuned.label_names, targets.sum(0)
            )
            weights = by_class[targets.argmax(-1)]
        computed = time.perf_counter()
        link = self.task.problem_type
        found = fit_linear(vectors, targets, link, weights, self.recipe.seed)
        self.head.set_weights([found.kernel.astype("float32"), found.bias.astype("float32")])
        now = time.perf_counter()
        printer(verbose if is_first() else 0)(
            f"vectors of {len(train):,} texts in {computed - began:,.1f} s; linear head trained in "
            f"{now - computed:,.1f} s, with a penalty of {found.penalty:g} by cross-validation"
        )
        loss = float(LINKS[link].loss(vectors @ found.kernel + found.bias, targets).mean())
        row = {"epoch": 1, "max_length": self.finetuned.max_length, "steps": found.steps}
        self.history = [{**row, "loss": loss, "penalty": found.penalty, "seconds": now - began}]
        self.steps = [{"epoch": 1.0, "loss": loss}]
        metrics = self.metrics(verbose)
        metrics["train"] |= {
            "trainable_weights": int(found.kernel.size + found.bias.size),
            "lengths": length_histogram(batches.lengths),
            "penalty": found.penalty,
        }
        return metrics


def chunk_size(freeze):
    """The size of the chunks that is given, or None."""
    size = ENCODER.fullmatch(*parts_of(freeze))[1]
    return None if size is None else int(size)


def _targets(labels, names, task):
    """(N, C): one-hot rows, rows of 0 and 1, or the numbers."""
    if task.problem_type == "regression":
        return np.array(labels, "float64")
    found = [set(task.names_in(label)) for label in labels]
    return np.array([[name in each for name in names] for each in found], "float64")
