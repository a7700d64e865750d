"""How a text is searched for, and the checks of it."""

import dataclasses

from keras_posenc.arguments import checks


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The search of a `Generator`, whose arguments these are.

    Attributes:
        end_ids: tuple of int. The tokens that end a text.
        filler: int. What follows the end.
        forbidden: int or None. A token that is never written.
    """

    max_length: int
    end_ids: tuple = ()
    filler: int = 0
    forbidden: int | None = None
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
