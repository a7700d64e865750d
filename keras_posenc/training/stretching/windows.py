"""What the unstretched encoder makes of a long text: window by window, or behind its opening."""

import numpy as np

from keras_posenc.models.inputs import inputs_of
from keras_posenc.processes.replicas import filled_size


def window_starts(length, size, hop, shift=0):
    """The starts of windows of `size` tokens, `hop` tokens apart, that cover a text; the first
    starts `shift` tokens before it. Windows are clipped at the ends of the text.

    Example:

    >>> window_starts(8, 4, 2, shift=1)
    [-1, 1, 3, 5]
    """
    starts = [-shift]
    while starts[-1] + size < length:
        starts.append(starts[-1] + hop)
    return starts


def most_central(length, size, starts):
    """The index, for each token of a text, of the window in which it has the most context.

    The context in a window is the number of tokens on the shorter side of the token. The ends of
    the text need no special rule. A token close to an end has more of this context in the window at
    that end than in the next one, whether or not the end counts as missing context.

    Example:

    >>> most_central(4, 3, [0, 1]).tolist()
    [0, 0, 1, 1]
    """
    # The nearest centre of a window; of two equally near ones that of the earlier window.
    starts = np.array(starts)
    borders = starts[:-1] + starts[1:] + size - 1
    return np.searchsorted(borders, 2 * np.arange(length))


class Reader:
    """Computes the features of long texts with an encoder, in windows of `length` tokens with the
    special ones, in batches of at most `token_budget` tokens."""

    def __init__(self, model, tokenizer, length, token_budget=4096):
        self.model, self.tokenizer, self.length = model, tokenizer, length
        self.size = length - tokenizer.special_tokens()
        self.hop = max(1, self.size // 2)
        self.most = max(1, token_budget // length)

    def __call__(self, text, shift=0):
        """Computes the features (T, D) of a text with its special tokens.

        The features of a token are those in the window in which it is most central; those of the
        special tokens are averaged over all windows. Windows start earlier by `shift`, a share of a
        hop.
        """
        length = len(text)
        starts = window_starts(length, self.size, self.hop, int(shift * self.hop))
        parts = [text[max(start, 0) : start + self.size] for start in starts]
        rows = [self.tokenizer.assemble(list(map(int, part)))[0] for part in parts]
        # As many rows as another shift may need, so that all shifts have one shape.
        most = len(window_starts(length, self.size, self.hop, self.hop - 1))
        features = self._features(rows, most)
        window_of_token = most_central(length, self.size, starts)
        inside = np.arange(length) - np.maximum(np.array(starts)[window_of_token], 0)
        first = first_token(self.tokenizer)
        last = self.tokenizer.special_tokens() - first
        ends = [features[i, len(row) - last : len(row)] for i, row in enumerate(rows)]
        return np.concatenate(
            [
                features[:, :first].mean(0),
                features[window_of_token, first + inside],
                np.mean(ends, axis=0),
            ]
        )

    def after(self, opening, passages):
        """Computes the features (M, D) of passages, each read directly after the opening of their
        text; both fit into one window."""
        parts = [np.concatenate([opening, passage]) for passage in passages]
        rows = [self.tokenizer.assemble(list(map(int, part)))[0] for part in parts]
        first = first_token(self.tokenizer) + len(opening)
        features = self._features(rows, len(rows))
        return [
            feature[first : first + len(passage)]
            for feature, passage in zip(features, passages, strict=True)
        ]

    def _features(self, rows, count):
        """The features of rows of token ids, in batches for at most `count` rows."""
        batches = -(-count // self.most)
        rows_of_each = filled_size(-(-count // batches))
        ids = np.full((batches, rows_of_each, self.length), self.tokenizer.pad_id, "int32")
        for i, row in enumerate(rows):
            ids.reshape(-1, self.length)[i, : len(row)] = row
        features = [self.model.predict_on_batch(one_segment(self.model, batch)) for batch in ids]
        return np.concatenate(features)[: len(rows)]


def first_token(tokenizer):
    """Number of special tokens before a text."""
    return tokenizer.assemble([-1])[0].index(-1)


def one_segment(model, token_ids, **others):
    """A model's inputs by name: of token ids, segment 0, and `others` if the model has them."""
    return inputs_of(model, {"token_ids": token_ids, "segment_ids": 0 * token_ids, **others})


def draw_passages(length, size, rng):
    """Draws at most three passages of a text that begin where the teacher's first window, of `size`
    tokens, ends, or later.

    Returns `(starts, count, margin, opening)`. Each passage has `count` tokens. Of these, `margin`
    at each end lack some of their neighbours and are not measured. The teacher reads `opening`
    tokens of the text's beginning before it, a twentieth to two fifths of `size`.
    """
    opening = int(rng.integers(max(1, size // 20), max(1, 2 * size // 5) + 1))
    count = max(1, min(3 * size // 5, size - opening, length - 1))
    margin = count // 6
    first = min(size, length - count)
    room = length - count - first
    number = max(1, min(3, room // max(1, count - 2 * margin)))
    starts = (first + (np.arange(number) + rng.random()) * room / number).astype(int).tolist()
    return starts, count, margin, opening


class HeldOutText:
    """A test text and what the teacher reads in it: twice (T, D) in windows, shifted the second
    time.

    `other` is the text with another opening, the beginning of other texts.
    """

    def __init__(self, text, teacher, others):
        self.text = text
        self.readings = [teacher(text, shift) for shift in (0.0, 0.5)]
        rng = np.random.default_rng(0)
        starts, count, margin, opening = draw_passages(len(text), teacher.size, rng)
        self.other = np.concatenate([others[:opening], text[opening:]])
        passages = [text[start : start + count] for start in starts]
        read = [teacher.after(each[:opening], passages) for each in (text, self.other)]
        inner = slice(margin, count - margin)
        self.of_teacher = [(one - other)[inner].mean(0) for one, other in zip(*read, strict=True)]
        first = np.array(starts) + first_token(teacher.tokenizer)
        self.rows = first[:, None] + np.arange(count)[inner]

    def changes(self, features, others):
        """Pairs of what the other opening changes in the teacher and in the student, whose features
        (T, D) are those of `text` and of `other`."""
        changed = (features - others)[self.rows].mean(1)
        return list(zip(self.of_teacher, changed, strict=True))


def context_kept(pairs):
    """How much of what an exchanged opening changes in the teacher it changes in the student.

    A pair is the change of each: the mean features (D,) of a passage after one opening, less those
    after another. The result is sum of t . s / sum of t . t: 0 if the opening changes nothing in
    the student, 1 if as much as in the teacher, which read it right before the passage.
    """
    dots = sum(float(teacher @ student) for teacher, student in pairs)
    return dots / max(1e-12, sum(float(teacher @ teacher) for teacher, _ in pairs))
