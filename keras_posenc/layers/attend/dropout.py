"""Attention dropout whose bits are cheap and known by cell, so that any block drops the same."""

from keras import ops


def drop_weights(weights, rate, drawn):
    """Drops a share of the weights (B, H, Tq, Tk), the same ones whenever `drawn` is the same.

    Cell (i, j) is kept if the 32-bit product r_i c_j is at least rate 2^32, r_i and c_j being odd
    hashes of the seed and of the row or column. Two cells of one row, or of one column, are
    independent, and so, as far as tests can see, are any four; it costs two cheap passes over the
    map where counter-based random bits cost as much as the attention itself.

    Args:
        weights: (B, H, Tq, Tk).
        rate: float in (0, 1).
        drawn: two integers, as `SeedGenerator.next()` gives them.
    """
    return dropped(weights, rate, *hashes(drawn, *ops.shape(weights)))


def hashes(drawn, batch, heads, rows, columns):
    """(B, Tq, H) hashes of the rows and (1, Tk) of the columns of a whole map, odd int32."""
    drawn = ops.cast(drawn, "int32")
    of_rows = _odd_hash(batch * heads * rows, drawn[0], drawn[1])
    of_rows = ops.transpose(ops.reshape(of_rows, (batch, heads, rows)), (0, 2, 1))
    return of_rows, _odd_hash(columns, drawn[1], drawn[0] + 1)[None]


def dropped(weights, rate, of_rows, of_columns):
    """The weights of a map, or of a part of one, without those that the hashes say."""
    product = ops.transpose(of_rows, (0, 2, 1))[..., None] * of_columns[:, None, None]
    kept = product >= int(rate * 2**32) - 2**31
    return ops.where(kept, weights * (1 / (1 - rate)), 0.0)


def _odd_hash(length, seed, more):
    """(length,) odd int32, hashed from the index and two seeds by multiplying and shifting."""
    x = ops.arange(0, length, dtype="int32") + seed
    for word in (more, 0x2C1B3C6D):
        x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
        x = ops.bitwise_xor(x, ops.right_shift(x, 15)) * 0x46CA68AB
        x = ops.bitwise_xor(x, word)
    x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
    return ops.bitwise_or(ops.bitwise_xor(x, ops.right_shift(x, 15)), 1)
