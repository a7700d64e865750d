"""The training loop of `finetune`, epoch by epoch, from a recipe to a finished model."""

import csv
import dataclasses
import functools
import io
import json
import time

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.metrics import length_histogram
from keras_posenc.training.processes import by_first, together
from keras_posenc.training.progress import Progress, printer
from keras_posenc.training.text_model import TextModel
from keras_posenc.training.training_state import check_space, load_state, save_state
from keras_posenc.training.vocabulary_check import padding_id
from keras_posenc.writing import write_text

HEAD = "head"  # the pooling that a family's checkpoints have, and the dense layer behind it


class Trainer:
    """The model, batches and history of a fine-tuning run.

    Args:
        recipe: `Recipe`.
        documents: dict of labelled `Texts` or None under "train", "validation" and "test".
        task: the `FinetuneTask` that the recipe names.
        names: what the outputs are, by the task.
        before: dict, metrics of what was done before.

    Attributes:
        finetuned: `TextModel`.
        model: what is fitted: its model, or one around it.
    """

    def __init__(self, recipe, documents, task, names, before):
        self.recipe, self.documents, self.task = recipe, documents, task
        self.before, self.history, self.steps = before, [], []
        keras.utils.set_random_seed(recipe.seed)
        encoder, tokenizer = _encoder(recipe, names, task)
        self.transformer = encoder.transformer
        self.finetuned = TextModel(
            encoder if recipe.pooling == HEAD else task.model(encoder, names, recipe),
            tokenizer,
            recipe.final_length,
            recipe.token_budget,
            names,
            task=recipe.task,
            stride=recipe.stride_of(recipe.final_length) if task.has_windows else None,
        )
        self.model = task.trained(self.finetuned.model, names)
        self.batches = {length: self._batches(length) for length, _ in recipe.lengths}
        if self.left_out:
            LOGGER.warning(
                f"{self.left_out:,} of {len(documents['train']):,} texts to train on are longer "
                f"than the longest stage, {recipe.longest:,} tokens, and are not read: "
                "longer='skip'."
            )
        self._compile()

    def _batches(self, length):
        options = {"shuffle": True, "seed": self.recipe.seed, **self.task.training_options()}
        if self.task.has_windows:
            options["stride"] = self.recipe.stride_of(length)
        at_length = dataclasses.replace(self.finetuned, max_length=length)
        train = self.documents["train"]
        texts, targets = train.texts, self.task.targets(train)
        if self.recipe.longer == "skip":
            kept = np.flatnonzero(self.token_counts <= length)
            if not len(kept):
                raise ValueError(
                    f"No document of train fits in {length} tokens, the shortest has "
                    f"{self.token_counts.min()}: give a longer stage, or longer='cut'."
                )
            texts, targets = ([column[i] for i in kept] for column in (texts, targets))
        batches = at_length.batches(texts, targets, **options)
        self.task.check_batches(batches, self.finetuned.labels)
        return batches

    @functools.cached_property
    def token_counts(self):
        """Tokens of each document to train on, special tokens included."""
        whole = dataclasses.replace(self.finetuned, max_length=None, stride=None)
        options = self.task.training_options()
        return whole.batches(self.documents["train"].texts, **options).lengths

    @property
    def left_out(self):
        """How many of the documents to train on no stage reads."""
        if self.recipe.longer == "cut":
            return 0
        return int((self.token_counts > self.recipe.longest).sum())

    def _compile(self):
        model, recipe, names = self.model, self.recipe, self.finetuned.labels
        total = sum(len(self.batches[length]) for length in recipe.epoch_lengths)
        metrics = self.task.metrics(names)
        recipe.compile(model, total, self.task.loss(names), weighted_metrics=metrics)
        # Variables created inside the first step would make TensorFlow trace it twice.
        inputs, *targets = self.batches[recipe.final_length][0]
        targets = [array[:1] for array in targets]
        width = inputs["token_ids"].shape[-1]
        sizes = [width if size is None else size for size in model.output_shape[1:]]
        scores = np.zeros((1, *sizes), "float32")
        model.compute_loss(None, targets[0], scores, *targets[1:])
        model.compute_metrics(None, targets[0], scores, *targets[1:])
        model.reset_metrics()

    def run(self, state, verbose="auto"):
        """Trains the epochs that `state`, a path, does not hold yet, and writes it after each of
        them; returns the metrics."""
        model = self.model
        by_first(lambda: check_space(state.parent, model))
        if by_first(state.exists):
            kinds = {"history": list, "steps": list}
            record = together(lambda: load_state(state, model, kinds))
            self.history, self.steps = record["history"], record["steps"]
        counts = [len(self.batches[length]) for length in self.recipe.epoch_lengths]
        tell, done = printer(verbose), len(self.history)
        if done:
            tell(f"resuming after epoch {done} of {len(counts)}")
        # "auto" and 1 draw a bar per epoch.
        progress = Progress(sum(counts), sum(counts[:done]), tell, reports_steps=verbose == 2)
        for epoch in range(done, len(counts)):
            self._train_epoch(epoch, verbose, progress)
            record = {"history": self.history, "steps": self.steps}
            by_first(functools.partial(save_state, state, model, record))
            progress.epoch(epoch + 1, len(counts), self._validation())
        return self.metrics(verbose)

    def _train_epoch(self, epoch, verbose, progress):
        lengths = self.recipe.epoch_lengths
        batches = self.batches[lengths[epoch]]
        started, one_epoch = time.perf_counter(), OneEpoch(batches, self.recipe.seed, progress)
        # One call per epoch, so that each starts the same way in a resumed run.
        logs = self.model.fit(
            batches,
            initial_epoch=epoch,
            epochs=len(lengths),
            callbacks=[one_epoch],
            shuffle=False,
            verbose=verbose,
        ).history
        row = {
            "epoch": epoch + 1,
            "max_length": lengths[epoch],
            "steps": len(batches),
            "loss": logs["loss"][0],
            **{name: logs[name][0] for name in self.task.watched if name in logs},
            "seconds": time.perf_counter() - started,
        }
        if self.documents["validation"]:
            judged = self._measure("validation", verbose)
            scores = [name for name in ("loss", *self.task.scores) if name in judged]
            row |= {f"val_{name}": judged[name] for name in scores}
        self.history.append(row)
        self.steps += one_epoch.steps

    def _measure(self, role, verbose):
        # Where lines are printed, one per evaluation has nothing that the others do not say.
        verbose = 0 if verbose == 2 else verbose
        return self.task.measure(self.finetuned, self.documents[role], verbose)

    def _validation(self):
        """The score that matters most on the validation documents, as words."""
        scores = (f"val_{name}" for name in self.task.scores)
        name = next((name for name in scores if name in self.history[-1]), None)
        return f"{name} {self.history[-1][name]:.4f}, " if name else ""

    def save(self, folder):
        """Writes the model and the history."""
        self.finetuned.save(folder)
        config = json.dumps(self.transformer.config.to_huggingface(), indent=1)
        write_text(folder / "config.json", config)
        write_text(folder / "history.csv", _csv(self.history))
        write_text(folder / "steps.csv", _csv(self.steps))

    def metrics(self, verbose="auto"):
        """Evaluates the model; returns the metrics of the run."""
        judged = {
            role: part and self._measure(role, verbose)
            for role, part in self.documents.items()
            if role != "train"
        }
        last = self.batches[self.recipe.final_length]
        train = {
            "documents": len(self.documents["train"]) - self.left_out,
            "epochs": len(self.history),
            "steps": sum(row["steps"] for row in self.history),
            "seconds": sum(row["seconds"] for row in self.history),
            "max_length": self.recipe.final_length,
            "padding_share": float(last.padding_share),
            "lengths": length_histogram(last.lengths),
        }
        versions = {"keras": keras.__version__, "backend": keras.backend.backend()}
        return {
            "task": self.recipe.task,
            "labels": self.finetuned.labels,
            "scores": self.task.scores,
            "train": train,
            **judged,
            "versions": versions,
            **self.before,
        }


def _encoder(recipe, names, task):
    """The pretrained encoder, stretched if a stage exceeds its positions, and its tokenizer; with
    its family's own head for the names, if that is to pool. It masks what the tokenizer pads with
    from here on."""
    source = recipe.source
    weights, config = source.open_weights(), source.read_config()
    tokenizer = source.read_tokenizer(config)
    options = recipe.options(config)
    if recipe.pooling == HEAD:
        if task.problem_type is None:
            raise ValueError(
                f'pooling="head" is the head of a text\'s classes or numbers; task={task.name!r} '
                "has one of its own: leave pooling out."
            )
        options |= {"head": "sequence_classification", "labels": list(map(str, names))}
    tokenizer.pad_id = padding_id(tokenizer, config.pad_token_id)
    options |= {"pad_token_id": tokenizer.pad_id, "model": source.model, "ignore": source.ignore}
    return build_transformer_model(source.config_path, weights, **options), tokenizer


class OneEpoch(keras.callbacks.Callback):
    """Starts an epoch in a state that follows from its number, records losses, then stops `fit`.

    The state is set here and not before `fit`, which in a new process first reads a batch and
    traces the model, and so would change both the batches and the random numbers.

    Args:
        batches: `TextBatches`.
        seed: int.
        progress: `Progress`, which counts the steps.

    Attributes:
        steps: list of dict, the running loss at each step.
    """

    def __init__(self, batches, seed, progress):
        super().__init__()
        self.batches, self.seed, self.progress, self.steps = batches, seed, progress, []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.batches.set_epoch(epoch)
        # Where there is no such state, a new seed would only have graphs prepared once more.
        if backend.TRAITS.global_random_state:
            keras.utils.set_random_seed(self.seed + 1 + epoch)

    def on_train_batch_end(self, batch, logs=None):
        place = self.epoch + (batch + 1) / len(self.batches)
        self.steps.append({"epoch": place, "loss": float(logs["loss"])})
        self.progress.step(float(logs["loss"]))

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = True


def _csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
