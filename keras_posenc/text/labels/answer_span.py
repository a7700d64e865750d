"""The answer to a question: a span of a passage."""

import numpy as np

from keras_posenc.text.labels.protocol import Labels
from keras_posenc.untrusted import quote


class SpanLabels(Labels):
    """A span of each text, or none, for `span_head` and `SpanCrossentropy`.

    Targets are the first and the last token of the span, (B, 2) int32; (0, 0), [CLS], in a window
    that does not hold all of it, and where a text has none. Weights (B,) float32 are 0 where
    truncation, not a window, has cut off the answer.

    Args:
        values: list of `(start, end)` in characters, or None for no answer; of the second text if
            the texts are pairs (question, passage). None in place of the list: not known.

    Raises:
        TypeError: if an entry is neither.
        ValueError: if a span is not within its passage, or no token stands in it.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "wrote", "?", "ada", "did"]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> pair = ("Who wrote?", "Ada did")
    >>> _, spans, weights = TextBatches([pair], SpanLabels([(0, 3)]), tokenizer, pad_to=1)[0]
    >>> spans.tolist(), weights.tolist()
    ([[5, 5]], [1.0])
    """

    of_tokens = needs_offsets = True

    def encode(self, texts, rows):
        if self.values is None:
            return None
        for number, (text, span) in enumerate(zip(texts, self.values, strict=True)):
            check_span(number, passage_of(text), span)
        side = int(is_pair(texts[0]))
        places = [span_place(row, self.values[row.text], side) for row in rows]
        answered = {row.text for row, place in zip(rows, places, strict=True) if place}
        return [
            (place or (0, 0), self.values[row.text] is None or row.text in answered)
            for row, place in zip(rows, places, strict=True)
        ]

    def pad(self, entries, width):
        targets, weights = zip(*entries, strict=True)
        return np.array(targets, "int32"), np.array(weights, "float32")


def is_pair(text):
    """Whether a text is a pair of str."""
    return isinstance(text, tuple) and isinstance(text[0], str)


def passage_of(text):
    """The text in which the answers are: the second of a pair, or the only one."""
    return text[1] if is_pair(text) else text


def span_place(row, span, side):
    """The first and the last token of a span in a row, or None where it is not all there.

    Args:
        row: `Row` with offsets.
        span: (start, end) in characters, or None.
        side: 1 if it is of the second text of a pair, else 0.
    """
    sides, begins, stops = row.offsets.T
    passage = np.flatnonzero(sides == side)
    if span is None or not len(passage):
        return None
    inside = passage[(begins[passage] < span[1]) & (stops[passage] > span[0])]
    if not len(inside) or begins[passage[0]] > span[0] or stops[passage[-1]] < span[1]:
        return None
    return int(inside[0]), int(inside[-1])


def check_span(number, passage, span):
    """Checks that an answer is within its passage.

    Raises:
        TypeError: if it is neither None nor two ints.
        ValueError: if it is not within.
    """
    if span is None:
        return
    has_two = isinstance(span, (tuple, list, np.ndarray)) and len(span) == 2
    if not has_two or not all(isinstance(end, (int, np.integer)) for end in span):
        raise TypeError(
            f"Text {number} has the answer {quote(span)}: give (start, end) in characters, or None."
        )
    if not 0 <= span[0] < span[1] <= len(passage):
        raise ValueError(
            f"Text {number} has the answer {quote(tuple(span))}, beyond its passage of "
            f"{len(passage)} characters: `start` is from 0 and `end` after the last character."
        )
