"""Decoding by its definition, in float64 NumPy; nothing of ours here.

Each text is written alone, and all of it is read again for each token: no cache, no batch, and no
search that ends early. A `Search` also keeps the smallest distance between what was chosen and what
was not, because below it float32 may choose otherwise.
"""

import math

import numpy as np


class Search:
    """Writes texts from logits.

    Args:
        logits_of: function from the list of tokens written so far to the next token's logits.
        settings: as those of `Generator`, with `end_ids`, `filler` and `forbidden`.
        prompt: list of int, of which a penalty of repetitions counts the tokens.
        uniforms: (n, max_length), for texts that are drawn.

    Attributes:
        margin: float.
    """

    def __init__(self, logits_of, settings, prompt=(), uniforms=None):
        self.settings, self.margin = settings, math.inf
        self._logits_of, self._prompt, self._uniforms = logits_of, list(prompt), uniforms

    def texts(self):
        """The n texts, filled up to `max_length`."""
        if self.settings.beams > 1:
            found = self._beams()
        else:
            found = [self._one(number) for number in range(self.settings.n)]
        filler = [self.settings.filler] * self.settings.max_length
        return [[*text, *filler][: self.settings.max_length] for text in found]

    def _scores(self, text):
        logits = np.array(self._logits_of(text), "float64")
        for token in set(self._prompt + text) if self.settings.repetition_penalty != 1 else ():
            factor = self.settings.repetition_penalty
            logits[token] = logits[token] / factor if logits[token] > 0 else logits[token] * factor
        if self.settings.forbidden is not None:
            logits[self.settings.forbidden] = -1e9
        return logits

    def _near(self, *distances):
        self.margin = min([self.margin, *(abs(float(each)) for each in distances)])

    def _one(self, number):
        text = []
        while len(text) < self.settings.max_length and not set(text) & set(self.settings.end_ids):
            logits = self._scores(text)
            if self._uniforms is None:
                best, second = np.sort(logits)[:-3:-1]
                self._near(best - second)
                text.append(int(np.argmax(logits)))
            else:
                text.append(self._drawn(logits, self._uniforms[number][len(text)]))
        return text

    def _drawn(self, logits, uniform):
        settings, ids = self.settings, np.arange(len(logits))
        if settings.top_k is not None or settings.top_p is not None:
            ids = np.argsort(-logits, kind="stable")
            self._near(*-np.diff(logits[ids]))
            ids = ids[: settings.top_k]
        p = softmax(logits[ids] / (settings.temperature or 1))
        if settings.top_p is not None:
            before = np.cumsum(p) - p
            self._near(*(before - settings.top_p))
            p = p[before < settings.top_p]
        sums = np.cumsum(p / p.sum())
        self._near(*(sums[:-1] - uniform))
        return int(ids[np.searchsorted(sums[:-1], uniform, side="right")])

    def _beams(self):
        settings, (going, ended) = self.settings, ([(0.0, [])], [])
        for length in range(1, settings.max_length + 1):
            grown = []
            for score, text in going:
                log_p = np.log(softmax(self._scores(text)) + 1e-300)
                grown += [(score + each, [*text, token]) for token, each in enumerate(log_p)]
            grown.sort(key=lambda each: -each[0])
            for score, text in grown[: settings.beams]:
                if text[-1] in settings.end_ids or length == settings.max_length:
                    ended.append((score / ((5 + length) / 6) ** settings.alpha, text))
            going = [each for each in grown if each[1][-1] not in settings.end_ids]
            self._near(*np.diff([score for score, _ in grown[: settings.beams + 1]]))
            self._near(*np.diff([score for score, _ in going[: settings.beams + 1]]))
            going = going[: settings.beams]
            ended.sort(key=lambda each: -each[0])
            self._near(*np.diff([rank for rank, _ in ended[: settings.beams + 1]]))
            ended = ended[: settings.beams]
        return [text for _, text in ended[: settings.n]]


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()
