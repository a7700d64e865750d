"""The settings of a run, checked and stored beside its results."""

import dataclasses

from keras_posenc import checks
from keras_posenc.extension import TABLES, Extension
from keras_posenc.models.arguments import trained_extension
from keras_posenc.models.config import RATES, plain
from keras_posenc.training.optimizer import check_optimizer, optimizer_of
from keras_posenc.training.runs import environment
from keras_posenc.training.schedules import LinearWarmup, cosine_warmup
from keras_posenc.training.source import Source

SCHEDULES = {"cosine": cosine_warmup, "linear": LinearWarmup}
LONGER = ("cut", "skip")
# Arguments of every run that are no settings: its texts, of which it stores a digest, and where and
# how it runs.
TEXTS = ("train", "corpus", "texts", "validation", "test", "text", "label")
RUN = ("output", "overwrite", "cache", "devices", "verbose")


class Recipe:
    """The settings of a run: the arguments of the function that starts it, as attributes.

    A setting is written in the signature and in the docstring of that function, and in no other
    list. A subclass has the attributes below that its function does not let users choose, and
    checks its settings in `check`.

    Args:
        **settings: values that JSON can hold.

    Attributes:
        schedule, warmup, weight_decay, clip, optimizer, use_ema: see `finetune`.
        longest: int, the number of positions that are needed.

    Raises:
        ValueError: if a setting is invalid.
    """

    schedule = "cosine"
    optimizer, use_ema = None, False
    tables = TABLES  # the extensions that a run can train

    def __init__(self, **settings):
        vars(self).update(settings)
        self.extension = Extension.of(self.extension)
        self.check()

    @classmethod
    def of(cls, arguments, **changes):
        """Makes a recipe of the arguments of a function.

        Args:
            arguments: dict, `locals()` in the first line of the function.
            **changes: settings to take in place of arguments, or beside them.

        Returns:
            A recipe.
        """
        names = [name for name in arguments if name not in (*TEXTS, *RUN)]
        settings = {name: arguments[name] for name in names} | changes
        settings = {name: plain(value) for name, value in settings.items()}
        for name in ("checkpoint", "config", "tokenizer"):
            if settings.get(name) is not None:
                settings[name] = str(settings[name])
        return cls(**settings)

    def replace(self, **changes):
        """Returns the recipe with other values of some settings."""
        return type(self)(**{**vars(self), **changes})

    def check(self):
        """Raises ValueError for a setting that is invalid."""
        if self.extension is not None:
            table = self.extension.table if self.extension.rope_scaling is None else None
            checks.choice("extension", table or str(self.extension), self.tables)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("warmup", self.warmup, least=0, below=1)
        checks.number("weight_decay", self.weight_decay, least=0)
        checks.choice("schedule", self.schedule, SCHEDULES)
        check_optimizer(self.optimizer)
        if self.clip is not None:
            checks.number("clip", self.clip, above=0)

    def record(self, **texts):
        """Returns what decides whether another call is the same run: all settings, the environment,
        and digests of the texts."""
        extension = self.extension and self.extension.get_config()
        return {**vars(self), "extension": extension, **environment(), **texts}

    @property
    def source(self):
        """The `Source`."""
        return Source(self.checkpoint, self.config, self.tokenizer, self.model, self.ignore)

    def options(self, config, trained=None):
        """Returns the keywords of `build_transformer_model`: dropout, and the stretching if needed.

        Args:
            config: `Config` of the checkpoint.
            trained: dict. The stretching that its weights were trained with, as in `Checkpoint`.
        """
        options = {name: getattr(self, name) for name in RATES if getattr(self, name) is not None}
        if config.beyond_table(self.longest) is None:
            return options
        if trained:
            return options | self._continued(trained)
        if self.extension is None:
            raise ValueError(
                f"{self.checkpoint} has {config.max_position} positions, and length={self.longest} "
                f"needs more: give an extension, one of {', '.join(TABLES)}, or a smaller length."
            )
        return options | {"extension": self.extension, "max_position": self.longest}

    def _continued(self, trained):
        """The keywords by which positions keep the meaning that they were trained with."""
        needed, max_position = trained_extension(trained)
        given = dataclasses.replace(self.extension, kept_rows=None) if self.extension else None
        first = dataclasses.replace(needed, kept_rows=None)
        if given is None or given.get_config() != first.get_config():
            raise ValueError(
                f"`extension` must be that which {self.checkpoint} was trained with: give "
                f"extension={str(first)!r}. Received: extension={str(given)!r}"
            )
        return {"extension": needed, "max_position": max(self.longest, max_position or 0)}

    def compile(self, model, steps, loss, **options):
        """Compiles a model for a number of training steps, and builds its optimizer.

        Args:
            model: a built `keras.Model`.
            steps: int.
            loss: as in `model.compile`.
            **options: further arguments of `model.compile`.
        """
        schedule = SCHEDULES[self.schedule]
        rate = schedule(self.learning_rate, steps, int(self.warmup * steps))
        decay, use_ema = self.weight_decay, self.use_ema
        optimizer = optimizer_of(self.optimizer, model, rate, decay, self.clip, use_ema)
        model.compile(optimizer, loss, **options)
        model.optimizer.build(model.trainable_variables)
