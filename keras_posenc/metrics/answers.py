"""The best answer among a text's windows, and how SQuAD judges answers."""

import collections
import re
import string
import typing

import numpy as np

LONGEST = 30  # tokens of an answer
BEST = 20  # spans between which probabilities are shared

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Span(typing.NamedTuple):
    """A place in a passage that may be the answer, (0, 0) for none, and its logit."""

    start: int
    end: int
    logit: float


def best_spans(rows, outputs, side, may_be_none):
    """The likeliest answers of one text, best first, over all of its windows.

    A span's logit is that of its first token as start plus that of its last as end, of at most
    `LONGEST` tokens. That of no answer is the lowest of the windows' logits of [CLS]: each window
    must predict it.

    `rows`: list of `Row`, the windows. `outputs`: their logits (T, 2). `side`: 1 if the passage is
    the second text of a pair, else 0. Returns a list of at most `BEST` `Span`, and one of (0, 0) if
    `may_be_none`; empty for a passage of no token.
    """
    spans, nothing = {}, []
    for row, logits in zip(rows, outputs, strict=True):
        nothing.append(float(logits[0].sum()))
        passage = np.flatnonzero((row.offsets[:, 0] == side) & (row.offsets[:, 2] > 0))
        if not len(passage):
            continue
        starts, ends = np.asarray(logits, "float64")[passage].T
        for longer in range(min(LONGEST, len(passage))):
            sums = starts[: len(passage) - longer] + ends[longer:]
            for place in np.argsort(-sums)[:BEST]:
                first, last = passage[place], passage[place + longer]
                where = int(row.offsets[first, 1]), int(row.offsets[last, 2])
                spans[where] = max(float(sums[place]), spans.get(where, -np.inf))
    best = [Span(*where, logit) for where, logit in spans.items()]
    best = sorted(best, key=lambda span: -span.logit)[:BEST]
    if may_be_none:
        best.append(Span(0, 0, min(nothing)))
    return sorted(best, key=lambda span: -span.logit)


def normalized(answer):
    """An answer as SQuAD compares it: without case, punctuation, articles, further spaces.

    Example:

    >>> normalized("The  U.S. Senate!")
    'us senate'

    Reference: [SQuAD](https://arxiv.org/abs/1606.05250), section 6.1.
    """
    answer = answer.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", answer).split())


def exact_match(predicted, answers):
    """1.0 if an answer is one of several, else 0.0; without case, punctuation and articles.

    Args:
        predicted: str, the answer that is judged; "" is none.
        answers: list of str, the true ones; empty if there is none.

    Returns:
        float.

    Example:

    >>> exact_match("The bridge!", ["bridge", "an old bridge"])
    1.0

    Reference: [SQuAD](https://arxiv.org/abs/1606.05250), section 6.1.
    """
    return float(any(normalized(predicted) == normalized(answer) for answer in answers or [""]))


def answer_f1(predicted, answers):
    """The F1 of an answer's words with those of the best of several answers.

    "" is no answer: 1.0 if there is none, else 0.0.

    Args:
        predicted, answers: as in `exact_match`.

    Returns:
        float, 0 to 1.

    Example:

    >>> round(answer_f1("the old bridge", ["bridge", "an old bridge of stone"]), 3)
    0.667

    Reference: [SQuAD](https://arxiv.org/abs/1606.05250), section 6.1.
    """
    return max(_f1(normalized(predicted).split(), normalized(a).split()) for a in answers or [""])


def _f1(predicted, answer):
    if not predicted or not answer:
        return float(predicted == answer)
    common = sum((collections.Counter(predicted) & collections.Counter(answer)).values())
    return 2 * common / (len(predicted) + len(answer))
