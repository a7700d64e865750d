"""Position distillation: a student with more positions learns the features of its teacher."""

import functools
import hashlib

import numpy as np

from keras_posenc import backend
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.processes.replicas import fill, share_of
from keras_posenc.text.files import long_texts
from keras_posenc.training.progress import printer
from keras_posenc.training.runs import take_steps
from keras_posenc.training.stretching.feature_losses import FeatureDistance, agreement
from keras_posenc.training.stretching.stretch_recipe import Pair
from keras_posenc.training.stretching.windows import HeldOutText, Reader, context_kept, one_segment

TEST_TEXTS = 2
# Of the old length: how many pieces the agreement by position has.
PIECES = 4
MEASURES = ("before", "after", "teacher")


class Distillation:
    """The teacher, the student and their texts."""

    def __init__(self, recipe, source, old, tokenizer, corpus, other_files):
        self.recipe, self.old, self.corpus, self.other_files = recipe, old, corpus, other_files
        set_random_seed(recipe.seed)
        self.pair = Pair(recipe, source, old, recipe.encodings(old))
        self.teacher = Reader(self.pair.teacher, tokenizer, old.max_position)
        self.student = self.pair.student
        recipe.compile(self.student, max(1, recipe.steps), FeatureDistance())

    def run(self, state, verbose):
        """Trains from where `state`, a path, stands, or from the beginning; returns the report."""
        print_line = printer(verbose)

        def start():
            print_line(f"{self.recipe.steps} steps of {self.recipe.train_length:,} tokens")
            return self.at_start()

        return self.report(
            take_steps(self.student, self.recipe.steps, state, self.step, start, print_line)
        )

    @functools.cached_property
    def tests(self):
        """The test texts."""
        texts = self.corpus.test(TEST_TEXTS)
        return [HeldOutText(text, self.teacher, self.corpus.train) for text in texts]

    def step(self, number):
        """Takes one training step and returns the loss."""
        text = self.corpus.training(number)
        # Windows begin anywhere: a token's features must not depend on where they happen to begin.
        rng = np.random.default_rng((self.recipe.seed, 2, number))
        batch = self.inputs(text), fill(self.teacher(text, rng.random())[None])
        # Several processes read the same text.
        batch = share_of(batch, backend.processes())
        return float(np.ravel(self.student.train_on_batch(*batch))[0])

    def inputs(self, text):
        """The student's inputs for a text."""
        return one_segment(self.student, fill(self.corpus.inputs(text)[None]))

    def read(self, text):
        """The student's features (T, D) of a text."""
        return self.student.predict_on_batch(self.inputs(text))[0]

    def at_start(self):
        """Both measures before training, and the teacher's agreement with itself."""
        pairs = [agreement(*test.readings) for test in self.tests]
        before, context = self.measure()
        teacher = by_piece(np.mean(pairs, axis=0), self.old.max_position)
        return {"before": before, "context": context, "teacher": teacher}

    def measure(self):
        """The student's agreement with the teacher by position, and the context that it keeps."""
        agreements, changes = [], []
        for test in self.tests:
            features, others = self.read(test.text), self.read(test.other)
            agreements += [agreement(target, features) for target in test.readings]
            changes += test.changes(features, others)
        cosines = by_piece(np.mean(agreements, axis=0), self.old.max_position)
        return cosines, round(context_kept(changes), 4)

    def report(self, record):
        """Makes the report: agreement before and after, losses, seconds."""
        (after, context), length = self.measure(), self.recipe.train_length
        cosines = {"before": record["before"], "after": after, "teacher": record["teacher"]}
        return {
            "length": self.recipe.max_length,
            "old_length": self.old.max_position,
            **agreement_table(self.old.max_position, length, **cosines),
            "context": {"before": record["context"], "after": context},
            "losses": record["losses"],
            "seconds": round(record["seconds"], 1),
        }

    def save(self, folder):
        """Writes the checkpoint and what belongs to it."""
        self.pair.save(folder, self.recipe.max_length, self.corpus.tokenizer, self.other_files)


def by_piece(cosines, old_length):
    """Averages cosines (T,) over pieces whose length is a fraction of the old length."""
    size = max(1, old_length // PIECES)
    return [round(float(cosines[i : i + size].mean()), 5) for i in range(0, len(cosines), size)]


def agreement_table(old_length, length, **measures):
    """A dict of the agreement by position: a row for each piece, and means within and beyond the
    old length. `measures` are lists of cosines by piece, for each of `MEASURES`.

    Example:

    >>> table = agreement_table(4, 5, before=[0.5] * 5, after=[0.75] * 5, teacher=[1.0] * 5)
    >>> table["beyond"], table["agreement"][-1]["from"]
    ({'before': 0.5, 'after': 0.75, 'teacher': 1.0}, 4)
    """
    size = max(1, old_length // PIECES)
    rows = [
        {"from": i * size, "to": min((i + 1) * size, length)}
        | dict(zip(MEASURES, cosines, strict=True))
        for i, cosines in enumerate(zip(*(measures[name] for name in MEASURES), strict=True))
    ]
    parts = {"within": rows[:PIECES], "beyond": rows[PIECES:]}
    means = {
        part: {name: round(float(np.mean([row[name] for row in some])), 4) for name in MEASURES}
        for part, some in parts.items()
    }
    return {**means, "agreement": rows}


TEST_SHARE = 0.1


class CorpusPieces:
    """All texts of a corpus, concatenated in a random order, and pieces of them, of `length`
    tokens.

    Without `test`, the last tenth of `texts` is held out, but at least one piece.
    """

    def __init__(self, texts, test, tokenizer, length, seed=0, text=None):
        self.tokenizer, self.seed = tokenizer, seed
        self.size = length - tokenizer.special_tokens()
        self.train = _stream(texts, tokenizer, text, seed, "texts")
        if test is None:
            held_out = max(self.size, int(TEST_SHARE * len(self.train)))
            self.train, self.held_out = np.split(self.train, [max(0, len(self.train) - held_out)])
        else:
            self.held_out = _stream(test, tokenizer, text, seed, "test")
        for tokens, what in ((self.train, "train on"), (self.held_out, "test on")):
            if len(tokens) < self.size:
                raise ValueError(
                    f"The texts have {len(tokens):,} tokens to {what}, which is not one piece of "
                    f"{length:,}: give more texts, or a smaller length (train_length)."
                )

    def training(self, step):
        """The text of a step, (size,) token ids, a function of (seed, step) alone."""
        rng = np.random.default_rng((self.seed, 1, step))
        start = rng.integers(0, len(self.train) - self.size + 1)
        return self.train[start : start + self.size]

    def test(self, most):
        """At most `most` test texts, evenly spread over the held-out part."""
        count = min(most, len(self.held_out) // self.size)
        starts = np.linspace(0, len(self.held_out) - self.size, count).astype(int)
        return [self.held_out[start : start + self.size] for start in starts]

    def inputs(self, text):
        """The token ids (T,) of a text with its special tokens."""
        return np.array(self.tokenizer.assemble(list(map(int, text)))[0], "int32")

    def digest(self):
        """A fingerprint of all tokens."""
        tokens = np.concatenate([self.train, [-1], self.held_out]).astype("int32")
        return hashlib.sha256(tokens.tobytes()).hexdigest()[:16]


def _stream(texts, tokenizer, text, seed, name):
    ids = tokenizer.contents(long_texts(texts, text, name))
    order = np.random.default_rng((seed, 0)).permutation(len(ids))
    between = [] if tokenizer.sep_id is None else [tokenizer.sep_id]
    parts = [np.array([*ids[index], *between], "int32") for index in order]
    return np.concatenate([np.zeros(0, "int32"), *parts])
