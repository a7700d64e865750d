"""Presets of KerasHub: directories that `keras_hub.models.Backbone.from_preset` reads."""

from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES, Backbone
from keras_posenc.checkpoints.keras_hub.reading import read_preset, read_preset_config

__all__ = ["BACKBONES", "Backbone", "read_preset", "read_preset_config"]
