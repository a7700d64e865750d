"""The settings of a benchmark, and the notation for tasks, encodings and positions."""

import ast
import dataclasses
import inspect
import re

from keras_posenc import tasks
from keras_posenc.arguments import checks
from keras_posenc.encodings import ENCODINGS
from keras_posenc.positions.random import METHODS

ABSOLUTE = ("sinusoidal", "learned")
# They read tokens in their order, without encodings.
ORDERED = ("rnn", "lstm", "stack_rnn", "tape_rnn", "cnn")
MODELS = ("transformer", "gau", *ORDERED)
TEST_SAMPLE = (41, 50, 100, 200, 300, 500)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings shared by all runs of a benchmark; every field is a keyword of `bench`.

    Attributes:
        steps: int. Training steps of a run.
        layers: int. Layers of a transformer or CNN; recurrent models have one.
        size: int. Features per token of a transformer; the other models have 4 x `size` units.
        heads: int. Heads of a transformer.
        dropout: float. Dropout rate of a transformer.
        batch_size: int. Rows of a training batch.
        learning_rate: float. Peak learning rate, which decays to 0 along a cosine.
        train_lengths: list of int. Training lengths, one of which is sampled uniformly at each
            step. Default: 1 to 40 for the tasks of the Chomsky hierarchy, 64 for the others.
        test_lengths: list of int. Default: six lengths from 41 to 500 for the tasks of the Chomsky
            hierarchy, and the powers of two from 64 to 512 for the others.
        test_samples: int. Minimum number of samples per test length.
        test_scored: int. Minimum number of scored positions per test length. Samples are drawn
            until there are enough.
        patience: int. Steps after which a run ends early, if its loss on fresh samples of the
            training lengths has not fallen by more than 1% and 0.001. By default it never does.
        max_position: int. Bound L of random ids, and rows of a learned table.
        corpus: str. Path of a text file, or of a directory with train.txt and test.txt. The
            language tasks read it.

    Raises:
        ValueError: if a size is not a positive integer, or `size` is not a multiple of twice
            `heads`.

    Example:

    >>> Settings(steps=1000, layers=2).size
    64
    """

    steps: int
    layers: int = 3
    size: int = 64
    heads: int = 8
    dropout: float = 0.1
    batch_size: int = 64
    learning_rate: float = 1e-3
    train_lengths: tuple | None = None
    test_lengths: tuple | None = None
    test_samples: int = 64
    test_scored: int = 2000
    patience: int | None = None
    max_position: int = 2048
    corpus: str | None = None

    def __post_init__(self):
        counts = ("steps", "layers", "size", "heads", "batch_size", "test_samples", "test_scored")
        for name in (*counts, *["patience"] * (self.patience is not None)):
            checks.whole(name, getattr(self, name))
        if self.size % (2 * self.heads):
            raise ValueError(
                f"size={self.size} and heads={self.heads}: heads of an even size are needed; give "
                "a size that is a multiple of twice the heads."
            )


def task_of(text, corpus=None, split=None):
    """Makes a task from its notation, "counting:variables=1"; `split` where it has splits."""
    name, arguments = task_parts(text)
    if split is not None:
        arguments["split"] = split
    if name in ("language_model", "masked_language_model"):
        if corpus is None:
            raise ValueError(f"{name} needs a text file: give corpus (--corpus FILE).")
        arguments["corpus"] = corpus
    return tasks.get(name, **arguments)


def task_parts(text):
    """Parses the notation of a task, "odds_first:variant=paper", into (name, arguments)."""
    name, arguments = one_part(text, tasks.TASKS, "task")
    known = inspect.signature(tasks.TASKS[name]).parameters
    for key in arguments:
        if key not in known:
            raise ValueError(f"{text}: {name} has no {key!r}; there are {', '.join(known)}.")
    return name, arguments


def splits_of(text, corpus=None):
    """The test splits of a task: dict split -> task; only "test" for texts and for tasks without
    splits."""
    task = task_of(text, corpus)
    splits = getattr(task, "splits", None)
    if splits is None:
        return {"test": task}
    if isinstance(splits, dict):
        return {split: task_of(text, corpus, split) for split in splits}
    return {"test": task_of(text, corpus, "test")}


def lengths_of(task, settings):
    """(lengths to train on, lengths to test on)."""
    train = tasks.TRAIN_LENGTHS if task.level else (64,)
    test = TEST_SAMPLE if task.level else (64, 128, 256, 512)
    return settings.train_lengths or tuple(train), settings.test_lengths or test


def parts(text, kinds, what):
    """Parses a list in the benchmark's notation: names joined by +, arguments after a colon.

    Args:
        text: str, such as "rotary:base=500+log_n". The empty list is "none".
        kinds: list of str. The known names.
        what: str. What the names stand for, as error messages call it.

    Returns:
        list of (name, arguments).

    Raises:
        ValueError: on an unknown name, or an argument without a value.

    Example:

    >>> parts("rotary:base=500+log_n", ENCODINGS, "encoding")
    [('rotary', {'base': 500}), ('log_n', {})]
    """
    named = []
    for part in [] if text == "none" else text.split("+"):
        name, _, rest = part.partition(":")
        if name not in kinds:
            raise ValueError(f"Unknown {what} {name!r}: there are {', '.join(sorted(kinds))}.")
        arguments = {}
        for pair in rest.split(",") if rest else ():
            key, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"{part!r}: write an argument as name=value.")
            arguments[key] = _literal(value)
        named.append((name, arguments))
    return named


def one_part(text, kinds, what):
    """Parses a list that must have exactly one part."""
    named = parts(text, kinds, what)
    if len(named) != 1:
        raise ValueError(f"{text!r} is {len(named)} parts: give one {what}.")
    return named[0]


def file_name(text):
    """Replaces the characters that a file name may not have on every system."""
    return re.sub(r"[^A-Za-z0-9_.+=-]", "-", text)


def _literal(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def encodings_of(text, causal, train_length):
    """Parses the notation of encodings into (absolute parts, specs for attention).

    Arguments that depend on the task are filled in unless given: the training length of log-n, and
    the bidirectional form of encodings for attention that is not causal.
    """
    named = parts(text, {*ENCODINGS, *ABSOLUTE, "none"}, "encoding")
    absolute = [part for part in named if part[0] in ABSOLUTE]
    specs = []
    for name, arguments in named:
        if name in ENCODINGS:
            known = inspect.signature(ENCODINGS[name]).parameters
            filled = {"train_length": train_length, "bidirectional": not causal}
            if not causal:
                filled["direction"] = "symmetric"
            filled = {key: value for key, value in filled.items() if key in known}
            specs.append({"name": name, **filled, **arguments})
    return absolute, specs


def positions_of(text, max_position, train_length):
    """Parses the notation of position ids into arguments of `RandomPositionIds`, or None.

    Sorted ids are sampled at inference too, as in the paper, unless an argument changes it.
    """
    if text == "consecutive":
        return None
    method, arguments = one_part(text, METHODS, "kind of positions")
    filled = {"max_position": max_position}
    if method == "sorted":
        filled["inference"] = "sampled"
    if method == "beta":
        filled["train_length"] = train_length
    return {"method": method, **filled, **arguments}
