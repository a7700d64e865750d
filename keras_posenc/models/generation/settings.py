"""How a text is searched for, and the checks of it."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Settings:
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
        for name in ("max_length", "beams", "n", "top_k"):
            value = getattr(self, name)
            if not (value is None and name == "top_k") and not _is_positive_integer(value):
                raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}")
        for name in ("temperature", "repetition_penalty", "top_p"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                remedy = " For the likeliest token leave it out." * (name == "temperature")
                raise ValueError(f"`{name}` must be above 0.{remedy} Received: {value!r}")
        if self.top_p is not None and self.top_p > 1:
            raise ValueError(f"`top_p` is a probability, at most 1. Received: {self.top_p!r}")
        if not _is_number(self.alpha):
            raise ValueError(f"`alpha` must be a number. Received: {self.alpha!r}")
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


def _is_positive_integer(x):
    return isinstance(x, int) and not isinstance(x, bool) and x > 0


def _is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)
