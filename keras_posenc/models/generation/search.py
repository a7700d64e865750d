"""The search for a text: the likeliest token or a drawn one each time, or the best of K beams."""

import dataclasses

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.models.generation.sampling import NEVER, draw, penalize


@dataclasses.dataclass(frozen=True)
class Search:
    """What both searches do with a state, a dict of tensors of which "tokens" (R, M) is one.

    A subclass has `start`, `grow` (one more token for each of its R rows; it returns the caches in
    the order of the rows), `goes_on`, and `result`, (B, n, M). `rows`: int. Number of rows for each
    given text. The fields are arguments of `Generator`, and three that it makes of them.
    """

    max_length: int
    end_ids: tuple = ()  # the tokens that end a text
    filler: int = 0  # what follows the end
    forbidden: int | None = None  # a token that is never written
    beams: int = 1
    alpha: float = 0.6
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    n: int = 1

    def __post_init__(self):
        for name in ("max_length", "beams", "n"):
            checks.whole(name, getattr(self, name))
        checks.number("repetition_penalty", self.repetition_penalty, above=0)
        checks.number("alpha", self.alpha)
        if self.top_k is not None:
            checks.whole("top_k", self.top_k)
        if self.temperature is not None:
            remedy = "for the likeliest token leave it out"
            checks.number("temperature", self.temperature, above=0, remedy=remedy)
        if self.top_p is not None:
            checks.number("top_p", self.top_p, above=0, most=1, why="it is a probability")
        if self.samples and self.beams > 1:
            raise ValueError(
                "Beam search looks for the likeliest text, and `temperature`, `top_k` and `top_p` "
                f"draw one: give one or the other. Received: beams={self.beams}"
            )
        if self.n > 1 and not self.samples and self.n > self.beams:
            raise ValueError(
                "`n` texts are drawn, with `temperature`, `top_k` or `top_p`, or are the best of "
                f"at least as many beams. Received: n={self.n}, beams={self.beams}"
            )

    @property
    def samples(self):
        """Whether tokens are drawn at random."""
        return not (self.temperature is None and self.top_k is None and self.top_p is None)

    @property
    def ends_early(self):
        """Whether a search may end before `max_length`."""
        return bool(self.end_ids)

    def _start(self, rows, seen):
        """Nothing written yet; `seen` (R, V) marks the tokens that are there before."""
        state = {"tokens": ops.full((rows, self.max_length), self.filler, "int32")}
        if self.repetition_penalty != 1:
            state["seen"] = seen
        return state

    def _allowed(self, logits, state):
        """The logits in float32, of what is there made less, and of padding none."""
        logits = ops.cast(logits, "float32")
        if "seen" in state:
            logits = penalize(logits, state["seen"], self.repetition_penalty)
        if self.forbidden is not None:
            token = ops.arange(logits.shape[-1], dtype="int32")
            logits = ops.where(token == self.forbidden, NEVER, logits)
        return logits

    def _ends(self, tokens):
        ends = ops.zeros_like(tokens, dtype="bool")
        for end in self.end_ids:
            ends = ops.logical_or(ends, tokens == end)
        return ends

    def _noted(self, seen, tokens):
        new = ops.arange(seen.shape[-1], dtype="int32") == tokens[:, None]
        return ops.logical_or(seen, new)


class OneByOne(Search):
    """Takes the likeliest token each time, or draws one."""

    @property
    def rows(self):
        return self.n

    def start(self, rows, seen, uniforms):
        state = self._start(rows, seen)
        state["done"] = ops.zeros((rows,), "bool")
        return state if uniforms is None else {**state, "uniforms": uniforms}

    def grow(self, place, logits, state, caches):
        logits = self._allowed(logits, state)
        if self.samples:
            uniform = ops.take(state["uniforms"], place, axis=1)
            temperature = 1.0 if self.temperature is None else self.temperature
            tokens = draw(logits, uniform, temperature, self.top_k, self.top_p)
        else:
            tokens = ops.cast(ops.argmax(logits, axis=-1), "int32")
        tokens = ops.where(state["done"], self.filler, tokens)
        state = {
            **state,
            "tokens": ops.slice_update(state["tokens"], (0, place), tokens[:, None]),
            "done": ops.logical_or(state["done"], self._ends(tokens)),
        }
        if "seen" in state:
            state["seen"] = self._noted(state["seen"], tokens)
        return state, caches

    def goes_on(self, place, state):
        return ops.logical_not(ops.all(state["done"]))

    def result(self, state):
        return ops.reshape(state["tokens"], (-1, self.rows, self.max_length))


class Beams(Search):
    """Keeps the K likeliest beginnings y, and the K best texts that have ended.

    A text is ranked by log p(y) / ((5 + |y|) / 6)^alpha. Of the beginnings with one more token
    those that end leave the search if they are among the K likeliest, and the K likeliest of the
    others go on, until none of them can get past the best texts.
    """

    ends_early = True

    @property
    def rows(self):
        return self.beams

    def start(self, rows, seen, uniforms):
        state, beams = self._start(rows, seen), self.beams
        batch, length = rows // beams, self.max_length
        # All beginnings start out identical, so only the first one counts.
        one_begins = ops.where(ops.arange(beams, dtype="int32") == 0, 0.0, NEVER)
        return {
            **state,
            "score": ops.zeros((batch, 1)) + one_begins,
            "texts": ops.full((batch, beams, length), self.filler, "int32"),
            "ranks": ops.full((batch, beams), NEVER, "float32"),
        }

    def grow(self, place, logits, state, caches):
        beams = self.beams
        log_p = ops.log_softmax(self._allowed(logits, state), axis=-1)
        size = log_p.shape[-1]
        score = state["score"][..., None] + ops.reshape(log_p, (-1, beams, size))
        count = min(beams * (1 + len(self.end_ids)), beams * size)
        score, picked = ops.top_k(ops.reshape(score, (-1, beams * size)), count)
        picked = ops.cast(picked, "int32")
        batch = ops.shape(picked)[0]
        parent, token = picked // size, picked % size
        rows = parent + ops.arange(batch, dtype="int32")[:, None] * beams  # (B, count)
        texts = ops.take(state["tokens"], rows, axis=0)
        texts = ops.slice_update(texts, (0, 0, place), token[..., None])
        ends = self._ends(token)
        state = self._ended(place, state, texts, score, ends)
        # The likeliest that go on, likeliest first.
        score, best = ops.top_k(ops.where(ends, NEVER, score), beams)
        rows = ops.reshape(backend.take_along_axis(rows, best, 1), (-1,))
        texts = backend.take_along_axis(texts, best[..., None], 1)
        state = {**state, "score": score, "tokens": ops.reshape(texts, (-1, self.max_length))}
        if "seen" in state:
            tokens = ops.reshape(backend.take_along_axis(token, best, 1), (-1,))
            state["seen"] = self._noted(ops.take(state["seen"], rows, axis=0), tokens)
        caches = keras.tree.map_structure(
            lambda x: ops.take(x, rows, axis=0) if len(x.shape) else x, caches
        )
        return state, caches

    def _ended(self, place, state, texts, score, ends):
        """The state with the K best of the texts that ended before, and of those that end now."""
        beams, length = self.beams, self.max_length
        ends = ops.logical_or(ends, place + 1 == length)
        ends = ops.logical_and(ends, ops.arange(ends.shape[1], dtype="int32") < beams)
        ranks = ops.where(ends, score / self._penalty(place + 1), NEVER)
        ranks = ops.concatenate([state["ranks"], ranks], axis=1)
        texts = ops.concatenate([state["texts"], texts], axis=1)
        ranks, best = ops.top_k(ranks, beams)
        return {
            **state,
            "ranks": ranks,
            "texts": backend.take_along_axis(texts, best[..., None], 1),
        }

    def _penalty(self, length):
        return ((5.0 + ops.cast(length, "float32")) / 6.0) ** self.alpha

    def goes_on(self, place, state):
        """Whether a beginning can get past the n-th best text, at the length that suits it best."""
        lengths = self._penalty(place + 1), self._penalty(self.max_length)
        hope = state["score"][:, 0] / ops.maximum(*lengths)
        return ops.any(hope > state["ranks"][:, self.n - 1])

    def result(self, state):
        return state["texts"][:, : self.n]
