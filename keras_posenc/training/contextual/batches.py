"""Token ids of counterfactual copies and of their passages, in arrays of few shapes."""

import dataclasses

import numpy as np

from keras_posenc.training.contextual.copies import COPIES, PASSAGE, PASSAGES
from keras_posenc.training.contextual.links import linked_tokens
from keras_posenc.training.stretching.windows import first_token

ALONE = PASSAGE + 6  # tokens of a passage that is read alone, with its name
READ = 6  # passages of the first copy that the student reads alone
WINDOW = 512  # tokens of the first copy whose near context is kept, special ones included
MARGIN = 64  # tokens without near context on one side, at a cut end of that window
STEP = 256  # lengths of copies are multiples of it, so that few programs are compiled


@dataclasses.dataclass(frozen=True)
class Batch:
    """The arrays of one training step; P is `PASSAGES`, C `COPIES`."""

    inputs: dict  # of `ContextualModel`
    named_ids: np.ndarray  # (C P, L) token ids of the passages with their names, for the teacher
    named_weights: np.ndarray  # (C P, L) weights of their tokens in the teacher's pooling
    near_ids: np.ndarray  # (1, W) token ids of a window of the first copy, for the teacher
    near_place: int  # the place in the copy of the first token of the window's text
    # (T,) float, 1 for the tokens of the window that are in no passage, and far from its cut ends.
    kept: np.ndarray
    real: np.ndarray  # (C P,) float, 1 where there is a passage


class CopyBatches:
    """Makes a `Batch` of `Copies`.

    Args:
        tokenizer: `Tokenizer`.
        length: int. Tokens of a copy, at most.
        positions: int. Positions of the student. In half of all steps the positions jump once
            before the passages, up to this number, so that short copies train distant positions.
        skips: bool. Whether the student takes position ids.
        window: int. Positions of the teacher.
        pooling: str. How the teacher pools: "mean", "cls" or "last".
        linked: bool. Whether the inputs have the links of `linked_tokens`.
    """

    def __init__(
        self, tokenizer, length, positions, skips, window=512, pooling="mean", linked=False
    ):
        self.tokenizer, self.length, self.pooling = tokenizer, length, pooling
        self.positions, self.skips, self.linked = positions, skips, linked
        self.before = first_token(tokenizer)
        self.alone = min(ALONE + tokenizer.special_tokens(), window)
        self.window = min(WINDOW, window)

    def __call__(self, copies, rng):
        """Makes the arrays of a step; `rng` draws the jump of the positions."""
        size = self.length - self.tokenizer.special_tokens()
        rows, texts, places, split = [], [], [], []
        for sentences in copies.texts:
            pieces = [list(part) for part in self.tokenizer.contents(sentences)]
            split.append(pieces)
            ends = np.cumsum([len(piece) for piece in pieces])
            places.append([(ends[i] - len(pieces[i]), ends[i]) for i in copies.passages])
            texts.append([token for piece in pieces for token in piece][:size])
            rows.append(self.tokenizer.assemble(texts[-1])[0])
        length = min(self.length, -(-max(map(len, rows)) // STEP) * STEP)
        members = np.zeros((COPIES, PASSAGES, length), "float32")
        for copy, found in enumerate(places):
            for passage, (start, stop) in enumerate(found[:PASSAGES]):
                stop = min(stop, len(texts[copy]))
                if stop > start:
                    inside = slice(self.before + start, self.before + stop)
                    members[copy, passage, inside] = 1 / (stop - start)
        near_ids, near_place, kept = self._near(texts[0], length, rng)
        kept &= members[0].sum(axis=0) == 0
        named = [list(map(list, self.tokenizer.contents(each))) for each in copies.named]
        named_ids, counts = self._named(named)
        means = pooling_weights(counts, named_ids.shape[1], "mean")
        real = (members.sum(axis=-1) > 0).reshape(-1) & (counts > 0)
        inputs = {
            "token_ids": padded(rows, length, self.tokenizer, COPIES),
            "members": members,
            "alone_ids": named_ids[:READ],
            "alone_members": means[:READ],
        }
        if self.skips:
            inputs["position_ids"] = self._positions(length, places, rng)
        if self.linked:
            end = min(self.before + size, length)
            inputs |= linked_tokens(copies, split, named, self.before, end, length)
        return Batch(
            inputs,
            named_ids,
            pooling_weights(counts, named_ids.shape[1], self.pooling),
            near_ids,
            near_place,
            kept.astype("float32"),
            real.astype("float32"),
        )

    def _near(self, text, length, rng):
        """A window of a text: token ids (1, W), its place in the row, and (T,) what is kept."""
        size = self.window - self.tokenizer.special_tokens()
        start = int(rng.integers(0, max(0, len(text) - size) + 1))
        stop = min(start + size, len(text))
        row = self.tokenizer.assemble(text[start:stop])[0]
        ids = padded([row], self.window, self.tokenizer)
        margin = min(MARGIN, size // 4)
        first = start + margin * (start > 0)
        last = stop - margin * (stop < len(text))
        kept = np.zeros(length, bool)
        kept[self.before + first : self.before + last] = True
        return ids, self.before + start, kept

    def _positions(self, length, places, rng):
        """Positions (C, T) with the same jump in each copy, somewhere before its passages."""
        positions = np.tile(np.arange(length, dtype="int32"), (COPIES, 1))
        jump = int(rng.integers(0, self.positions - length + 1)) * (rng.random() < 0.5)
        fraction = rng.random()
        for copy, found in enumerate(places):
            positions[copy, self.before + int(fraction * found[0][0]) :] += jump
        return positions

    def _named(self, named):
        """The token ids (C P, L) of the passages with names, and the number of tokens of each."""
        size = self.alone - self.tokenizer.special_tokens()
        ids = np.full((COPIES * PASSAGES, self.alone), self.tokenizer.pad_id, "int32")
        counts = np.zeros(len(ids), int)
        for copy, passages in enumerate(named):
            for passage, piece in enumerate(passages):
                row = self.tokenizer.assemble(piece[:size])[0]
                ids[copy * PASSAGES + passage, : len(row)] = row
                counts[copy * PASSAGES + passage] = len(row)
        return ids, counts


def padded(rows, length, tokenizer, count=None):
    """The token ids (N, L) of rows, filled up to a length, and to a number of rows."""
    ids = np.full((count or len(rows), length), tokenizer.pad_id, "int32")
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    return ids


def pooling_weights(counts, length, pooling):
    """The weights (N, L) of tokens in a pooling, "mean", "cls" or "last", of rows of `counts`
    tokens; 0 for padding and in empty rows.

    Example:

    >>> pooling_weights(np.array([2, 0]), 3, "mean").tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    places, counts = np.arange(length), counts[:, None]
    if pooling == "mean":
        return ((places < counts) / np.maximum(counts, 1)).astype("float32")
    chosen = 0 if pooling == "cls" else counts - 1
    return ((places == chosen) & (counts > 0)).astype("float32")


class Prompted:
    """A tokenizer that puts a prompt between the special tokens and the contents of a text."""

    def __init__(self, tokenizer, prompt):
        self.tokenizer = tokenizer
        self.prefix = list(tokenizer.contents([prompt])[0]) if prompt else []
        self.pad_id = tokenizer.pad_id

    def contents(self, texts):
        """The token ids of each text, without prompt and special tokens."""
        return self.tokenizer.contents(texts)

    def assemble(self, tokens):
        """The token ids and segment ids of a row."""
        return self.tokenizer.assemble([*self.prefix, *tokens])

    def special_tokens(self):
        """Number of tokens of a row that are no content."""
        return self.tokenizer.special_tokens() + len(self.prefix)
