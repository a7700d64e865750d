"""Labels of a language model: at each token the next one."""

import numpy as np

from keras_posenc.text.labels.protocol import Labels


class NextTokenLabels(Labels):
    """The next token at each position, as language models and UniLM predict it.

    Targets are (B, T) int32. The weights (B, T) float32 are 0 where no token follows, or one of the
    next document of a row that holds several. A text is one row, truncated or in windows as in
    `TextBatches`; `CausalBatches` cuts long texts into rows of full length instead.

    Args:
        segment: int or None. Only tokens of this segment are to be predicted. In UniLM's "text,
            then its title", segment 1 is the title.

    Example:

    >>> pair = ([101, 7, 102, 8, 9, 102], [0, 0, 0, 1, 1, 1])
    >>> _, targets, weights = TextBatches([pair], NextTokenLabels(segment=1), pad_to=1)[0]
    >>> targets[weights > 0].tolist()
    [8, 9, 102]
    """

    of_tokens = True

    def __init__(self, segment=None):
        super().__init__()
        self.segment = segment

    def encode(self, texts, rows):
        return [self._entry(row) for row in rows]

    def _entry(self, row):
        following = np.asarray(row.segment_ids[1:])
        counts = np.ones(len(following)) if self.segment is None else following == self.segment
        if row.position_ids is not None:
            counts = counts * (np.asarray(row.position_ids[1:]) != 0)
        return np.asarray(row.token_ids[1:], "int32"), counts.astype("float32")

    def pad(self, entries, width):
        return pad_places(entries, width)


def pad_places(entries, width):
    """Pads `(targets, weights)` of rows, (n,) each, with 0 to (B, `width`) int32 and float32."""
    targets = np.zeros((len(entries), width), "int32")
    weights = np.zeros((len(entries), width), "float32")
    for row, (target, weight) in enumerate(entries):
        targets[row, : len(target)] = target
        weights[row, : len(weight)] = weight
    return targets, weights
