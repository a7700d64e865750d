"""Contextual training: passages learn, without labels, what their document states far away."""

from keras_posenc.training.contextual.contextualize import Contextualized, contextualize
from keras_posenc.training.contextual.pronouns import LANGUAGES, Language, Pronoun

__all__ = ["LANGUAGES", "Contextualized", "Language", "Pronoun", "contextualize"]
