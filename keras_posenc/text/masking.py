"""Which tokens a masked language model has to guess, and what stands in their place."""

import numpy as np

# What begins a word in SentencePiece, and in byte-level vocabularies (a space, a new line).
MARKS = ("▁", "Ġ", "Ċ")


def begins_words(tokenizer):
    """Whether each token begins a word, (V,) bool.

    In a WordPiece vocabulary that is what does not begin with "##"; in the others what begins with
    their mark of a space, and punctuation.
    """
    begins = np.ones(tokenizer.vocab_size, bool)
    pieces = any(token.startswith("##") for token in tokenizer.vocabulary)
    for token, number in tokenizer.vocabulary.items():
        if pieces:
            begins[number] = not token.startswith("##")
        else:
            begins[number] = token.startswith(MARKS) or not token[:1].isalnum()
    return begins


def choose_words(begins, eligible, count, rng, max_ngram=1):
    """Chooses whole words at random until `count` tokens are chosen, or none fits any more.

    Args:
        begins: (T,) bool, whether a token begins a word.
        eligible: (T,) bool, False on special tokens and padding.
        count: int. Most tokens to choose, at least 1.
        rng: NumPy generator.
        max_ngram: int. Most neighbouring words to choose at once; n of them with probability
            proportional to 1 / n.

    Returns:
        (T,) bool.
    """
    before = np.concatenate([[False], eligible[:-1]])
    first = eligible & (begins | ~before)
    starts, stops = np.flatnonzero(first), np.append(np.flatnonzero(first | ~eligible), len(first))
    ends = stops[np.searchsorted(stops, starts, side="right")]
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
    if left == count and len(order):  # each word is longer than that: a part of one
        start = starts[order[0]]
        chosen[start : start + count] = eligible[start : start + count]
    return chosen


def hide(token_ids, chosen, mask_id, others, rng):
    """Replaces chosen tokens: 80% by the mask, 10% by a random token; 10% stay.

    Args:
        token_ids: int array.
        chosen: bool array of its shape.
        mask_id: int.
        others: (N,) ids that random tokens are drawn from.
        rng: NumPy generator.

    Returns:
        int array of the shape and dtype of `token_ids`.
    """
    draw = rng.random(token_ids.shape)
    hidden = np.where(chosen & (draw < 0.8), mask_id, token_ids)
    random = others[rng.integers(0, len(others), token_ids.shape)]
    return np.where(chosen & (draw >= 0.8) & (draw < 0.9), random, hidden).astype(token_ids.dtype)
