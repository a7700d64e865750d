"""The settings of a fine-tuning run."""

import difflib

import keras

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.training.callbacks import check_kind
from keras_posenc.training.finetuning.tasks import task_of
from keras_posenc.training.recipe import LONGER, Recipe, described
from keras_posenc.training.trainable import check_freeze

FEW = 200  # texts, from which a linear head on fixed vectors is often as good or better
FEW_EPOCHS = 10


class FinetuneRecipe(Recipe):
    """All settings of a fine-tuning run except its documents: keywords of `finetune`.

    `task` is a `FinetuneTask`, `lengths` has pairs (max_length, epochs), and `stretch_first` is a
    digest or path of its texts.
    """

    learning_rate = 1e-4

    def __init__(self, max_length=None, epochs=None, **settings):
        super().__init__(**settings | {"task": task_of(settings["task"])})

    def check(self):
        super().check()
        checks.choice("longer", self.longer, LONGER)
        checks.whole("token_budget", self.token_budget)
        for length, epochs in self.lengths:
            checks.whole("max_length", length, least=3)
            checks.whole("epochs", epochs)
        if self.lora_rank is not None:
            checks.whole("lora_rank", self.lora_rank)
        if self.freeze is not None:
            check_freeze(self.freeze)
        if self.metrics is not None:
            check_metrics(self.metrics, self.task)
        if self.callbacks is not None:
            check_kind(self.callbacks)

    def is_for_few(self, count):
        """Whether `count` texts are few for what is trained: all weights, for labels or numbers."""
        trains_all = self.freeze is None and self.lora_rank is None
        return trains_all and count <= FEW and self.task.problem_type is not None

    def record(self, **texts):
        return super().record(**texts) | described(self.task.record())

    @property
    def epoch_lengths(self):
        """The document length of each epoch: the length of each stage, repeated by its epochs."""
        return [length for length, epochs in self.lengths for _ in range(epochs)]

    @property
    def longest(self):
        """The number of positions that are needed."""
        return max(length for length, _ in self.lengths)

    @property
    def final_length(self):
        """Where documents are truncated in the last stage, and at inference."""
        return self.lengths[-1][0]


def stages(max_length, epochs, lengths):
    """Returns the stages as ((max_length, epochs), ...), from either way to specify them."""
    if lengths is None:
        lengths = [(512 if max_length is None else max_length, 3 if epochs is None else epochs)]
    elif max_length is not None or epochs is not None:
        raise ValueError(
            "`lengths` gives the lengths and the epochs of all stages: give it, or `max_length` "
            "and `epochs`, not both."
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


def check_metrics(metrics, task):
    """Refuses what are no metrics, and names that the task has already."""
    kinds = (str, keras.metrics.Metric)
    if not isinstance(metrics, (list, tuple)) or not all(
        isinstance(each, kinds) or callable(each) for each in metrics
    ):
        raise TypeError(
            "`metrics` must be a list of metrics of Keras, or of their names. Received: "
            f"{quote(metrics)}"
        )
    taken = {"loss", *task.watched, *task.scores}
    for each in metrics:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        plain = name.lower() if isinstance(each, str) else name
        if plain in taken:
            raise ValueError(
                f"`metrics` has {name!r}, which task={task.name!r} measures already: leave it out, "
                "or give it another name."
            )
        if isinstance(each, str):
            _check_known(each, task)


def _check_known(name, task):
    """Refuses the name of a metric that Keras does not have, with those that are measured."""
    try:
        keras.metrics.get(name)
    except ValueError:
        near = difflib.get_close_matches(name, dir(keras.metrics), 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"`metrics` has {quote(name)}, which is no metric of Keras.{hint} {_measured(task)}"
        ) from None


def metrics_error(recipe, labels, outputs, error):
    """The error about metrics that do not fit, such as binary ones for classes."""
    names = [each if isinstance(each, str) else repr(each) for each in recipe.metrics]
    return ValueError(
        f"`metrics` must take labels of the shape {(None, *labels)} and outputs of the shape "
        f"{(None, *outputs)}. Received: {quote(names)}, of which one raised "
        f"{type(error).__name__} ({shorten(error, 80)}). {_measured(recipe.task)}"
    )


def _measured(task):
    """What a task measures without `metrics`, as words of an error."""
    *others, last = task.scores
    names = f"{', '.join(others)} and {last}" if others else last
    return f"task={task.name!r} measures {names} without `metrics`: leave it out if these will do."
