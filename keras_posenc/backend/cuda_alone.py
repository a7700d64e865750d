"""What only PyTorch on CUDA does, as the other backends and devices do without it."""


def kernels_drop(x):
    """Whether a fused kernel drops attention weights, and `drop_features`, by a `next_seed`."""
    return False


def next_seed(generator):
    """What a `keras.random.SeedGenerator` gives next, as numbers of Python."""
    raise NotImplementedError  # nothing drops by one


def drop_features(x, rate, seed):
    """x with a share of its numbers dropped, and the others divided by 1 - rate."""
    raise NotImplementedError


def unmasked(ids, values, masked):
    """Ids, marked if no value is the masked one, where to ask for it later would cost time.

    Args:
        ids: array or tensor.
        values: NumPy array of them.
        masked: int.
    """
    return ids


def is_unmasked(ids):
    """Whether ids are known to have no padding, without waiting for their values."""
    return False
