"""The training loop of `finetune`, epoch by epoch, from a recipe to a finished model."""

import csv
import dataclasses
import functools
import io
import json
import time

import numpy as np

from keras_posenc.backend.keras_names import has_direction
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.files import saved_records as e
from keras_posenc.files.writing import write_text
from keras_posenc.metrics.mean_loss import MeanLoss
from keras_posenc.metrics.scores import length_histogram
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.processes.together import by_first, together
from keras_posenc.text.disk_list import take
from keras_posenc.text.shapes import shape_price
from keras_posenc.text.truncation import LOGGER, unlogged_truncation
from keras_posenc.training.callbacks import OneEpoch, RunCallbacks, check_callbacks
from keras_posenc.training.finetuning.baselines import Baselines
from keras_posenc.training.finetuning.recipe import metrics_error
from keras_posenc.training.progress import BatchProgress, Progress, printer
from keras_posenc.training.runs import check_loss
from keras_posenc.training.source import padding_id
from keras_posenc.training.text_model import TextModel
from keras_posenc.training.trainable import choose_trainable, trainable_weights
from keras_posenc.training.training_state import check_space, load_arrays, load_state, save_state

# What a row of the history has that is no measure.
COUNTED = ("epoch", "max_length", "steps", "seconds")
RECORD = e.keys({"history": e.every(e.anything), "steps": e.every(e.anything)})
HEAD = "head"  # the pooling that a family's checkpoints have, and the dense layer behind it


class Trainer:
    """The model, batches and history of a fine-tuning run.

    `documents` are labelled `Texts` or None under "train", "validation" and "test", and `before`
    the metrics of what was done before. `model` is what is fitted: that of `finetuned`, or one
    around it.
    """

    def __init__(self, recipe, documents, label_names, before):
        self.recipe, self.documents, self.task = recipe, documents, recipe.task
        self.before, self.history, self.steps = before, [], []
        task = recipe.task
        self.finetuned = text_model_of(recipe, label_names)
        if task.per_token and isinstance(documents["train"].texts[0], list):
            self.finetuned.words = True
        self.transformer = self.finetuned.model.transformer
        self.model = task.trained(self.finetuned.model, label_names)
        self.batches = {length: self._batches(length) for length, _ in recipe.lengths}
        self._judged = {}  # `TextBatches` of what is evaluated with the metrics of the user
        for role in ("validation", "test"):
            if documents[role]:
                self._read_judged(role)
        if self.left_out:
            LOGGER.warning(
                f"{self.left_out:,} of {len(documents['train']):,} texts to train on are longer "
                f"than the longest stage, {recipe.longest:,} tokens, and are not read: "
                "longer='skip'."
            )
        self._compile()
        epochs = len(recipe.epoch_lengths)
        self.callbacks = RunCallbacks(recipe.callbacks or [], self.model, epochs)
        if recipe.callbacks:
            self._check_callbacks()

    def _batches(self, length):
        options = {"shuffle": True, "seed": self.recipe.seed, **self.task.training_options}
        if self.task.has_windows:
            options["stride"] = self.task.stride_of(length)
        # Every epoch saves the padding, and a program is made once.
        epochs = self.recipe.epoch_lengths.count(length)
        options["shape_price"] = shape_price(self.model, training=True) // epochs
        at_length = dataclasses.replace(self.finetuned, max_length=length)
        train = self.documents["train"]
        texts, targets = train.texts, train.labels
        if self.recipe.longer == "skip":
            short_enough = np.flatnonzero(self.token_counts <= length)
            if not len(short_enough):
                raise ValueError(
                    f"No document of train fits in {length} tokens, the shortest has "
                    f"{self.token_counts.min()}: give a longer stage, or longer='cut'."
                )
            texts, targets = take(texts, short_enough), take(targets, short_enough)
        if self.task.class_weight is not None:
            options["class_weight"] = self.task.class_weight
        at_length, texts, targets = self._encoded(at_length, texts, targets)
        with unlogged_truncation(length < self.recipe.longest):  # a later stage reads the rest
            batches = at_length.batches(texts, targets, **options)
        self.task.check_batches(batches, self.finetuned.label_names)
        return batches

    def _encoded(self, text_model, texts, targets):
        """What makes the batches, of a task that encodes its texts itself."""
        rows = self.task.encoded(texts, text_model)
        if rows is None:
            return text_model, texts, targets
        kept, length = [number for number, row in enumerate(rows) if row], text_model.max_length
        if not kept:
            raise ValueError(
                f"Every passage begins behind {length:,} tokens of its document: give a larger "
                "max_length."
            )
        if len(kept) < len(rows):
            LOGGER.warning(
                f"{len(rows) - len(kept):,} of {len(rows):,} passages begin behind {length:,} "
                "tokens of their documents, and are not read."
            )
        plain = dataclasses.replace(text_model, prompt="", prompts=None)
        return plain, [rows[number] for number in kept], take(targets, kept)

    def _read_judged(self, role):
        """Reads documents to evaluate, so that an error comes before the training, and keeps their
        batches for the metrics of the user."""
        part, metrics = self.documents[role], self.recipe.metrics
        if not metrics and self.task.encoded(part.texts[:1], self.finetuned) is not None:
            return
        try:
            with unlogged_truncation(not metrics):
                model, *how = self._encoded(self.finetuned, part.texts, part.labels)
                batches = model.batches(*how, **self.task.training_options)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{role}: {error}") from None
        if metrics:
            self._judged[role] = batches

    @functools.cached_property
    def token_counts(self):
        """Tokens of each document to train on, special tokens included."""
        whole = dataclasses.replace(self.finetuned, max_length=None, stride=None)
        documents, options = self.documents["train"], self.task.training_options
        with unlogged_truncation(True):  # of a query, of which more tokens are never read
            whole, train, _ = self._encoded(whole, documents.texts, documents.labels)
        return whole.batches(train, **options).lengths

    @property
    def left_out(self):
        """How many of the documents to train on no stage reads."""
        if self.recipe.longer != "skip":
            return 0
        return int((self.token_counts > self.recipe.longest).sum())

    def _compile(self):
        model, recipe, label_names = self.model, self.recipe, self.finetuned.label_names
        total = sum(len(self.batches[length]) for length in recipe.epoch_lengths)
        loss = self.task.make_loss(label_names)
        metrics = [MeanLoss(loss), *self.task.metrics(label_names), *(recipe.metrics or ())]
        recipe.compile(model, total, loss, weighted_metrics=metrics)
        # Variables created inside the first step would make TensorFlow trace it twice.
        inputs, *targets = self.batches[recipe.final_length][0]
        width = inputs["token_ids"].shape[-1]
        sizes = [width if size is None else size for size in model.output_shape[1:]]
        # Metrics of the user that do not fit may seem to if there are as many rows as outputs.
        rows = 2 + (2 in sizes) if recipe.metrics else 1
        targets = [np.resize(array, (rows, *array.shape[1:])) for array in targets]
        scores = np.zeros((rows, *sizes), "float32")
        model.compute_loss(None, targets[0], scores, *targets[1:])
        try:
            model.compute_metrics(None, targets[0], scores, *targets[1:])
        except Exception as error:  # of a kind that depends on the backend and the metric
            if not recipe.metrics:
                raise
            raise metrics_error(recipe, targets[0].shape[1:], sizes, error) from error
        model.reset_metrics()

    def _check_callbacks(self):
        """Refuses callbacks that would fail, or do nothing, only after an epoch."""
        has_metrics = self.task.metrics(self.finetuned.label_names)
        logs = ["loss", *(self.task.watched if has_metrics else ()), *self._metric_names]
        if self.documents["validation"]:
            measured = self.task.measured(self.finetuned.label_names)
            # The loss first, as in the history.
            measured = sorted((*measured, *self._metric_names), key=lambda name: name != "loss")
            logs += [f"val_{name}" for name in dict.fromkeys(measured)]
        directions = {"loss", *(m.name for m in self._metrics() if has_direction(m))}
        optimizer = self.model.optimizer
        config = getattr(optimizer, "inner_optimizer", optimizer).get_config()
        has_schedule = isinstance(config["learning_rate"], dict)
        check_callbacks(self.callbacks.callbacks, logs, directions, has_schedule)

    def run(self, state, verbose="auto"):
        """Trains the epochs that `state`, a path, does not hold yet, and writes it after each of
        them; returns the metrics."""
        model, record = self.model, {}
        by_first(lambda: check_space(state.parent, model))
        arrays = []
        if by_first(state.exists):
            record = together(lambda: load_state(state, model, RECORD))
            arrays = together(lambda: load_arrays(state))
            self.history, self.steps = record["history"], record["steps"]
        self.callbacks.begin(record.get("callbacks"), arrays)
        stops = record.get("stops", False)
        counts = [len(self.batches[length]) for length in self.recipe.epoch_lengths]
        print_line, done = printer(verbose), len(self.history)
        texts = len(self.documents["train"])
        if not done and self.recipe.is_for_few(texts):
            print_line(
                f"{texts:,} texts are few for training all weights, here in {len(counts)} epochs: "
                'freeze="encoder" (--freeze encoder) computes a vector per text and trains a '
                "linear head on them, mostly in less time and with fewer errors"
            )
        trained, weights = trainable_weights(model)
        if trained < weights:
            print_line(f"training {trained:,} of {weights:,} weights")
        if done:
            print_line(f"resuming after epoch {done} of {len(counts)}")
        # "auto" and 1 draw a bar per epoch.
        progress = Progress(
            sum(counts),
            sum(counts[:done]),
            print_line,
            reports_steps=verbose == 2,
            in_epochs=True,
            sizes=[
                tokens
                for length in self.recipe.epoch_lengths
                for tokens in self.batches[length].batch_tokens
            ],
        )
        for epoch in range(done, len(counts)):
            if stops:
                print_line(f"a callback ended the training after epoch {epoch}")
                break
            stops = self._train_epoch(epoch, verbose, progress)
            record = {"history": self.history, "steps": self.steps}
            if self.callbacks.callbacks:
                record["callbacks"], arrays = self.callbacks.state()
                record["stops"] = stops
            by_first(functools.partial(save_state, state, model, record, arrays))
            progress.epoch(epoch + 1, len(counts), self._scores(verbose))
        model.optimizer.finalize_variable_values(model.trainable_variables)
        self.callbacks.end(self._logs(self.history[-1]))
        return self.metrics(verbose)

    def _train_epoch(self, epoch, verbose, progress):
        """Trains an epoch; returns whether a callback ends the training."""
        lengths = self.recipe.epoch_lengths
        batches = self.batches[lengths[epoch]]
        started, one_epoch = time.perf_counter(), OneEpoch(batches, self.recipe.seed, progress)
        # One call per epoch, so that each starts the same way in a resumed run.
        logs = self.model.fit(
            batches,
            initial_epoch=epoch,
            epochs=len(lengths),
            callbacks=[one_epoch, *self.callbacks.in_fit(len(batches))],
            shuffle=False,
            verbose=0 if verbose == 2 else verbose,  # the lines of `progress` say the same
        ).history
        check_loss(logs["loss"][0], f"epoch {epoch + 1}")
        trained = (*self.task.watched, *self._metric_names)
        row = {
            "epoch": epoch + 1,
            "max_length": lengths[epoch],
            "steps": len(one_epoch.steps),  # a callback may end an epoch
            "loss": logs["loss"][0],
            **{name: np.asarray(logs[name][0]).tolist() for name in trained if name in logs},
            "seconds": time.perf_counter() - started,
        }
        if self.documents["validation"]:
            judged = self._measure("validation", verbose)
            scores = ["loss", *self.task.scores, *self._metric_names]
            row |= {f"val_{name}": judged[name] for name in scores if name in judged}
        self.history.append(row)
        self.steps += one_epoch.steps
        stops = self.callbacks.end_epoch(epoch, self._logs(row))
        one_epoch.take_back_averages()
        return stops or one_epoch.stopped

    @staticmethod
    def _logs(row):
        """What callbacks get of an epoch in the history."""
        return {name: row[name] for name in row if name not in COUNTED}

    def _metrics(self):
        """The metrics of the model, also those that Keras holds together in one object."""
        return [m for each in self.model.metrics for m in getattr(each, "metrics", [each])]

    @functools.cached_property
    def _metric_names(self):
        """Names of the metrics that the user gave."""
        names = dict.fromkeys(metric.name for metric in self._metrics())
        return [name for name in names if name not in ("loss", *self.task.watched)]

    def _measure(self, role, verbose):
        judged = self.task.measure(self.finetuned, self.documents[role], verbose)
        if self._metric_names:
            batches = self._judged[role]  # which a bar has shown already
            progress = [BatchProgress(batches, 2 if verbose == 2 else 0)]
            found = self.model.evaluate(batches, return_dict=True, verbose=0, callbacks=progress)
            judged |= {name: np.asarray(found[name]).tolist() for name in self._metric_names}
        return judged

    def _scores(self, verbose):
        """What the epoch came to, as words: where no bar shows it also the loss and metrics of
        training, and the score that matters most on the validation documents."""
        row = self.history[-1]
        trained = ("loss", *self.task.watched, *self._metric_names) if verbose == 2 else ()
        names = [name for name in trained if isinstance(row.get(name), float)]
        scores = (f"val_{name}" for name in self.task.scores)
        names += [name for name in scores if name in row][:1]
        return "".join(f"{name} {row[name]:.4f}, " for name in names)

    def save(self, folder):
        """Writes the model and the history."""
        self.finetuned.save(folder)
        config = json.dumps(self.transformer.config.to_huggingface(), indent=1)
        write_text(folder / "config.json", config)
        write_text(folder / "history.csv", _csv(self.history))
        write_text(folder / "steps.csv", _csv(self.steps))
        if self._baselines is not None:
            self._baselines.save(folder)

    def metrics(self, verbose="auto"):
        """Evaluates the model; returns the metrics of the run."""
        count = sum(len(part) for role, part in self.documents.items() if part and role != "train")
        if verbose == 2 and count:  # a bar would show it
            printer(verbose)(f"evaluating {count:,} documents")
        judged = {
            role: part and self._measure(role, verbose)
            for role, part in self.documents.items()
            if role != "train"
        }
        self._baselines = Baselines.of(self.finetuned, self.documents["train"])
        for role, measured in judged.items():
            if measured and self._baselines:
                compared = self._baselines.measure(self.finetuned, self.documents[role])
                measured["baselines"] = compared
        last = self.batches[self.recipe.final_length]
        row = self.history[-1]
        shown = [name for name in self._metric_names if isinstance(row[name], float)]
        shown = {name: name.replace("_", " ") for name in shown}
        train = {
            "documents": len(self.documents["train"]) - self.left_out,
            "epochs": len(self.history),
            "steps": sum(row["steps"] for row in self.history),
            "seconds": sum(row["seconds"] for row in self.history),
            "max_length": self.recipe.final_length,
            "trainable_weights": trainable_weights(self.model)[0],
            "padding_share": float(last.padding_share),
            "lengths": length_histogram(last.lengths),
        }
        return {
            "task": self.task.name,
            "labels": self.finetuned.label_names,
            "scores": {**self.task.scores, **shown},
            "train": train,
            **judged,
            **self.before,
        }


def text_model_of(recipe, label_names):
    """The `TextModel` that a run trains, with a new head."""
    set_random_seed(recipe.seed)
    task = recipe.task
    encoder, tokenizer = _encoder(recipe, label_names)
    if recipe.lora_rank is not None or recipe.freeze is not None:
        choose_trainable(encoder, recipe.lora_rank, recipe.freeze)
    return TextModel(
        encoder if task.pooling == HEAD else task.model(encoder, label_names),
        tokenizer,
        recipe.final_length,
        recipe.token_budget,
        label_names,
        task=task.name,
        stride=task.stride_of(recipe.final_length),
        **task.prompts,
    )


def _encoder(recipe, label_names):
    """The pretrained encoder, stretched if a stage exceeds its positions, and its tokenizer; with
    its family's own head for the names, if that is to pool. It masks what the tokenizer pads with
    from here on."""
    source, task = recipe.source, recipe.task
    weights, config = source.open_weights(), source.read_config()
    tokenizer = source.read_tokenizer(config)
    if recipe.longer == "ends":
        tokenizer.truncate_from = "middle"
    options = recipe.options(config, weights.stretching)
    if task.pooling == HEAD:
        if task.problem_type is None:
            raise ValueError(
                f'pooling="head" is the head of a text\'s classes or numbers; task={task.name!r} '
                "has one of its own: leave pooling out."
            )
        options |= {"head": "sequence_classification", "label_names": list(map(str, label_names))}
    tokenizer.pad_id = padding_id(tokenizer, config)
    options |= {"pad_token_id": tokenizer.pad_id, "model": source.model, "ignore": source.ignore}
    return build_transformer_model(config, weights, **options), tokenizer


def _csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
