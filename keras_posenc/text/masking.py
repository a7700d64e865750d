"""Which tokens a masked language model has to guess, and what stands in their place."""

import re

import numpy as np

# What begins a word in SentencePiece, and in byte-level vocabularies (a space, a new line).
MARKS = ("▁", "Ġ", "Ċ")
# Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
# Tokens of a word. What is longer is no word, but a sentence without spaces.
MOST_PIECES = 12


def begins_words(tokenizer):
    """Whether each token begins a word, (V,) bool.

    In a WordPiece vocabulary that is what does not begin with "##". In one with marks of spaces it
    is what begins with one, punctuation, and tokens of scripts that have no spaces. A vocabulary
    without either, of words or of characters, does not show which tokens belong together: each
    begins a word.
    """
    begins = np.ones(tokenizer.vocab_size, bool)
    pieces = any(token.startswith("##") for token in tokenizer.vocabulary)
    if not pieces and not any(token.startswith(MARKS) for token in tokenizer.vocabulary):
        return begins
    for token, number in tokenizer.vocabulary.items():
        if pieces:
            begins[number] = not token.startswith("##")
        else:
            alone = not token[:1].isalnum() or SPACELESS.match(token)
            begins[number] = token.startswith(MARKS) or alone
    return begins


def choose_words(begins, eligible, count, rng, max_ngram=1):
    """Chooses whole words at random until `count` tokens are chosen, or none fits any more.

    Of more than `MOST_PIECES` tokens between two spaces each is chosen for itself. If all words are
    longer than `count`, a part of one is chosen.

    Args:
        begins: (T,) bool, whether a token begins a word.
        eligible: (T,) bool, False on special tokens and padding.
        count: int. Most tokens to choose, at least 1.
        rng: NumPy generator.
        max_ngram: int. Most neighbouring words to choose together; n of them with probability
            proportional to 1 / n.

    Returns:
        (T,) bool.
    """
    first = eligible & (begins | ~np.concatenate([[False], eligible[:-1]]))
    starts, ends = _words(first, eligible)
    long = np.flatnonzero(ends - starts > MOST_PIECES)
    if len(long):
        for start, end in zip(starts[long], ends[long], strict=True):
            first[start:end] = True
        starts, ends = _words(first, eligible)
    chosen = np.zeros(len(eligible), bool)
    sizes = np.ones(len(starts), int)
    if max_ngram > 1:
        numbers = np.arange(1, max_ngram + 1)
        sizes = rng.choice(numbers, len(starts), p=(1 / numbers) / (1 / numbers).sum())
    left = count
    order = rng.permutation(len(starts))
    for first in order:
        last = min(first + sizes[first], len(starts)) - 1
        word = slice(starts[first], ends[last])
        size = word.stop - word.start
        if size <= left and not chosen[word].any() and eligible[word].all():
            chosen[word] = True
            left -= size
            if not left:
                break
    if left == count and len(order):  # whatever was drawn is longer than that
        start, end = starts[order[0]], ends[order[0]]
        start += rng.integers(0, max(end - start - count, 0) + 1)
        chosen[start : min(start + count, end)] = True
    return chosen


def _words(first, eligible):
    """Starts and ends of words, from which tokens are the first of one."""
    starts, stops = np.flatnonzero(first), np.append(np.flatnonzero(first | ~eligible), len(first))
    return starts, stops[np.searchsorted(stops, starts, side="right")]


def hide(token_ids, chosen, mask_id, others, rng):
    """Replaces chosen tokens: 80% by the mask, 10% by a random token; 10% stay.

    `token_ids`: int array. `chosen`: bool array of its shape. `others`: (N,) ids that random tokens
    are drawn from. `rng`: NumPy generator. Returns an int array of the shape and dtype of
    `token_ids`.
    """
    draw = rng.random(token_ids.shape)
    hidden = np.where(chosen & (draw < 0.8), mask_id, token_ids)
    random = others[rng.integers(0, len(others), token_ids.shape)]
    return np.where(chosen & (draw >= 0.8) & (draw < 0.9), random, hidden).astype(token_ids.dtype)
