"""What only PyTorch on CUDA does, as the other backends and devices do without it."""

import os


def kernels_drop(x):
    """Whether a fused kernel drops attention weights, and `drop_features`, by a `next_seed`."""
    return False


def next_seed(generator, by_kernel=True):
    """What a `keras.random.SeedGenerator` gives next, for a kernel that drops or for hashes."""
    return generator.next()


def drop_features(x, rate, seed):
    """x with a share of its numbers dropped, and the others divided by 1 - rate."""
    raise NotImplementedError


def unmasked(ids, values, masked):
    """Ids, marked if no value is the masked one, where to ask for it later would cost time.

    `ids`: array or tensor. `values`: NumPy array of them.
    """
    return ids


def is_unmasked(ids):
    """Whether ids are known to have no padding, without waiting for their values."""
    return False


def number(x, known=None):
    """A scalar tensor as a number of Python, or itself where only the program's runs know it.

    `known`: int or None. The number, from here on.
    """
    return x


def moved_on(start, count, unmasked):
    """start + count keys, known as a number if `start` is, and whether none of them is masked."""
    return start + count


def looked_at(mask, known=None):
    """A mask whose `all_true` is right from here on; `known` is True if it is True everywhere."""
    return mask


def keeps_float32():
    """Whether the user wants float32 where half precision is faster."""
    given = os.environ.get("KERAS_POSENC_PRECISION") or None
    if given not in (None, "float32"):
        raise ValueError(
            "The environment variable KERAS_POSENC_PRECISION must be float32, or unset for what "
            f"is fastest on the device. Received: {given!r}"
        )
    return given is not None


def inference_dtype():
    """The dtype in which a device computes texts with a model of float32."""
    keeps_float32()
    return "float32"
