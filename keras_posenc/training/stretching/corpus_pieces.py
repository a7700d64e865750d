"""Long texts to learn positions from: pieces of a corpus, without labels."""

import hashlib
import os

import numpy as np

from keras_posenc.text import Texts
from keras_posenc.text.files import read_long_texts

TEST_SHARE = 0.1


class CorpusPieces:
    """All texts of a corpus, concatenated in a random order, and pieces of them, of `length`
    tokens.

    Without `test`, the last tenth of `texts` is held out, but at least one piece.
    """

    def __init__(self, texts, test, tokenizer, length, seed=0, text=None):
        self.tokenizer, self.seed = tokenizer, seed
        self.size = length - tokenizer.special_tokens()
        self.train = _stream(texts, tokenizer, text, seed)
        if test is None:
            held_out = max(self.size, int(TEST_SHARE * len(self.train)))
            self.train, self.held_out = np.split(self.train, [max(0, len(self.train) - held_out)])
        else:
            self.held_out = _stream(test, tokenizer, text, seed)
        for tokens, what in ((self.train, "train on"), (self.held_out, "test on")):
            if len(tokens) < self.size:
                raise ValueError(
                    f"The texts have {len(tokens):,} tokens to {what}, which is not one piece of "
                    f"{length:,}: give more texts, or a smaller length (train_length)."
                )

    def training(self, step):
        """The text of a step, (size,) token ids, a function of (seed, step) alone."""
        rng = np.random.default_rng((self.seed, 1, step))
        start = rng.integers(0, len(self.train) - self.size + 1)
        return self.train[start : start + self.size]

    def test(self, most):
        """At most `most` test texts, evenly spread over the held-out part."""
        count = min(most, len(self.held_out) // self.size)
        starts = np.linspace(0, len(self.held_out) - self.size, count).astype(int)
        return [self.held_out[start : start + self.size] for start in starts]

    def inputs(self, text):
        """The token ids (T,) of a text with its special tokens."""
        return np.array(self.tokenizer.assemble(list(map(int, text)))[0], "int32")

    def digest(self):
        """A fingerprint of all tokens."""
        tokens = np.concatenate([self.train, [-1], self.held_out]).astype("int32")
        return hashlib.sha256(tokens.tobytes()).hexdigest()[:16]


def _stream(texts, tokenizer, text, seed):
    if isinstance(texts, (str, os.PathLike)):
        texts = read_long_texts(texts, text)
    ids = tokenizer.contents(texts.texts if isinstance(texts, Texts) else texts)
    order = np.random.default_rng((seed, 0)).permutation(len(ids))
    between = [] if tokenizer.sep_id is None else [tokenizer.sep_id]
    parts = [np.array([*ids[index], *between], "int32") for index in order]
    return np.concatenate([np.zeros(0, "int32"), *parts])
