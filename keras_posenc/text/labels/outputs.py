"""Labels of a model with several outputs."""

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.text.labels.protocol import Labels
from keras_posenc.text.labels.whole import ClassLabels


class OutputLabels(Labels):
    """Labels of each output of a model; what `TextBatches` makes of a dict.

    Targets are a dict, and so are the weights, which all outputs have as soon as one has some.
    `values`: dict, name of the output -> list of labels, or `Labels`.

    Example:

    >>> labels = {"topic": ["sport", "law"], "length": FloatLabels([12, 40])}
    >>> _, targets = TextBatches([[7], [8]], labels, shuffle=False)[0]
    >>> targets["topic"].tolist(), targets["length"].tolist()
    ([1, 0], [[12.0], [40.0]])
    """

    def __init__(self, values):
        super().__init__(values)
        if not values or not all(isinstance(name, str) for name in values):
            raise ValueError(
                "labels of several outputs are a dict, the name of an output -> its labels. "
                f"Received: {quote(values)}"
            )
        self.outputs = {
            name: each if isinstance(each, Labels) else ClassLabels(each)
            for name, each in values.items()
        }
        self.of_tokens = any(each.of_tokens for each in self.outputs.values())
        self.needs_offsets = any(each.needs_offsets for each in self.outputs.values())
        self.classes = {name: each.classes for name, each in self.outputs.items()}

    def check_count(self, count):
        for each in self.outputs.values():
            each.check_count(count)

    def encode(self, texts, rows):
        entries = {name: each.encode(texts, rows) for name, each in self.outputs.items()}
        if lacking := [name for name, encoded in entries.items() if encoded is None]:
            raise ValueError(
                f"The output {quote(lacking[0])} has no labels: give labels to every output, or "
                "leave it out."
            )
        return [dict(zip(entries, row, strict=True)) for row in zip(*entries.values(), strict=True)]

    def pad(self, entries, width):
        padded = {
            name: each.pad([entry[name] for entry in entries], width)
            for name, each in self.outputs.items()
        }
        targets = {name: target for name, (target, _) in padded.items()}
        if all(weights is None for _, weights in padded.values()):
            return targets, None
        ones = np.ones(len(entries), "float32")
        return targets, {
            name: ones if weights is None else weights for name, (_, weights) in padded.items()
        }
