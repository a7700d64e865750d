"""The settings of a fine-tuning run, validated and stored beside its results."""

import dataclasses
import json
import math
import os
import pathlib

import keras

from keras_posenc.positions import stretched
from keras_posenc.untrusted import check_inside, quote, read_json, shorten

STRETCHES = tuple(name for name in stretched.STRETCHES if name)
SCHEDULES = ("cosine", "linear")
LONGER = ("cut", "skip")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All settings of a fine-tuning run except its documents; see `finetune` for the fields."""

    checkpoint: str
    config: str | None
    tokenizer: str | None
    model: str
    lengths: tuple
    longer: str
    stretch: str
    alpha: float
    pooling: str
    learning_rate: float
    schedule: str
    warmup: float
    weight_decay: float
    clip: float | None
    token_budget: int
    dropout_rate: float | None
    attention_dropout_rate: float | None
    head_dropout: float
    seed: int
    task: str = "classify"
    stride: int | None = None

    def __post_init__(self):
        one_of("stretch", self.stretch, STRETCHES)
        one_of("schedule", self.schedule, SCHEDULES)
        if self.stride is not None:
            whole("stride", self.stride, least=0)
        one_of("longer", self.longer, LONGER)
        in_range("learning_rate", self.learning_rate, above=0)
        in_range("warmup", self.warmup, least=0, below=1)
        in_range("weight_decay", self.weight_decay, least=0)
        in_range("head_dropout", self.head_dropout, least=0, below=1)
        whole("token_budget", self.token_budget, above=0)
        if self.clip is not None:
            in_range("clip", self.clip, above=0)
        for length, epochs in self.lengths:
            in_range("max_length", length, above=2)
            in_range("epochs", epochs, above=0)

    @property
    def epoch_lengths(self):
        """The document length of each epoch: [(512, 2), (1536, 1)] -> [512, 512, 1536]."""
        return [length for length, epochs in self.lengths for _ in range(epochs)]

    def stride_of(self, length):
        """How many tokens neighbouring windows of `length` share."""
        return length // 4 if self.stride is None else self.stride

    @property
    def longest(self):
        return max(length for length, _ in self.lengths)

    @property
    def final_length(self):
        """Where documents are truncated in the last stage, and at inference."""
        return self.lengths[-1][0]


def stages(max_length, epochs, lengths):
    """Returns the stages as ((max_length, epochs), ...), from either way to specify them.

    Raises:
        ValueError: if both ways are used, or a stage is not a pair of ints.
    """
    if lengths is None:
        lengths = [(512 if max_length is None else max_length, 3 if epochs is None else epochs)]
    elif max_length is not None or epochs is not None:
        raise ValueError(
            "lengths gives the lengths and the epochs of all stages: give it, or max_length and "
            "epochs, not both."
        )
    try:
        pairs = tuple((length, count) for length, count in lengths)
    except (TypeError, ValueError):
        pairs = ()
    if not pairs or not all(type(number) is int for pair in pairs for number in pair):
        raise ValueError(
            "The stages of a training are pairs of whole numbers (max_length, epochs), such as "
            f"[(512, 3), (1536, 1)]. Received: {lengths!r}"
        )
    return pairs


def one_of(name, value, values):
    """Returns a setting, or raises ValueError if it is not one of the values."""
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(values)}. Received: {value!r}")
    return value


def in_range(name, value, *, least=None, above=None, below=None):
    """Raises ValueError for a setting that is not a number, or out of bounds."""
    bounds = [
        (least, "at least", lambda: value >= least),
        (above, "more than", lambda: value > above),
        (below, "less than", lambda: value < below),
    ]
    wanted = [(f"{words} {bound}", holds) for bound, words, holds in bounds if bound is not None]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not math.isfinite(value):
        raise ValueError(f"{name} must be finite. Received: {value!r}")
    if not number or not all(holds() for _, holds in wanted):
        words = " and ".join(words for words, _ in wanted)
        raise ValueError(f"{name} must be {words}. Received: {value!r}")


def whole(name, value, **bounds):
    """Raises ValueError for a setting that is not a whole number, or out of bounds."""
    in_range(name, value, **bounds)
    if not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number. Received: {value!r}")


def environment():
    """What a run depends on beside its settings, for `open_output`."""
    return {"backend": keras.backend.backend(), "dtype_policy": keras.config.dtype_policy().name}


def open_output(output, settings, overwrite):
    """Creates the output directory, or finds a run with the same settings in it to continue.

    Args:
        output: str or path.
        settings: dict that JSON can hold: the recipe and fingerprints of the documents.
        overwrite: bool. Ignore a run that is already there.

    Returns:
        The directory as a `pathlib.Path`.

    Raises:
        ValueError: if the directory holds a run with other settings, and `overwrite` is False.
        NotADirectoryError: if `output` is a file.
    """
    output = pathlib.Path(output)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output={os.fspath(output)!r} is a file; give a directory.")
    output.mkdir(parents=True, exist_ok=True)
    path = output / "recipe.json"
    if not path.exists() and (output / "model.keras").exists() and not overwrite:
        raise ValueError(
            f"{output} holds a model.keras without the recipe.json of its run: give another "
            "output, or overwrite=True (--overwrite) to replace it."
        )
    if path.exists() and not overwrite:
        check_inside(path, output)
        _refuse_other(output, read_json(path), settings)
    return output


def _refuse_other(output, before, settings):
    settings = json.loads(json.dumps(settings))
    # Runs from before there were tasks say nothing of them, nor do runs without a task, nor those
    # from before rows were packed, or a policy was kept.
    since = {"task": "classify", "stride": None, "longer": "cut", "pack": False}
    since["dtype_policy"] = settings.get("dtype_policy")
    before = {key: value for key, value in since.items() if key in settings} | before
    other = [
        f"{shorten(key)} was {quote(before.get(key))} and is now {quote(settings.get(key))}"
        for key in {**before, **settings}
        if before.get(key) != settings.get(key)
    ]
    if other:
        raise ValueError(
            f"{output} holds a run with other settings: {'; '.join(other)}. Give those settings, "
            "another output, or overwrite=True (--overwrite) to replace that run."
        )
