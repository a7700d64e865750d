"""Checks of arguments, with one message where backends would have three, or none."""

import numpy as np


def listed(encodings):
    """The encodings, or TypeError if they are no list: a name would be read by its letters."""
    if not isinstance(encodings, (list, tuple)):
        raise TypeError(
            f"`encodings` is a list of names, dicts or encodings. Received: {encodings!r}"
        )
    return encodings


def check_list(encodings):
    """Raises ValueError for encodings that exclude each other, or must come in another order."""
    names = [type(e).__name__ for e in encodings if e.overrides("normalize")]
    if len(names) > 1:
        raise ValueError(
            f"Only one encoding can turn logits into weights. Received: {', '.join(names)}"
        )
    for i, encoding in enumerate(encodings):
        before = [type(e).__name__ for e in encodings[:i] if e.overrides("decay")]
        if encoding.adds_to_heads and before:
            # A bias of rotated and scaled heads would see where in the batch a text begins.
            raise ValueError(
                f"{type(encoding).__name__} adds to the queries or keys, so in `encodings` it must "
                f"come before {before[0]}: swap them. Received: {before[0]} first"
            )


def check_features(name, **shapes):
    """Raises ValueError unless these shapes are of features (B, T, D)."""
    for role, shape in shapes.items():
        if len(shape) != 3:
            raise ValueError(f"{name} takes features (B, T, D). Received: `{role}` {tuple(shape)}")


def check_lengths(name, key, value):
    """Raises ValueError unless there are as many keys as values: torch's kernels would read values
    that there are not."""
    keys, values = key.shape[1], value.shape[1]
    if None not in (keys, values) and keys != values:
        raise ValueError(
            f"{name}: a key has a value each. Received: {keys} keys and {values} values"
        )


def checked_mask(name, mask, key):
    """The mask, which would be left out on torch, whatever its shape, if it closes nothing."""
    wanted = tuple(key.shape[:2])
    shape = wanted if mask is None else tuple(np.shape(mask))
    fits = len(shape) == 2 and all(
        size in (None, other) or other is None or (size, axis) == (1, 0)
        for axis, (size, other) in enumerate(zip(shape, wanted, strict=True))
    )
    if not fits:
        raise ValueError(
            f"{name}: a mask of the keys has one bool a key, {wanted}; what depends on the query "
            f"is an `attention_mask`. Received a mask of the shape {shape}"
        )
    return mask


def check_attention_mask(name, mask, batch, heads, rows, columns):
    """Raises ValueError unless a mask (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk) fits a map.

    Args:
        name: str, of the layer.
        mask: a tensor or an array, or None.
        batch, heads, rows, columns: the sizes of the map; None or a tensor where unknown.
    """
    if mask is None:
        return
    wanted = {2: (rows, columns), 3: (batch, rows, columns), 4: (batch, heads, rows, columns)}
    wanted = wanted.get(len(mask.shape))
    if wanted is None or not all(map(_fits, mask.shape, wanted)):
        raise ValueError(
            f"{name}: an `attention_mask` is (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk), for "
            f"{(batch, heads, rows, columns)}. Received: one of the shape {tuple(mask.shape)}"
        )


def _fits(size, wanted):
    return size in (None, 1) or not isinstance(wanted, int) or size == wanted
