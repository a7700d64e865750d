"""Presets of KerasHub: directories that `keras_hub.models.Backbone.from_preset` reads."""

from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES, Backbone
from keras_posenc.checkpoints.keras_hub.reading import (
    find_weights,
    is_preset,
    read_preset,
    read_preset_config,
)
from keras_posenc.checkpoints.keras_hub.tokenizer import find_vocabulary, preset_settings

__all__ = [
    "BACKBONES",
    "Backbone",
    "find_vocabulary",
    "find_weights",
    "is_preset",
    "preset_settings",
    "read_preset",
    "read_preset_config",
]
