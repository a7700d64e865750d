"""Token ids of counterfactual copies and of their passages, in arrays of few shapes."""

import dataclasses

import numpy as np

from keras_posenc.training.contextual.copies import COPIES, PASSAGE, PASSAGES
from keras_posenc.training.stretching.windows import first_token

ALONE = PASSAGE + 8  # tokens of a passage that is read alone, with its name
STEP = 256  # lengths of copies are multiples of it, so that few programs are compiled


@dataclasses.dataclass(frozen=True)
class Batch:
    """The arrays of one training step; P is `PASSAGES`, C `COPIES`.

    Attributes:
        inputs: dict, of `ContextualModel`.
        named_ids: (C P, L) token ids of the passages with their names, for the teacher.
        named_weights: (C P, L) weights of their mean.
        first: (N,) token ids of the first copy, without special tokens.
        kept: (T,) float, 1 for the tokens of the first copy that are in no passage.
        real: (C P,) float, 1 where there is a passage.
    """

    inputs: dict
    named_ids: np.ndarray
    named_weights: np.ndarray
    first: np.ndarray
    kept: np.ndarray
    real: np.ndarray


class CopyBatches:
    """Makes a `Batch` of `Copies`.

    Args:
        tokenizer: `Tokenizer`.
        length: int. Tokens of a copy, at most.
        positions: int. Positions of the student. In half of all steps the positions jump once
            before the passages, up to this number, so that short copies train distant positions.
        skips: bool. Whether the student takes position ids.
        window: int. Positions of the teacher.
    """

    def __init__(self, tokenizer, length, positions, skips, window=512):
        self.tokenizer, self.length = tokenizer, length
        self.positions, self.skips = positions, skips
        self.before = first_token(tokenizer)
        self.alone = min(ALONE + tokenizer.special_tokens(), window)

    def __call__(self, copies, rng):
        """Makes the arrays of a step; `rng` draws the jump of the positions."""
        size = self.length - self.tokenizer.special_tokens()
        rows, texts, places = [], [], []
        for sentences in copies.texts:
            pieces = [list(part) for part in self.tokenizer.contents(sentences)]
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
        kept = (np.arange(length) < len(rows[0])) & (members[0].sum(axis=0) == 0)
        named_ids, named_weights = self._named(copies)
        real = (members.sum(axis=-1) > 0).reshape(-1) & (named_weights.sum(axis=-1) > 0)
        inputs = {
            "token_ids": self._padded(rows, length),
            "members": members,
            "alone_ids": named_ids[:PASSAGES],
            "alone_members": named_weights[:PASSAGES],
        }
        if self.skips:
            inputs["position_ids"] = self._positions(length, places, rng)
        return Batch(
            inputs,
            named_ids,
            named_weights,
            np.array(texts[0], "int32"),
            kept.astype("float32"),
            real.astype("float32"),
        )

    def _padded(self, rows, length):
        ids = np.full((COPIES, length), self.tokenizer.pad_id, "int32")
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
        return ids

    def _positions(self, length, places, rng):
        """Positions (C, T) with the same jump in each copy, somewhere before its passages."""
        positions = np.tile(np.arange(length, dtype="int32"), (COPIES, 1))
        jump = int(rng.integers(0, self.positions - length + 1)) * (rng.random() < 0.5)
        fraction = rng.random()
        for copy, found in enumerate(places):
            positions[copy, self.before + int(fraction * found[0][0]) :] += jump
        return positions

    def _named(self, copies):
        """The token ids (C P, L) of the passages with names, and their weights in the mean."""
        size = self.alone - self.tokenizer.special_tokens()
        ids = np.full((COPIES * PASSAGES, self.alone), self.tokenizer.pad_id, "int32")
        weights = np.zeros(ids.shape, "float32")
        for copy, named in enumerate(copies.named):
            for passage, piece in enumerate(self.tokenizer.contents(named[:PASSAGES])):
                row = self.tokenizer.assemble(list(piece)[:size])[0]
                ids[copy * PASSAGES + passage, : len(row)] = row
                weights[copy * PASSAGES + passage, : len(row)] = 1 / len(row)
        return ids, weights
