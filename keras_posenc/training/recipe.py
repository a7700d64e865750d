"""The settings of a run, checked and stored beside its results."""

import dataclasses

import keras

from keras_posenc.arguments import checks
from keras_posenc.models.arguments import trained_extension
from keras_posenc.models.config import RATES, plain
from keras_posenc.models.extension import TABLES, Extension
from keras_posenc.training.callbacks import callback_record
from keras_posenc.training.optimizer_settings import Optimizer, make_optimizer
from keras_posenc.training.runs import environment
from keras_posenc.training.source import Source

LONGER = ("cut", "ends", "skip")
# Arguments of every run that are no settings: its texts, of which it stores a digest, and where and
# how it runs.
TEXTS = ("train", "corpus", "texts", "validation", "test", "text", "label")
RUN = ("output", "overwrite", "cache", "devices", "verbose")


class Recipe:
    """The settings of a run: the arguments of the function that starts it, as attributes.

    A setting is written in the signature and in the docstring of that function, and in no other
    list. A subclass has the attributes below that its function does not let users choose, and
    checks its settings in `check`.

    Attributes:
        source: `Source`, the checkpoint.
        extension: `Extension` or None.
        optimizer: `Optimizer`, or a `keras.optimizers.Optimizer`.
        learning_rate, weight_decay: float, of an `Optimizer` that has none.
    """

    learning_rate, weight_decay = None, 0.01
    tables = TABLES  # the extensions that a run can train

    def __init__(self, **settings):
        vars(self).update(settings)
        self.source = Source.of(vars(self).pop("checkpoint"))
        self.extension = Extension.of(self.extension)
        self.optimizer = Optimizer.of(self.optimizer)
        if isinstance(self.optimizer, Optimizer):
            self.optimizer = self.optimizer.filled(**self.usual(vars(self)))
        self.check()

    @classmethod
    def of(cls, arguments, **changes):
        """Makes a recipe of `locals()` in the first line of a function, and of changes to them."""
        names = [name for name in arguments if name not in (*TEXTS, *RUN)]
        settings = {name: arguments[name] for name in names} | changes
        return cls(**{name: plain(value) for name, value in settings.items()})

    @property
    def longest(self):
        """The number of positions that are needed."""
        return self.max_length

    @classmethod
    def usual(cls, settings):
        """Returns the defaults of an `Optimizer` for these settings of the run, a dict."""
        return {"learning_rate": cls.learning_rate, "weight_decay": cls.weight_decay}

    def replace(self, **changes):
        """Returns the recipe with other values of some settings."""
        settings = dict(vars(self))
        return type(self)(**{"checkpoint": settings.pop("source"), **settings, **changes})

    def check(self):
        """Raises ValueError for a setting that is invalid."""
        checks.seed(self.seed)
        if self.extension is not None:
            table = self.extension.table if self.extension.rope_scaling is None else None
            checks.choice("extension", table or str(self.extension), self.tables)

    def record(self, **texts):
        """Returns what decides whether another call is the same run: all settings, the environment,
        and digests of the texts."""
        settings = {name: value for name, value in vars(self).items() if name != "source"}
        extension = self.extension and self.extension.get_config()
        optimizer = self.optimizer
        if isinstance(optimizer, Optimizer):
            optimizer = optimizer.record()
        else:
            usual = Optimizer().filled(**self.usual(vars(self))).record()
            optimizer = {**usual, "optimizer": optimizer}
        settings |= {"extension": extension, **self.source.record(), **optimizer}
        # Another model may be written to the path between two calls.
        settings["weights"] = self.source.fingerprint()
        return described({**settings, **environment(), **texts})

    def options(self, config, trained=None):
        """Returns the keywords of `build_transformer_model`: dropout, and the stretching if needed.

        `trained` is the stretching that the weights were trained with, as in `Checkpoint`.
        """
        options = {name: getattr(self, name) for name in RATES if getattr(self, name) is not None}
        if config.beyond_table(self.longest) is None:
            return options
        if trained:
            return options | self._continued(trained)
        if self.extension is None:
            raise ValueError(
                f"{self.source.checkpoint} has {config.max_position} positions, and max_length="
                f"{self.longest} needs more: give an extension, one of {', '.join(TABLES)}, or a "
                "smaller max_length."
            )
        return options | {"extension": self.extension, "max_position": self.longest}

    def _continued(self, trained):
        """The keywords by which positions keep the meaning that they were trained with."""
        needed, max_position = trained_extension(trained)
        given = dataclasses.replace(self.extension, kept_rows=None) if self.extension else None
        first = dataclasses.replace(needed, kept_rows=None)
        if given is None or given.get_config() != first.get_config():
            raise ValueError(
                f"`extension` must be that which {self.source.checkpoint} was trained with: give "
                f"extension={str(first)!r}. Received: extension={str(given)!r}"
            )
        return {"extension": needed, "max_position": max(self.longest, max_position or 0)}

    def compile(self, model, steps, loss, **options):
        """Compiles a model for a number of training steps, and builds its optimizer."""
        optimizer = make_optimizer(self.optimizer, model, steps)
        model.compile(optimizer, loss, **options)
        model.optimizer.build(model.trainable_variables)


def described(setting):
    """A setting as JSON can hold it: objects of Keras by their config, functions by their name."""
    if isinstance(setting, keras.callbacks.Callback):
        return callback_record(setting)
    if isinstance(setting, (keras.metrics.Metric, keras.optimizers.Optimizer)):
        # A name that Keras made up counts the optimizers of the process.
        config = setting.get_config()
        if isinstance(setting, keras.optimizers.Optimizer):
            config.pop("name")
        return {"class": type(setting).__name__, **described(config)}
    if isinstance(setting, dict):
        return {str(key): described(value) for key, value in setting.items()}
    if isinstance(setting, (list, tuple)):
        return [described(each) for each in setting]
    if hasattr(setting, "item"):
        return setting.item()
    return setting.__qualname__ if callable(setting) else setting
