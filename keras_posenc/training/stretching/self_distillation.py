"""`stretch`: an encoder learns to read long texts from itself, without labels."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import tempfile
import typing

import keras
import numpy as np

from keras_posenc import backend, checks
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.checkpoints.sentence_transformers import sentence_transformers_files
from keras_posenc.models.config import RATES
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads_in import heads_in
from keras_posenc.text.replicas import fill, share_of
from keras_posenc.training.processes import check_processes
from keras_posenc.training.progress import printer
from keras_posenc.training.runs import run_once, take_steps, whence
from keras_posenc.training.source import Source
from keras_posenc.training.stretching.context import (
    HeldOutText,
    context_kept,
    context_targets,
    draw_passages,
    skipped_positions,
)
from keras_posenc.training.stretching.corpus_pieces import CorpusPieces
from keras_posenc.training.stretching.feature_losses import FeatureDistance, agreement
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe
from keras_posenc.training.stretching.windows import Reader, first_token, one_segment
from keras_posenc.training.summary import of_metrics

KEYS = ("agreement", "within", "beyond")
TEST_TEXTS = 2
# Of the old length: how many pieces the agreement by position has.
PIECES = 4


class Stretched(typing.NamedTuple):
    """A stretched encoder and its report, as `stretch` returns them.

    Attributes:
        model: the stretched encoder, as `build_transformer_model` loads it from `output`.
        report: dict, the content of metrics.json.

    Example:

    >>> Stretched(model=None, report={"length": 2048}).report["length"]
    2048
    """

    model: keras.Model
    report: dict


@checks.renamed_argument("start", "stretch")
def stretch(
    checkpoint,
    texts,
    output=None,
    *,
    test=None,
    length=2048,
    keep=None,
    local=None,
    global_every=None,
    steps=64,
    learning_rate=None,
    log_n=None,
    stretch="hierarchical",
    alpha=0.2,
    kept_rows=1,
    train_length=None,
    text=None,
    config=None,
    tokenizer=None,
    model=None,
    ignore=None,
    seed=0,
    overwrite=False,
    verbose=True,
):
    """Extends a pretrained encoder to longer texts by position distillation, without labels.

    The original encoder is the teacher of the extended one, which reads the whole text.

    For each token, the target is the teacher's feature vector, taken from the window of the old
    length in which the token is most central. This preserves the features of near context.

    With keep="context", passages beyond the old length have another target. The teacher reads the
    opening of the text and then the passage, with the text between them left out. This preserves
    the effect of the opening on a distant passage, which a teacher of windows cannot show. In half
    of these texts the positions jump once, up to `length`, so that short texts train distant
    positions.

    The loss is 1 - cos + scaled squared error, over all tokens. The first positions start with the
    values of the checkpoint, and the row of [CLS] serves position 0 only.

    The same call resumes an interrupted run from its last state, and ends with the weights of an
    uninterrupted run. If the run is complete, the call returns immediately.

    Args:
        checkpoint: str. Path of the pretrained weights, or of a directory with weights, config and
            tokenizer. Or a model of `build_transformer_model`, with `tokenizer`.
        texts: long texts, without labels: a path for `read_texts`, a `Texts`, or a list of str.
        output: str or None. Directory for the extended checkpoint, its tokenizer, recipe.json and
            metrics.json; None saves nothing. Pooling, prompts and everything else in a directory of
            sentence-transformers are copied.
        test: texts to measure on, as `texts`; by default a tenth of `texts` is held out.
        length: int. Number of positions to serve.
        keep: str. What the training preserves: "context" or "features". "context" suits late
            chunking, retrieval and tasks on distant facts. "features" suits tasks whose answers are
            near, such as tagging. Default: "context", but "features" with `local`, because a local
            layer does not see distant context.
        local: int. Tokens to each side that a local layer attends to; [CLS] attends to all tokens
            and all attend to it. By default every layer is global.
        global_every: int. With `local`, the first of this many layers is global.
        steps: int. Training steps, each on one text of `train_length` tokens.
        learning_rate: float. Peak of a cosine schedule. The first updates of Adam are large: at
            2e-4 a single one undoes more than the training gains. Default: 4e-5, but 1e-5 with
            `log_n`, because larger rates lose the context that it gains.
        log_n: int or None. Length m from which on attention is sharper, by the factor ln n / ln m
            for n tokens, in the teacher, too (`LogN`). It keeps the effect of distant text, which
            attention to more tokens dilutes. A good value is the length that the checkpoint was
            last trained with, such as 128 for all-MiniLM-L6-v2. None: attention stays as it is.
        stretch: str. Initial values of the new positions. One of "hierarchical", "tile" or
            "interpolate".
        alpha: float. Weight of the block index in hierarchical positions. Default 0.2, not Su's 0.4
            as everywhere else: the new positions start closer to the trained ones, so the training
            has less to recover.
        kept_rows: int. Number of first rows of the table that are reserved, such as that of [CLS].
            No new position uses them.
        train_length: int. Tokens of the texts for training and measuring. Default: `length`, but at
            most four times the old length, because later positions share the rows of these.
        text: str. Name of the column of texts; by default one with a usual name, such as text or
            content (see `read_texts`).
        config: str. Path of the config; by default in the directory of `checkpoint`.
        tokenizer: str. Path of the tokenizer; by default in the directory of `checkpoint`.
        model: str. Family of the checkpoint; by default the one its config names.
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*
        seed: int. Seed of the choice of text pieces.
        overwrite: bool. Start again, whatever run is in `output`. To resume after an interruption,
            leave it out.
        verbose: bool. Whether to print the progress and the time left.

    Returns:
        `Stretched`: the model and the report, a dict. `agreement` is the mean cosine with the
            teacher's features by position, before and after. It is also given for the teacher with
            itself, between two readings whose windows are shifted by a quarter. `within` and
            `beyond` are the means within and beyond the old length. The others are `losses`,
            `seconds` and `versions`.

    Raises:
        FileNotFoundError: if a file is missing.
        TypeError: if `checkpoint` is neither a path nor such a model.
        NotADirectoryError: if `output` is a file.
        BlockingIOError: if another run uses `output`.
        ValueError: if a setting or the checkpoint is invalid, there are too few texts, or `output`
            holds a run with other settings.

    Example:

    >>> model, report = stretch("bert", "train.tsv", length=24, steps=2, verbose=False)
    >>> report["length"], len(report["losses"])
    (24, 2)
    """
    arguments = locals()
    check_processes("stretch")
    if output is None and backend.processes()[1] > 1:
        raise ValueError(
            "`output` must be a folder that all processes see. Received: None, with "
            f"{backend.processes()[1]} processes"
        )
    with tempfile.TemporaryDirectory() as scratch:
        source, name = _source(checkpoint, config, tokenizer, model, ignore, scratch)
        old = source.read_config()
        defaults = {
            "train_length": min(length, 4 * old.max_position),
            "keep": "context" if local is None else "features",
            "learning_rate": 4e-5 if log_n is None else 1e-5,
        }
        chosen = {key: value for key, value in defaults.items() if arguments[key] is None}
        recipe = StretchRecipe.of(arguments, checkpoint=name, model=source.model, **chosen)
        recipe.options(old)  # refuses a length before the texts are read
        tokenizer = source.read_tokenizer(old)
        corpus = CorpusPieces(texts, test, tokenizer, recipe.train_length, seed, text)
        other_files = _read_other_files(checkpoint, length, printer(verbose))
        output = pathlib.Path(scratch) / "stretched" if output is None else output
        prepare = functools.partial(
            Distillation, recipe, source, old, tokenizer, corpus, other_files
        )
        record = recipe.record(texts=corpus.digest())
        data = whence(texts=texts, test=test, text=text)
        report = run_once(output, record, overwrite, verbose, prepare, KEYS, data=data)
        return Stretched(build_transformer_model(output, model=source.model), report)


class Distillation:
    """The teacher, the student and their texts.

    Args:
        recipe: `StretchRecipe`.
        source: `Source` of the teacher.
        old: `Config` of the teacher.
        tokenizer: `Tokenizer`.
        corpus: `CorpusPieces`.
        other_files: dict path -> bytes, files to save with the checkpoint.
    """

    def __init__(self, recipe, source, old, tokenizer, corpus, other_files):
        self.recipe, self.old, self.corpus, self.other_files = recipe, old, corpus, other_files
        keras.utils.set_random_seed(recipe.seed)
        weights, options = source.open_weights(), recipe.options(old)
        build = dict(config_path=old, model=source.model, **dict.fromkeys(RATES, 0.0))
        load = dict(checkpoint_path=weights, ignore=source.ignore)
        teacher = build_transformer_model(**load, **build, **recipe.encodings(old))
        self.teacher = Reader(teacher, tokenizer, old.max_position)
        # The checkpoint's heads come along as they are; what learns is the encoder under them.
        self.whole = build_transformer_model(
            **load,
            return_keras_model=False,
            **heads_in(weights, source.model, old),
            **build,
            **options,
        )
        # Ids that are made of the tokens leave no room for skipped ones.
        self.skips = recipe.keep == "context" and not old.padded_positions
        self.student = build_transformer_model(
            layers=self.whole.layers,
            custom_position_ids=self.skips,
            **build,
            **options,
        )
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
        shift = rng.random()
        if self.recipe.keep == "features":
            inputs, target = self.inputs(text), self.teacher(text, shift)
            return self.train(inputs, fill(target[None]))
        passages = draw_passages(len(text), self.teacher.size, rng)
        count, before = self.recipe.train_length, first_token(self.teacher.tokenizer)
        positions = skipped_positions(count, passages, self.recipe.length, before, rng)
        target, weights = context_targets(self.teacher, text, shift, passages)
        return self.train(self.inputs(text, positions), fill(target[None]), fill(weights[None]))

    def train(self, *batch):
        # Several processes read the same text.
        batch = share_of(batch, backend.processes())
        return float(np.ravel(self.student.train_on_batch(*batch))[0])

    def inputs(self, text, positions=None):
        """The student's inputs for a text, at positions 0, 1, 2, ... by default."""
        ids = self.corpus.inputs(text)
        positions = np.arange(len(ids), dtype="int32") if positions is None else positions
        return one_segment(self.student, fill(ids[None]), position_ids=fill(positions[None]))

    def read(self, text):
        """The student's features (T, D) of a text."""
        return self.student.predict_on_batch(self.inputs(text))[0]

    def at_start(self):
        """Both measures before training, and the teacher's agreement with itself."""
        pairs = [agreement(*test.readings) for test in self.tests]
        before, context = self.measure()
        teacher = self.by_piece(np.mean(pairs, axis=0))
        return {"before": before, "context": context, "teacher": teacher}

    def measure(self):
        """The student's agreement with the teacher by position, and the context that it keeps."""
        agreements, changes = [], []
        for test in self.tests:
            features, others = self.read(test.text), self.read(test.other)
            agreements += [agreement(target, features) for target in test.readings]
            changes += test.changes(features, others)
        return self.by_piece(np.mean(agreements, axis=0)), round(context_kept(changes), 4)

    def by_piece(self, cosines):
        """Averages cosines (T,) over pieces whose length is a fraction of the old length."""
        size = max(1, self.old.max_position // PIECES)
        return [round(float(cosines[i : i + size].mean()), 5) for i in range(0, len(cosines), size)]

    def report(self, record):
        """Makes the report: agreement before and after, losses, seconds."""
        size = max(1, self.old.max_position // PIECES)
        (after, context), length = self.measure(), self.recipe.train_length
        agreement = [
            {"from": i * size, "to": min((i + 1) * size, length), "before": b, "after": a,
             "teacher": t}
            for i, (b, a, t) in enumerate(
                zip(record["before"], after, record["teacher"], strict=True)
            )
        ]  # fmt: skip
        parts = {"within": agreement[:PIECES], "beyond": agreement[PIECES:]}
        return {
            "length": self.recipe.length,
            "old_length": self.old.max_position,
            **{
                part: {
                    name: round(float(np.mean([row[name] for row in rows])), 4)
                    for name in ("before", "after", "teacher")
                }
                for part, rows in parts.items()
            },
            "context": {"before": record["context"], "after": context},
            "agreement": agreement,
            "losses": record["losses"],
            "seconds": round(record["seconds"], 1),
        }

    def save(self, folder):
        """Writes the checkpoint, all positions as rows, with the original dropout rates, and what
        belongs to it."""
        rates = {name: getattr(self.old, name) for name in RATES}
        self.whole.config = dataclasses.replace(self.whole.config, **rates)
        save_checkpoint(self.whole, folder, positions=self.recipe.length)
        self.corpus.tokenizer.save(folder)
        for name, content in self.other_files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)


@of_metrics
def stretch_summary(report):
    """Formats the main numbers of `stretch` as a table.

    Args:
        report: dict, as `stretch` returns.

    Returns:
        str.

    Raises:
        ValueError: if the metrics are damaged.

    Example:

    >>> _, report = stretch("bert", "train.tsv", length=24, steps=2, verbose=False)
    >>> print(stretch_summary(report))
    tokens                     before     after   teacher with itself
    1–16...
    17–24...
    distant context...
    Mean cosine of features; 2 steps in ... s.
    """
    lines = [f"{'tokens':22}{'before':>11}{'after':>10}{'teacher with itself':>22}"]
    old, new = report["old_length"], report["agreement"][-1]["to"]
    names = {"within": f"1–{old:,}", "beyond": f"{old + 1:,}–{new:,}"}
    for part, name in names.items():
        row = report[part]
        lines.append(f"{name:22}{row['before']:>11.3f}{row['after']:>10.3f}{row['teacher']:>22.3f}")
    context = report["context"]
    lines.append(
        f"{'distant context':22}{context['before']:>11.3f}{context['after']:>10.3f}{1:>22.3f}"
    )
    steps = len(report["losses"])
    lines.append(f"Mean cosine of features; {steps:,} steps in {report['seconds']:,.0f} s.")
    return "\n".join(lines)


def _read_other_files(checkpoint, length, print_line):
    """What lies around the encoder in a directory of sentence-transformers: pooling, prompts."""
    if not isinstance(checkpoint, (str, os.PathLike)):
        return {}
    try:
        return sentence_transformers_files(checkpoint, length)
    except (ValueError, FileNotFoundError) as error:
        print_line(f"The encoder alone is stretched, without what modules.json lists: {error}")
        return {}


def _source(checkpoint, config, tokenizer, model, ignore, scratch):
    """The `Source`, and its name in the record of a run; a model is written into `scratch`."""
    if isinstance(checkpoint, (str, os.PathLike)):
        return Source(checkpoint, config, tokenizer, model, ignore), str(checkpoint)
    transformer = getattr(checkpoint, "transformer", checkpoint)
    if not hasattr(transformer, "layers") or not hasattr(transformer, "config"):
        raise TypeError(
            "stretch needs the path of a checkpoint, or a model of build_transformer_model. "
            f"Received: {checkpoint!r}"
        )
    if tokenizer is None:
        raise ValueError("A model has no tokenizer with it: give `tokenizer`, its directory.")
    folder = pathlib.Path(scratch) / "teacher"
    save_checkpoint(transformer, folder)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    return Source(folder, None, tokenizer, transformer.family, ignore), f"a model, {digest}"
