"""The texts, the model and the steps of `pretrain`."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Set

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.files.untrusted import quote
from keras_posenc.models.config import RATES
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads_in import heads_in
from keras_posenc.models.inputs import inputs_of
from keras_posenc.models.model import TransformerModel
from keras_posenc.processes.together import by_first
from keras_posenc.text import Texts, read_texts
from keras_posenc.text.decoding import FilePart
from keras_posenc.text.disk_list import DiskList, take
from keras_posenc.text.files import read_long_texts
from keras_posenc.text.offsets import check_text
from keras_posenc.text.pretraining_batches import (
    CausalBatches,
    MaskedLanguageModelBatches,
    encode_corpus,
)
from keras_posenc.text.shapes import shape_price
from keras_posenc.training.cached_texts import cached_texts, cached_tokens
from keras_posenc.training.progress import SHORT, Progress, printer
from keras_posenc.training.runs import take_steps
from keras_posenc.training.training_state import check_space

# What is learned -> who attends to whom.
OBJECTIVES = {"mlm": "encoder", "causal": "lm", "unilm": "unilm"}


@dataclasses.dataclass(frozen=True)
class PretrainingTexts:
    """Texts to learn from, and others to measure on; str, or pairs of str."""

    train: list
    validation: list

    def digest(self):
        """A fingerprint of all texts."""
        sha = hashlib.sha256()
        for mark, texts in (("([", self.train), ("], [", self.validation)):
            for text in texts:
                sha.update(f"{mark}{text!r}".encode("utf-8", "surrogatepass"))
                mark = ", "
        sha.update(b"])")
        return sha.hexdigest()[:16]


def read_corpus(corpus, validation, pairs, text=None, label=None, seed=0, cache=None):
    """Reads the texts of `pretrain` as a `PretrainingTexts`; `pairs` are prompts with answers."""
    if validation is None:
        raise ValueError("validation=None: give texts, or the share of the corpus to hold out.")
    if cache is None:
        train = _read(corpus, pairs, text, label)
    else:
        settings = {"pairs": pairs, "text": text, "label": label}

        def read_part(part):
            return Texts(found := _read(part, pairs, text, label), None, range(len(found)))

        train = cached_texts(cache, corpus, settings, read_part, paragraphs=not pairs).texts
    if isinstance(validation, float):
        checks.number("validation", validation, above=0, below=1)
        if len(train) < 2:
            raise ValueError(
                f"`corpus` has {len(train)} texts, of which none can be held out: give more, or "
                "other texts as validation."
            )
        order = np.random.default_rng((seed, 0)).permutation(len(train))
        held_out = max(1, int(validation * len(train)))
        parts = order[held_out:], order[:held_out]
        train, found = (take(train, sorted(part)) for part in parts)
        return PretrainingTexts(train, list(found))
    return PretrainingTexts(train, _read(validation, pairs, text, label, "validation"))


def _read(source, pairs, text, label, name="corpus"):
    if isinstance(source, (str, os.PathLike, FilePart)):
        source = read_texts(source, text, label) if pairs else read_long_texts(source, text)
    if isinstance(source, Texts):
        texts = source.texts
        if pairs and source.labels is not None:
            texts = list(zip(texts, source.labels, strict=True))
    elif not isinstance(source, Iterable) or isinstance(source, (bytes, Mapping, Set)):
        raise TypeError(
            f"`{name}` must be a path, a Texts or a list of texts"
            + ", or a float below 1, the share of the corpus to hold out" * (name == "validation")
            + f". Received: {quote(source)}"
        )
    else:
        texts = [tuple(each) if isinstance(each, list) else each for each in source]
    for number, each in enumerate(texts):
        parts = each if pairs and isinstance(each, tuple) else (each,)
        if len(parts) != 1 + pairs or not all(isinstance(part, str) for part in parts):
            what = "a (prompt, answer) pair of str" if pairs else "a str"
            raise TypeError(f"Text {number} is {each!r:.60}: this objective needs {what}.")
        for part in parts:
            check_text(f"Text {number}", part)  # here, because their numbers change
    return texts


def cached_corpus(texts, tokenizer, length, masked):
    """`EncodedTexts` of a `DiskList`; the arguments are those of `encode_corpus`."""

    def encode(texts, _):
        return encode_corpus(texts, tokenizer, length, masked)

    return cached_tokens(texts, {"length": length, "masked": masked}, tokenizer, encode)


class Pretraining:
    """The model of a pretraining run and its batches."""

    def __init__(self, recipe, sizes, tokenizer, corpus):
        self.recipe, self.sizes, self.tokenizer = recipe, sizes, tokenizer
        set_random_seed(recipe.seed)
        self.batches = self._batches(corpus.train, shuffle=True)
        self.held_out = self._batches(corpus.validation, shuffle=False)
        self.steps = recipe.steps or recipe.epochs * len(self.batches)
        weights, head = recipe.source.open_weights(), {"with_mlm": "linear"}
        build = dict(
            config_path=sizes,
            model=recipe.source.model,
            return_keras_model=False,
            application=OBJECTIVES[recipe.objective],
            **recipe.options(sizes, weights.stretching),
        )
        load = dict(checkpoint_path=weights, ignore=recipe.source.ignore)
        self.new_head = "with_mlm" not in heads_in(weights, recipe.source.model, sizes)
        if self.new_head:
            body = build | {"application": "encoder"}
            layers = build_transformer_model(**load, **body).layers
            self.transformer = build_transformer_model(layers=layers, **build, **head)
        else:
            self.transformer = build_transformer_model(**load, **build, **head)
        self.model = self._model(build)
        # A sum by weights that `step` makes those of a mean: replicas of TensorFlow do not all have
        # as much to predict.
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        recipe.compile(self.model, self.steps, loss, weighted_metrics=[accuracy])

    def _batches(self, texts, shuffle):
        recipe = self.recipe
        options = dict(token_budget=recipe.token_budget, shuffle=shuffle, seed=recipe.seed)
        options |= {"pack": recipe.pack, "shape_price": shape_price(training=True)}
        if isinstance(texts, DiskList):
            masked = recipe.objective == "mlm"
            texts = cached_corpus(texts, self.tokenizer, recipe.max_length, masked)
        if recipe.objective != "mlm":
            return CausalBatches(texts, self.tokenizer, recipe.max_length, **options)
        return MaskedLanguageModelBatches(
            texts,
            self.tokenizer,
            recipe.max_length,
            recipe.masked,
            recipe.whole_words,
            recipe.max_ngram,
            positions=True,
            **options,
        )

    def _model(self, build):
        """Inputs -> float32 logits; of a masked language model only of the places to guess."""
        build |= {"layers": self.transformer.layers, "packed": self.recipe.pack}
        if self.recipe.objective != "mlm":
            model = build_transformer_model(with_mlm="linear", **build).model
            logits, inputs = model.output, model.inputs
        else:
            encoder = build_transformer_model(**build).model
            places = keras.Input((None,), dtype="int32", name="masked_positions")
            features = ops.take_along_axis(encoder.output, places[..., None], axis=1)
            logits, inputs = self.transformer.heads(features), [*encoder.inputs, places]
        # Sums over the vocabulary are in float32 under every policy.
        named = {each.name: each for each in inputs}
        return TransformerModel(named, ops.cast(logits, "float32"))

    def run(self, state, verbose):
        """Trains from where `state`, a path, stands, or from the beginning; returns the metrics."""
        print_line = printer(verbose)

        def start():
            by_first(lambda: check_space(state.parent, self.model))
            if self.new_head:
                print_line("The checkpoint has no head over the vocabulary: a new one is trained.")
            read = self.recipe.max_length
            print_line(
                f"{self.steps:,} steps of {self.recipe.token_budget:,} tokens, rows of {read:,}"
            )
            return {"before": self.measured(print_line)}

        record = take_steps(self.model, self.steps, state, self.step, start, print_line)
        return {
            "objective": self.recipe.objective,
            "length": self.recipe.max_length,
            "before": record["before"],
            "after": self.measured(print_line),
            "losses": record["losses"],
            "seconds": round(record["seconds"], 1),
            "new_head": self.new_head,
        }

    def step(self, number):
        """Takes one training step and returns the loss."""
        epoch, index = divmod(number, len(self.batches))
        if self.batches.epoch != epoch:
            self.batches.set_epoch(epoch)
        # Where there is no such state, a new seed would only have graphs prepared once more.
        if backend.TRAITS.global_random_state:
            set_random_seed(self.recipe.seed + 1 + number)
        inputs, targets, weights = self.batches[index]
        # Each of several processes has some of the rows.
        weights = weights / sum(backend.gather(weights.sum()))
        logs = self.model.train_on_batch(
            inputs_of(self.model, inputs), targets, sample_weight=weights, return_dict=True
        )
        return float(logs["loss"])

    def measured(self, print_line):
        """Loss and accuracy over the tokens to guess in the validation texts."""
        totals = np.zeros(3)
        progress = Progress(len(self.held_out), 0, print_line, unit="test batch", after=SHORT)
        for index in range(len(self.held_out)):
            inputs, targets, weights = self.held_out[index]
            logits = self.model.predict_on_batch(inputs_of(self.model, inputs))
            top = logits.max(axis=-1)
            sums = top + np.log(np.exp(logits - top[..., None]).sum(axis=-1))
            target_logits = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
            right = logits.argmax(axis=-1) == targets
            totals += [(weights * part).sum() for part in (sums - target_logits, right, 1.0)]
            progress.step()
        totals = sum(backend.gather(totals))
        return {"loss": totals[0] / totals[2], "accuracy": totals[1] / totals[2]}

    def save(self, folder):
        """Writes the checkpoint and its tokenizer, with the original dropout rates."""
        rates = {name: getattr(self.sizes, name) for name in RATES}
        self.transformer.config = dataclasses.replace(self.transformer.config, **rates)
        positions = self.sizes.beyond_table(self.recipe.max_length)
        save_checkpoint(self.transformer, folder, positions=positions)
        self.tokenizer.save(folder)
