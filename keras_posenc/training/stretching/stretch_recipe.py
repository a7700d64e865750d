"""The settings of a stretching run, and the encoder that they describe."""

from keras_posenc import checks
from keras_posenc.training.recipe import Recipe

# Of the stretches, those that add no weights.
WEIGHTLESS = ("hierarchical", "tile", "interpolate")
KEEP = ("context", "features")


class StretchRecipe(Recipe):
    """All settings of a stretching run except its texts: keywords of `stretch`."""

    warmup = 0.1
    weight_decay = 0.0
    clip = 1.0

    def check(self):
        super().check()
        checks.choice("stretch", self.stretch, WEIGHTLESS)
        checks.choice("keep", self.keep, KEEP)
        checks.whole("length", self.length, least=3)
        checks.whole("train_length", self.train_length, least=3)
        checks.whole("steps", self.steps, least=0)
        if self.local is not None:
            checks.whole("local", self.local)
        if self.global_every is not None:
            checks.whole("global_every", self.global_every)
            if self.local is None:
                raise ValueError(
                    "`global_every` selects the layers that stay global when the others are local: "
                    f"set `local`, too. Received: global_every={self.global_every!r}, local=None"
                )

    @property
    def longest(self):
        """The number of positions that are needed."""
        return self.length

    def options(self, config):
        """Returns the keywords of `build_transformer_model` for the stretched encoder.

        Args:
            config: `Config` of the unstretched one.
        """
        if config.max_position >= self.length:
            raise ValueError(
                f"{self.checkpoint} serves {config.max_position} positions already: give a length "
                f"above that. Received: length={self.length}"
            )
        if not config.max_position < self.train_length <= self.length:
            raise ValueError(
                f"train_length={self.train_length}: give a length above the {config.max_position} "
                f"positions that {self.checkpoint} serves, up to length={self.length}."
            )
        arguments = self.extension()
        if self.stretch != "interpolate":
            arguments["kept_rows"] = self.kept_rows
        if self.local is not None:
            arguments["encodings"] = self._pattern(config)
        return arguments

    def _pattern(self, config):
        """What each layer has already, and a window in those that are to be local."""
        count, had = config.num_hidden_layers, config.encodings or []
        if not any(isinstance(spec, list) for spec in had):
            had = [had] * count
        # `local` tokens to each side: a window of one closes all but the token itself.
        window = [{"name": "window", "window": self.local + 1, "global_tokens": 1}]
        # The first layer of each group is the global one: the last would see far more tokens than
        # it was trained on just before the features are read, which loses more.
        every = self.global_every
        added = [[] if every and i % every == 0 else window for i in range(count)]
        return [[*one, *other] for one, other in zip(had, added, strict=True)]
