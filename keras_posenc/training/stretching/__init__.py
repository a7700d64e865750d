"""Position distillation: a stretched encoder learns its new positions from the unstretched one."""

from keras_posenc.training.stretching.self_distillation import Stretched, stretch, stretch_summary

__all__ = ["Stretched", "stretch", "stretch_summary"]
