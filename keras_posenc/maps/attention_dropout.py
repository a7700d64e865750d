"""Attention dropout with cheap random bits, a function of the cell: any block drops the same."""

from keras import ops

from keras_posenc import backend

# Default fraction of the attention weights that is dropped, if not even a config.json sets it.
ATTENTION_DROPOUT = 0.0


def drop_weights(weights, rate, seeds):
    """Drops a share of the weights (B, H, Tq, Tk), the same cells for the same `seeds`.

    Cell (i, j) is kept if the 32-bit product r_i c_j is large enough, where r_i and c_j are odd
    hashes of the seeds and of the row or column. Two cells of one row or column are independent,
    and so, as far as tests can see, are any four. This takes two cheap passes over the map, while
    counter-based random bits cost as much as the attention itself.

    `weights`: (B, H, Tq, Tk). `rate`: float in (0, 1). `seeds`: two integers, as
    `SeedGenerator.next()` gives them. Returns the weights over 1 - rate, or 0.
    """
    hashes = dropout_hashes(seeds, *ops.shape(weights))
    return backend.keep_by_hash(weights * (1 / (1 - rate)), rate, hashes)


def drawn_once(compute, again, drops):
    """`again`, what `keras.RematScope` makes of `compute`; raises ValueError if that drops weights.

    The backward pass computes it once more, and the seeds of that are others.
    """
    if drops and again is not compute:
        raise ValueError(
            "In `keras.RematScope` a layer is computed once more in the backward pass, where it "
            "would drop other values. Make it with a dropout of 0, or outside of the scope: "
            "attention recomputes its matrices anyway."
        )
    return again


def dropout_hashes(seeds, batch, heads, num_rows, num_columns):
    """Odd int32 hashes of the rows, (B, H, Tq), and of the columns, (1, Tk), of a whole map."""
    seeds = ops.cast(seeds, "int32")
    of_rows = _odd_hash(batch * heads * num_rows, seeds[0], seeds[1])
    of_rows = ops.reshape(of_rows, (batch, heads, num_rows))
    return of_rows, _odd_hash(num_columns, seeds[1], seeds[0] + 1)[None]


def _odd_hash(length, seed, more):
    """Odd int32 hashes (length,) of the index and two seeds, by multiplications and shifts."""
    x = ops.arange(0, length, dtype="int32") + seed
    for word in (more, 0x2C1B3C6D):
        x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
        x = ops.bitwise_xor(x, ops.right_shift(x, 15)) * 0x46CA68AB
        x = ops.bitwise_xor(x, word)
    x = ops.bitwise_xor(x, ops.right_shift(x, 16)) * 0x7FEB352D
    return ops.bitwise_or(ops.bitwise_xor(x, ops.right_shift(x, 15)), 1)
