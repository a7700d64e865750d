"""Where to cut a document into chunks: at the end of a sentence or paragraph, if there is one."""

import bisect
import itertools
import re

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote

# The end of a sentence with the quotes that close it, a blank line, or a full stop of Chinese or
# Japanese, which no space follows. A run of full stops is tried only from its first, so that the
# time is linear in its length.
_BOUNDARY = re.compile(r"""(?<![.!?…])[.!?…]+["'”’»)\]]*(?=\s)|\n[ \t\r]*\n|[。！？]+[”’」』）]*""")


def chunk_spans(text, tokenizer, tokens=256, overlap=0):
    """Cuts a text into chunks of at most so many tokens.

    A chunk ends at the last sentence or paragraph boundary in its second half, or after `tokens`
    tokens if there is none. The next chunk begins `overlap` tokens earlier, or at the first
    boundary within them. A character that is several tokens, such as bytes, is in one chunk, even
    if it has more than `tokens` of them.

    Args:
        text: str.
        tokenizer: `Tokenizer`.
        tokens: int. Maximum tokens of a chunk, without special tokens.
        overlap: int, at most half of `tokens`. Tokens that neighbouring chunks share.

    Returns:
        list of (start, end) in characters of the text, in order. They cover every token that is not
            only spaces.

    Example:

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "two", "."]
    >>> tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    >>> text = "One two. Two one two. One."
    >>> [text[start:end] for start, end in chunk_spans(text, tokenizer, tokens=5)]
    ['One two.', 'Two one two.', 'One.']
    """
    checks.whole("tokens", tokens)
    checks.whole("overlap", overlap, least=0, most=tokens // 2)
    ((_, offsets),) = tokenizer.contents([text], offsets=True)
    if not (offsets and text.strip()):
        raise ValueError(
            "The text has no token to make a chunk of: leave it out, or read it whole. Received: "
            f"{quote(text)}"
        )
    # Numbers of tokens after which no character goes on, and those of them before a boundary.
    reached = [0, *itertools.accumulate((end for _, end in offsets), max)]
    starts = [start for start, _ in offsets] + [len(text)]
    cuts = [cut for cut, start in enumerate(starts) if start >= reached[cut]]
    boundaries = {bisect.bisect_right(reached, b.end()) - 1 for b in _BOUNDARY.finditer(text)}
    boundaries = sorted(boundaries.intersection(cuts))
    spans, first = [], 0
    while True:
        last = min(first + tokens, len(offsets))
        if last < len(offsets):
            half = first + max(1, tokens // 2)
            last = _latest(boundaries, half, last) or _latest(cuts, first + 1, last)
            last = last or cuts[bisect.bisect_right(cuts, first)]
        start, end = offsets[first][0], reached[last]
        if text[start:end].strip():  # not where all tokens are spaces
            spans.append((start, end))
        if last == len(offsets):
            return spans
        earliest = cuts[bisect.bisect_left(cuts, max(last - overlap, first + 1))]
        first = _first(boundaries, earliest, last) if overlap else last


def _latest(boundaries, least, most):
    """The last boundary in [least, most], or None."""
    at = bisect.bisect_right(boundaries, most) - 1
    return boundaries[at] if at >= 0 and boundaries[at] >= least else None


def _first(boundaries, earliest, last):
    """The first boundary in [earliest, last), or `earliest`."""
    at = bisect.bisect_left(boundaries, earliest)
    return boundaries[at] if at < len(boundaries) and boundaries[at] < last else earliest
