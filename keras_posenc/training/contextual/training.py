"""A contextual training: its loss, its steps, what it measures before and after, and saves."""

import functools

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.layers.norm import unit
from keras_posenc.models.inputs import inputs_of
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.contextual.batches import CopyBatches
from keras_posenc.training.contextual.copies import COPIES, draw
from keras_posenc.training.contextual.links import attention_loss, with_attention
from keras_posenc.training.contextual.measure import Measure, cases
from keras_posenc.training.progress import printer
from keras_posenc.training.runs import take_steps
from keras_posenc.training.stretching.stretch_recipe import Pair
from keras_posenc.training.stretching.windows import Reader, one_segment
from keras_posenc.training.summary import left_out_summary

TEMPERATURE = 0.05
# Weights of the terms that keep the features of near context, and those of passages read alone.
NEAR, ALONE = 3.0, 1.0


class ContextualModel(backend.SafeTrainer, keras.Model):
    """Reads counterfactual copies of a text and compares their passages with the teacher's.

    With student vectors s_i of the passages of all copies, each read in its copy without the name,
    and teacher vectors t_i of the same passages, read alone with the name, the loss is

        (CE(s t^T / 0.05) + CE(t s^T / 0.05)) / 2 + mean(1 - cos(s_i, t_i))
        + 3 mean(1 - cos(features of the first copy, the teacher's in windows))
        + mean(1 - cos(student's vectors of its passages read alone, t_i)),

    with vectors of length 1 in the cross entropies CE. The same passage in another copy differs
    only by the distant name, and another passage of the same copy only by its content.

    `near` is the weight of the term that keeps features. It is 0 for a teacher that does not pool
    by the mean, because the means of its features are no vectors of texts. `supervised` is the
    weight of a further term, the mean of `attention_loss`. The outputs are `passages` (C P, D),
    `alone` (A, D), and `near` (T, D), the features of the first copy; with `supervised` also
    `attention` (C, Q).

    Call arguments:
        inputs: dict of `token_ids` and, if the student has them, `position_ids`, (C, T); `members`
            (C, P, T), the weights of the mean over each passage; `alone_ids` and `alone_members`
            (A, L), some passages of the first copy with their name; and with `supervised` what
            `linked_tokens` gives.
    """

    def __init__(self, student, near=NEAR, supervised=0.0, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})  # so that weights of means stay exact
        self.student, self.near, self.supervised = student, near, supervised
        self.with_attention = with_attention(student) if supervised else None

    def call(self, inputs):
        copies = self._inputs(inputs["token_ids"], inputs.get("position_ids"))
        if self.supervised:
            links = {name: inputs[name] for name in ("persons", "introduced")}
            read = {**copies, "pronouns": inputs["pronouns"]}
            features, *maps = self.with_attention(inputs_of(self.with_attention, read))
            features = ops.cast(features, "float32")
            more = {"attention": attention_loss(maps, **links)}
        else:
            features, more = self._features(copies), {}
        alone = self._features(self._inputs(inputs["alone_ids"]))
        passages = ops.einsum("cpt,ctd->cpd", inputs["members"], features)
        return {
            "passages": ops.reshape(passages, (-1, features.shape[-1])),
            "alone": ops.einsum("pl,pld->pd", inputs["alone_members"], alone),
            "near": features[0],
            **more,
        }

    @staticmethod
    def _inputs(tokens, positions=None):
        if positions is None:
            positions = ops.broadcast_to(ops.arange(ops.shape(tokens)[1]), ops.shape(tokens))
        return {"token_ids": tokens, "segment_ids": 0 * tokens, "position_ids": positions}

    def _features(self, inputs):
        return ops.cast(self.student(inputs_of(self.student, inputs)), "float32")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        y = {name: ops.convert_to_tensor(value, "float32") for name, value in y.items()}
        target, real = unit(y["passages"]), y["real"]
        found = unit(y_pred["passages"])
        # A place without a passage is no candidate, and neither is a copy of the passage itself.
        place = ops.arange(ops.shape(real)[0])
        others = ops.not_equal(place[None], place[:, None])
        copies = ops.logical_and(others, ops.equal(y["same"][None], y["same"][:, None]))
        both = real[None] * real[:, None] * ops.cast(ops.logical_not(copies), "float32")
        scores = ops.matmul(found, ops.transpose(target)) / TEMPERATURE - 1e4 * (1 - both)
        entropies = (ops.logsumexp(scores, axis=1) + ops.logsumexp(scores, axis=0)) / 2
        passages = entropies - ops.diagonal(scores) + _apart(found, target)
        first = ops.shape(y_pred["alone"])[0]
        alone = _apart(unit(y_pred["alone"]), target[:first])
        near = _apart(unit(y_pred["near"]), unit(y["near"]))
        loss = (
            _mean(passages, real)
            + ALONE * _mean(alone, real[:first])
            + self.near * _mean(near, y["kept"])
        )
        if self.supervised:
            loss += self.supervised * _mean(y_pred["attention"], y["linked"])
        return loss


def _apart(one, other):
    return 1 - ops.sum(one * other, axis=-1)


def _mean(values, weights):
    return ops.sum(values * weights) / ops.maximum(ops.sum(weights), 1.0)


DISTANCES = (400, 800, 1600)  # tokens back to the name, of what is measured
ROOM = 200  # tokens for what stands before and behind
ROWS = 16  # of passages that the teacher reads, so that few programs are compiled
SPARE = 32  # tokens: special ones, and a name that is longer than the text's
EXAMPLES = 3


class ContextualTraining:
    """The teacher, the student and their texts."""

    def __init__(self, recipe, source, old, tokenizer, corpus, held_out, other_files, pooling):
        self.recipe, self.old, self.tokenizer = recipe, old, tokenizer
        self.corpus, self.held_out, self.other_files = corpus, held_out, other_files
        self.pooling = pooling
        set_random_seed(recipe.seed)
        skips = not old.padded_positions
        self.pair = Pair(recipe, source, old, {}, skips)
        window = min(old.max_position, 512)
        self.teacher = Reader(self.pair.teacher, tokenizer, window)
        near, supervised = NEAR if pooling == "mean" else 0.0, recipe.supervised_attention
        self.model = ContextualModel(self.pair.student, near, supervised)
        lengths = recipe.train_length, recipe.max_length
        self.batches = CopyBatches(tokenizer, *lengths, skips, window, pooling, bool(supervised))
        recipe.compile(self.model, max(1, recipe.steps), None)

    def run(self, state, verbose):
        """Trains from where `state`, a path, stands, or from the beginning; returns the report."""
        print_line = printer(verbose)

        def start():
            print_line(
                f"{self.corpus.summary()}; {self.recipe.steps:,} steps of {COPIES} copies of up to "
                f"{self.recipe.train_length:,} tokens, about {self.gigabytes():.1f} GB of memory "
                "beside the program"
            )
            if left_out := left_out_summary(self.corpus.left_out):
                print_line(left_out)
            print_line("measuring what is found before the training")
            return self.at_start()

        record = take_steps(self.model, self.recipe.steps, state, self.step, start, print_line)
        print_line("measuring what is found after the training")
        return self.report(record)

    def gigabytes(self):
        """An estimate of the memory of a step: activations, weights, gradients and moments."""
        old, tokens = self.old, (COPIES + 1) * self.recipe.train_length
        numbers = 12 * old.hidden_size + 3 * old.intermediate_size
        activations = tokens * old.num_hidden_layers * numbers
        weights = 5 * sum(int(np.prod(v.shape)) for v in self.pair.student.weights)
        return 4 * (activations + weights) / 1e9

    def step(self, number):
        """Takes one training step and returns the loss."""
        rng = np.random.default_rng((self.recipe.seed, 2, number))
        batch = self.batches(draw(self.corpus, rng), rng)
        window = self.teacher.model.predict_on_batch(
            one_segment(self.teacher.model, batch.near_ids)
        )[0, self.batches.before :]
        near = np.zeros((len(batch.kept), window.shape[-1]), "float32")
        window = window[: len(near) - batch.near_place]
        near[batch.near_place : batch.near_place + len(window)] = window
        targets = {
            "passages": self.named(batch),
            "near": near,
            "kept": batch.kept,
            "real": batch.real,
            "same": np.unique(batch.named_ids, axis=0, return_inverse=True)[1].ravel(),
        }
        if self.recipe.supervised_attention:
            targets["linked"] = (batch.inputs["persons"] > 0).astype("float32")
        return float(np.ravel(self.model.train_on_batch(batch.inputs, targets))[0])

    def named(self, batch):
        """The teacher's vectors (C P, D) of the passages with their names; 0 where there is none.

        As many rows are read as there are passages, up to the next multiple of `ROWS`.
        """
        count = -(-int(batch.real.sum()) // ROWS) * ROWS
        rows = np.argsort(-batch.real, kind="stable")[:count]
        features = self.teacher.model.predict_on_batch(
            one_segment(self.teacher.model, batch.named_ids[rows])
        )
        vectors = np.zeros((len(batch.real), features.shape[-1]), "float32")
        vectors[rows] = np.einsum("nl,nld->nd", batch.named_weights[rows], features)
        return vectors

    @property
    def distances(self):
        """Tokens back to the name, of what is measured."""
        most = self.recipe.max_length
        return [tokens for tokens in DISTANCES if tokens + ROOM <= most] or [most // 2]

    @functools.cached_property
    def measure(self):
        """The `Measure` on the texts that are held out."""
        most = self.recipe.max_length
        sentences = _long_enough(self.held_out)
        rng = np.random.default_rng((self.recipe.seed, 6))
        order = rng.permutation(len(sentences))
        return Measure(
            cases(self.held_out, self.distances, self.recipe.seed, most - SPARE),
            [sentences[i] for i in order],
            self.teacher,
            self.pair.student,
            self.tokenizer,
            most,
            self.pooling,
        )

    def at_start(self):
        """What the original encoder finds: in windows, and with the first sentence prepended."""
        ways = {"windows": self.measure.windows, "first_sentence": self.measure.first_sentence}
        found = {name: way() for name, way in ways.items()}
        return {
            "found": {name: fractions for name, (fractions, _) in found.items()},
            "chosen": {name: [c.tolist() for c in each] for name, (_, each) in found.items()},
        }

    def report(self, record):
        """Makes the report: what is found by distance, before and after; what was kept; losses."""
        fractions, chosen = self.measure.of_student()
        found = record["found"] | {"trained": fractions}
        chosen = record["chosen"] | {"trained": [each.tolist() for each in chosen]}
        similarity, cosine = self.measure.kept()
        return {
            "max_length": self.recipe.max_length,
            "old_length": self.old.max_position,
            "found": self._by_distance(found),
            "chance": round(float(np.mean([1 / len(c.texts) for c in self.measure.cases])), 4),
            "sentences": {"similarity": similarity, "agreement": cosine},
            "targets": self.corpus.summary(),
            "left_out": self.corpus.left_out,
            "examples": self._examples(chosen),
            "losses": record["losses"],
            "seconds": round(record["seconds"], 1),
        }

    def _by_distance(self, found):
        rows, every = [], self.measure.cases
        groups = np.array_split(np.arange(len(every)), len(self.distances))
        for group in groups:
            means = {
                name: round(float(np.mean([of[i] for i in group])), 4) for name, of in found.items()
            }
            tokens = int(np.mean([every[i].tokens for i in group]))
            rows.append({"tokens": tokens, **means})
        far = [row for row, most in zip(rows, self.distances, strict=True)
               if row["tokens"] >= most / 2]  # fmt: skip
        if len(far) < len(rows):
            LOGGER.warning(
                f"Passages are measured up to {rows[-1]['tokens']:,} tokens behind their name, not "
                f"{self.distances[-1]:,}: the texts that are held out have too little to stand "
                "between. Give more or longer ones as `test`."
            )
        return far or rows[:1]

    def _examples(self, chosen):
        examples = []
        for number in range(len(self.measure.cases) - 1, -1, -1):
            case = self.measure.cases[number]
            copy = len(examples) % len(case.texts)
            examples.append(
                {
                    "query": case.named[copy][0],
                    "passage": case.texts[copy][case.passages[0]],
                    "tokens": case.tokens,
                    "document": case.introductions[copy],
                    "found": {
                        way: case.introductions[of[number][copy][0]] for way, of in chosen.items()
                    },
                }
            )
            if len(examples) == EXAMPLES:
                break
        return examples

    def save(self, folder):
        """Writes the checkpoint and what belongs to it."""
        self.pair.save(folder, self.recipe.max_length, self.tokenizer.tokenizer, self.other_files)


def _long_enough(corpus):
    """The sentences of more than three words, or tokens where no spaces are; all if none has so
    many."""
    every = [
        (sentence, len(sentence.split()) if " " in sentence else tokens)
        for text in zip(corpus.sentences, corpus.counts, strict=True)
        for sentence, tokens in zip(*text, strict=True)
    ]
    return [s for s, size in every if size > 3] or [s for s, _ in every]
