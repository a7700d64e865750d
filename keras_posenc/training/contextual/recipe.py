"""The settings of a contextual training, and the encoder that they describe."""

from keras_posenc.arguments import checks
from keras_posenc.training.contextual.pronouns import LANGUAGES
from keras_posenc.training.recipe import Recipe
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

LEAST = 128  # tokens of a copy: two introductions and a passage


class ContextualRecipe(StretchRecipe):
    """All settings of a contextual training except its texts: keywords of `contextualize`."""

    local, global_every = None, None

    def check(self):
        Recipe.check(self)
        checks.whole("train_length", self.train_length, least=LEAST)
        checks.whole("max_length", self.max_length, least=self.train_length)
        checks.whole("steps", self.steps, least=0)
        if self.log_n is not None:
            checks.whole("log_n", self.log_n, least=2, why="ln 1 is 0")
        if self.names is not None:
            checks.number("names", self.names, least=0, most=1)
        checks.number("opening", self.opening, least=0, most=1)
        checks.choice("language", self.language, ("auto", None, *LANGUAGES))

    def record(self, **texts):
        return Recipe.record(self, **texts)

    @classmethod
    def usual(cls, settings):
        return {"learning_rate": 5e-5, "weight_decay": cls.weight_decay}

    def options(self, config):
        arguments = {}
        if config.beyond_table(self.max_length) is not None:
            arguments = {"extension": self.extension, "max_position": self.longest}
        return arguments | self.encodings(config)
