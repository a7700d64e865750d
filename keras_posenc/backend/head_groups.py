"""Heads of keys and values that serve G query heads each: query head h reads key head h // G."""

from keras import ops


def repeated_heads(x, num_heads):
    """Keys or values (B, T, H / G, D) as (B, T, H, D), each head G times."""
    groups = num_heads // x.shape[2]
    return x if groups == 1 else ops.repeat(x, groups, axis=2)


def rows_of_groups(x, key_heads):
    """x (B, H, Tq, N) as (B, H / G, G Tq, N): the query heads of a group as more rows.

    So one product with few keys or values serves all query heads, without a copy of the keys.
    """
    batch, heads, rows, width = ops.shape(x)
    groups = heads // key_heads
    return x if groups == 1 else ops.reshape(x, (batch, key_heads, groups * rows, width))


def heads_of_groups(x, num_heads):
    """x (B, H / G, G Tq, N) as (B, H, Tq, N): undoes `rows_of_groups`."""
    batch, key_heads, rows, width = ops.shape(x)
    groups = num_heads // key_heads
    return x if groups == 1 else ops.reshape(x, (batch, num_heads, rows // groups, width))


def by_rows_of_groups(attention, q, k, v, bias, mask, scale, flash):
    """`dot_product_attention` of one query, whose heads of a group are rows: a causal order of it
    masks nothing."""
    batch, _, heads, size = ops.shape(q)
    key_heads = k.shape[2]
    q = ops.swapaxes(ops.reshape(q, (batch, key_heads, heads // key_heads, size)), 1, 2)

    def grouped(x):
        return x if x is None or x.shape[1] == 1 else rows_of_groups(x, key_heads)

    output = attention(q, k, v, grouped(bias), grouped(mask), scale, False, flash)
    return ops.reshape(ops.swapaxes(output, 1, 2), (batch, 1, heads, v.shape[-1]))
