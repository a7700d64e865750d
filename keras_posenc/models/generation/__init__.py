"""Generation: the next token of each kind of model, the search for a text, prompts, `Generator`."""

from keras_posenc.models.generation.generator import Generator

__all__ = ["Generator"]
