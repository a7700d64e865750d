"""What texts may be labelled with, a class for each kind: see `Labels`."""

from keras_posenc.text.labels.answer_span import SpanLabels
from keras_posenc.text.labels.protocol import Labels
from keras_posenc.text.labels.tags import NextTokenLabels, TagLabels, tag_names
from keras_posenc.text.labels.whole import ClassLabels, FloatLabels, MultiLabels, TextNumbers

__all__ = [
    "ClassLabels", "FloatLabels", "Labels", "MultiLabels", "NextTokenLabels", "SpanLabels",
    "TagLabels", "TextNumbers", "tag_names",
]  # fmt: skip
