"""Distant context: how the opening of a text changes the features of passages far behind it.

The teacher cannot read the opening and a distant passage together. It reads them with the text
between them left out. With another opening its features of the passage change; measured is how much
of that change the student has, which reads the whole text.
"""

import dataclasses

import numpy as np

from keras_posenc.training.stretching.windows import first_token


@dataclasses.dataclass(frozen=True)
class Passage:
    """A passage of a text, in tokens without the special ones.

    Attributes:
        opening: int. Tokens of the text's beginning that the teacher reads before the passage.
        start, stop: ints, the passage.
        margin: int. Tokens at its ends that lack some of their neighbours, and are not measured.
    """

    opening: int
    start: int
    stop: int
    margin: int

    @property
    def inner(self):
        """The slice of the tokens that are measured, in the text."""
        return slice(self.start + self.margin, self.stop - self.margin)


def draw_passages(length, size, rng):
    """Draws at most three passages of a text that begin where the teacher's first window, of `size`
    tokens, ends, or later. All have the same opening, of a twentieth to two fifths of `size`.

    Example:

    >>> passages = draw_passages(1000, 500, np.random.default_rng(0))
    >>> [(p.opening, p.start, p.stop) for p in passages]
    [(174, 553, 853)]
    """
    opening = int(rng.integers(max(1, size // 20), max(1, 2 * size // 5) + 1))
    count = max(1, min(3 * size // 5, size - opening, length - 1))
    margin = count // 6
    first = min(size, length - count)
    room = length - count - first
    number = max(1, min(3, room // max(1, count - 2 * margin)))
    places = (np.arange(number) + rng.random()) * room / number
    starts = (first + places).astype(int).tolist()
    return [Passage(opening, start, start + count, margin) for start in starts]


class HeldOutText:
    """A test text and what the teacher reads in it.

    Args:
        text: (T - special tokens,) token ids.
        teacher: `Reader`.
        others: token ids of other texts, the beginning of which is the other opening.

    Attributes:
        readings: two readings (T, D) in windows, the second with its windows shifted.
        other: the text with another opening.
    """

    def __init__(self, text, teacher, others):
        self.text = text
        self.readings = [teacher(text, shift) for shift in (0.0, 0.5)]
        self.passages = draw_passages(len(text), teacher.size, np.random.default_rng(0))
        opening = self.passages[0].opening
        self.other = np.concatenate([others[:opening], text[opening:]])
        self.before = first_token(teacher.tokenizer)
        parts = [text[p.start : p.stop] for p in self.passages]
        read = [teacher.after(each[:opening], parts) for each in (text, self.other)]
        inner = slice(self.passages[0].margin, len(parts[0]) - self.passages[0].margin)
        self.of_teacher = [(one - other)[inner].mean(0) for one, other in zip(*read, strict=True)]

    def changes(self, features, others):
        """Pairs of what the other opening changes in the teacher and in the student.

        Args:
            features, others: (T, D), the student's of `text` and of `other`.
        """
        changed = (features - others)[self.before :]
        means = [changed[passage.inner].mean(0) for passage in self.passages]
        return list(zip(self.of_teacher, means, strict=True))


def context_kept(pairs):
    """How much of what an exchanged opening changes in the teacher it changes in the student.

    A pair is the change of each: the mean features (D,) of a passage after one opening, less those
    after another. The result is sum of t . s / sum of t . t: 0 if the opening changes nothing in
    the student, 1 if as much as in the teacher, which read it right before the passage.

    Example:

    >>> t = np.array([3.0, 4.0])
    >>> context_kept([(t, t), (t, 0 * t)])
    0.5
    """
    dots = sum(float(teacher @ student) for teacher, student in pairs)
    return dots / max(1e-12, sum(float(teacher @ teacher) for teacher, _ in pairs))
