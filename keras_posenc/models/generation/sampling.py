"""From logits to a token: penalty of repetitions, temperature, top-k, top-p, a draw."""

from keras import ops

from keras_posenc import backend

# A log-probability below that of any candidate.
NEVER = -1e9


def penalize(logits, seen, penalty):
    """Makes tokens that are there already less likely: l / penalty if l > 0, else l penalty.

    `logits`: (B, V) float32. `seen`: (B, V) bool, the tokens of the text so far.

    Reference: [CTRL](https://arxiv.org/abs/1909.05858), section 4.1.
    """
    less = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(seen, less, logits)


def seen_tokens(tokens, real, vocab_size):
    """(B, V) bool: the tokens (B, T) of each row that are real, (B, T)."""
    batch, length = ops.shape(tokens)
    rows = ops.repeat(ops.arange(batch, dtype="int32"), length)
    places = ops.stack([rows, ops.reshape(ops.cast(tokens, "int32"), (-1,))], axis=-1)
    counts = ops.scatter(places, ops.reshape(ops.cast(real, "int32"), (-1,)), (batch, vocab_size))
    return counts > 0


def draw(logits, uniform, temperature=1.0, top_k=None, top_p=None):
    """Draws a token from softmax(logits / temperature), restricted to the likeliest ones.

    First to the `top_k` likeliest, then to the fewest of these that have the probability `top_p`
    among them. The token is where the running sum of the probabilities passes a uniform number.
    `logits`: (B, V) float32. `uniform`: (B,) float32, from 0 to below 1. Returns (B,) int32.

    Reference: [Nucleus sampling](https://arxiv.org/abs/1904.09751) for top-p.
    """
    size, ids = logits.shape[-1], None
    if top_k is not None or top_p is not None:
        logits, ids = ops.top_k(logits, min(top_k or size, size))
    p = ops.softmax(logits / temperature, axis=-1) if logits.shape[-1] > 1 else logits * 0 + 1
    if top_p is not None:
        before = ops.cumsum(p, axis=-1) - p
        p = ops.where(before < top_p, p, 0.0)
    sums = ops.cumsum(p, axis=-1)
    # Below the whole even when rounded, or a token of probability 0 could come out.
    aim = ops.minimum(uniform[:, None] * sums[:, -1:], sums[:, -1:] * (1 - 2.0**-23))
    place = ops.sum(ops.cast(sums <= aim, "int32"), axis=-1)
    if ids is None:
        return ops.cast(place, "int32")
    return ops.cast(backend.take_along_axis(ids, place[:, None], 1)[:, 0], "int32")
