"""Position distillation: a stretched encoder learns its new positions from the unstretched one."""

from keras_posenc.training.stretching.stretch import Stretched, stretch
from keras_posenc.training.stretching.stretch_report import stretch_summary

__all__ = ["Stretched", "stretch", "stretch_summary"]
