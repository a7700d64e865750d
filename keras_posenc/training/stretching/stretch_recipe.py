"""The settings of a stretching run, and the encoder that they describe."""

import dataclasses

from keras_posenc.arguments import checks
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.folders.written import write_files
from keras_posenc.models.config import RATES
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads_in import heads_in
from keras_posenc.training.recipe import Recipe


class StretchRecipe(Recipe):
    """All settings of a stretching run except its texts: keywords of `stretch`."""

    weight_decay = 0.0
    tables = ("hierarchical", "tile", "interpolate")  # those that add no weights

    @classmethod
    def usual(cls, settings):
        # Larger rates lose the context that log-n gains.
        rate = 4e-5 if settings.get("log_n") is None else 1e-5
        return {"learning_rate": rate, "weight_decay": cls.weight_decay}

    def check(self):
        super().check()
        checks.whole("max_length", self.max_length, least=3)
        checks.whole("train_length", self.train_length, least=3)
        checks.whole("steps", self.steps, least=0)
        if self.local is not None:
            checks.whole("local", self.local)
        if self.log_n is not None:
            checks.whole("log_n", self.log_n, least=2, why="ln 1 is 0")
        if self.global_every is not None:
            checks.whole("global_every", self.global_every)
            if self.local is None:
                raise ValueError(
                    "`global_every` selects the layers that stay global when the others are local: "
                    f"set `local`, too. Received: global_every={self.global_every!r}, local=None"
                )

    def record(self, **texts):
        record = super().record(**texts)
        # The names until version 0.4, which also had a training that kept something else.
        return {"length": record.pop("max_length"), "keep": "features", **record}

    def options(self, config):
        """Returns the keywords of `build_transformer_model` for the stretched encoder."""
        if config.max_position >= self.max_length:
            raise ValueError(
                f"{self.source.checkpoint} serves {config.max_position} positions already: give a "
                f"max_length above that. Received: max_length={self.max_length}"
            )
        if not config.max_position < self.train_length <= self.max_length:
            raise ValueError(
                f"train_length={self.train_length}: give a length above the {config.max_position} "
                f"positions that {self.source.checkpoint} serves, up to max_length="
                f"{self.max_length}."
            )
        arguments = {"extension": self.extension, "max_position": self.longest}
        return arguments | self.encodings(config, self.local)

    def encodings(self, config, local=None):
        """The encodings of an encoder, as a keyword of `build_transformer_model` or none; the
        teacher has no local layers."""
        added = []
        if self.log_n is not None:
            added.append({"name": "log_n", "train_length": self.log_n, "clipped": True})
        if not added and local is None:
            return {}
        count, had = config.num_hidden_layers, config.encodings or []
        if not any(isinstance(spec, list) for spec in had):
            had = [had] * count
        layers = [[*one, *added] for one in had]
        # The first layer of each group is the global one: the last would see far more tokens than
        # it was trained on just before the features are read, which loses more.
        for number, layer in enumerate(layers):
            if local is not None and not (self.global_every and number % self.global_every == 0):
                # `local` tokens to each side: a window of one closes all but the token itself.
                layer.append({"name": "window", "window": local + 1, "global_tokens": 1})
        return {"encodings": layers}


class Pair:
    """A checkpoint's encoder as it is, the teacher, and with the positions that a recipe gives it,
    the student, which takes position ids if it `skips` some."""

    def __init__(self, recipe, source, old, teacher, skips=False):
        weights, options = source.open_weights(), recipe.options(old)
        build = dict(config_path=old, model=source.model, **dict.fromkeys(RATES, 0.0))
        load = dict(checkpoint_path=weights, ignore=source.ignore)
        self.teacher = build_transformer_model(**load, **build, **teacher)
        # The checkpoint's heads come along as they are; what learns is the encoder under them.
        self._whole = build_transformer_model(
            **load,
            return_keras_model=False,
            **heads_in(weights, source.model, old),
            **build,
            **options,
        )
        self.student = build_transformer_model(
            layers=self._whole.layers, custom_position_ids=skips, **build, **options
        )
        self._rates = {name: getattr(old, name) for name in RATES}

    def save(self, folder, positions, tokenizer, other_files):
        """Writes the student's checkpoint, all positions as rows, with the original dropout rates,
        and what belongs to it: its tokenizer and other files, a dict path -> bytes."""
        self._whole.config = dataclasses.replace(self._whole.config, **self._rates)
        save_checkpoint(self._whole, folder, positions=positions)
        tokenizer.save(folder)
        write_files(folder, other_files)
