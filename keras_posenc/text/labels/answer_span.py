"""The answer to a question: a span of a passage."""

import unicodedata

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.text.labels.protocol import Labels


class SpanLabels(Labels):
    """A span of each text, or none, for `span_head` and `SpanCrossentropy`.

    Targets are the first and the last token of the span, (B, 2) int32; (0, 0), [CLS], in a window
    that does not hold all of it, and where a text has none. Weights (B,) float32 are 0 where
    truncation, not a window, has cut off the answer.

    Args:
        values: list of `(start, end)` in characters, or None for no answer; of the second text if
            the texts are pairs (question, passage). None in place of the list: not known.

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
        spans = []
        for number, (text, span) in enumerate(zip(texts, self.values, strict=True)):
            passage = passage_of(text)
            check_span(number, passage, span)
            spans.append(span if span is None else _without_spaces(passage, span))
        side = int(is_pair(texts[0]))
        places = [span_place(row, spans[row.text], side) for row in rows]
        answered = {row.text for row, place in zip(rows, places, strict=True) if place}
        for row in rows:
            if row.text not in answered and _is_seen(row, spans[row.text], side):
                _refuse_empty(row.text, self.values[row.text], "token")
        return [
            (place or (0, 0), spans[row.text] is None or row.text in answered)
            for row, place in zip(rows, places, strict=True)
        ]

    def pad(self, entries, width):
        targets, weights = zip(*entries, strict=True)
        return np.array(targets, "int32"), np.array(weights, "float32")


def is_pair(text):
    """Whether a text is a pair of str."""
    return isinstance(text, tuple) and len(text) == 2 and all(isinstance(x, str) for x in text)


def passage_of(text):
    """The text in which the answers are: the second of a pair, or the only one, words with a space
    between."""
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return " ".join(text)
    return text[1] if is_pair(text) else text


def span_place(row, span, side):
    """The first and the last token of a span in a row, or None where it is not all there.

    `row`: `Row` with offsets. `span`: (start, end) in characters, or None. `side`: 1 if it is of
    the second text of a pair, else 0.
    """
    if not _is_seen(row, span, side):
        return None
    sides, begins, stops = row.offsets.T
    inside = np.flatnonzero((sides == side) & (begins < span[1]) & (stops > span[0]))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _is_seen(row, span, side):
    """Whether a row reads the passage from before a span, (start, end) or None, to behind it."""
    sides, begins, stops = row.offsets.T
    passage = np.flatnonzero(sides == side)
    if span is None or not len(passage):
        return False
    return begins[passage[0]] <= span[0] and stops[passage[-1]] >= span[1]


def _without_spaces(passage, span):
    """A span without what is at its ends and may be in no token: spaces, accents of their own, and
    characters without a width."""
    if not isinstance(passage, str):
        return span
    start, end = span
    seen = [i for i in range(start, end) if not _may_be_left_out(passage[i])]
    return (seen[0], seen[-1] + 1) if seen else span


def _may_be_left_out(character):
    return character.isspace() or unicodedata.category(character) in ("Mn", "Cf", "Cc")


def check_span(number, passage, span):
    """Checks that an answer is within its passage."""
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
    if isinstance(passage, str) and not passage[span[0] : span[1]].strip():
        _refuse_empty(number, span, "character except spaces")


def _refuse_empty(number, span, what):
    raise ValueError(
        f"Text {number} has the answer {quote(tuple(span))}, in which stands no {what}: give the "
        "places of its words, or None for no answer."
    )
