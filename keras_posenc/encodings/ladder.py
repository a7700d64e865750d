"""How fast each pair of rotary features turns, by which of several ids, and the checks of both."""

import math

import numpy as np
from keras import ops

from keras_posenc.encodings.frequencies import ntk_exponents
from keras_posenc.encodings.rope_scaling import scaled_frequencies

BY_LENGTH = ("dynamic", "longrope")  # kinds of scaling whose frequencies depend on the length


class Ladder:
    """Turns per position of the pairs of features that are rotated, in NumPy.

    Args:
        size: int. The number of features that are rotated, two per pair.
        base: float.
        kind, fields: str and dict, the scaling as `read_scaling` returns it.
        sections: list of int or None. How many pairs each axis of the ids turns.
        order: str, as `section_order` of `RotaryEmbedding`.
    """

    def __init__(self, size, base, kind, fields, sections, order):
        self.kind, self.fields = kind, fields
        sections = sections or (size // 2,)
        axes = [axis for axis, count in enumerate(sections) for _ in range(count)]
        if order == "round_robin":
            rounds = range(max(sections))
            axes = [axis for n in rounds for axis, count in enumerate(sections) if n < count]
        self._axes, self._pair_axes = len(sections), np.array(axes, "int32")
        parts = sections if order == "axial" else (size // 2,)
        scaling = {"rope_type": kind, **fields}

        def turns_and_factor(length=None):
            found = [scaled_frequencies(2 * n, base, scaling, length) for n in parts]
            return np.concatenate([part for part, _ in found]) / (2 * math.pi), found[0][1]

        # Turns per position, (pairs,), and the factor of the rotated features.
        self.turns, self.factor = turns_and_factor()
        # The same for ladders that turn by the same numbers.
        self.identity = self.turns.tobytes(), tuple(axes)
        if kind == "longrope":
            self._long_turns, _ = turns_and_factor(fields["original_max_position_embeddings"] + 1)
        self._exponents = np.concatenate([ntk_exponents(2 * n) for n in parts])

    def turns_of(self, grid):
        """Turns per position of a text: NumPy (pairs,), or a tensor (B or 1, 1, pairs) if they
        depend on its length."""
        if self.kind not in BY_LENGTH:
            return self.turns
        # From the unmasked keys: padding and the free end of a cache do not count.
        ids = ops.cast(grid.key_positions, "float32")
        ids = ops.max(ids, axis=-1) if len(ids.shape) == 3 else ids
        if grid.key_mask is not None:
            ids = ops.where(ops.cast(grid.key_mask, "bool"), ids, 0.0)
        length = ops.max(ids, axis=1)[:, None, None] + 1.0
        original = float(self.fields["original_max_position_embeddings"])
        if self.kind == "longrope":
            short, long = (ops.cast(x, "float32") for x in (self.turns, self._long_turns))
            return ops.where(length > original, long, short)
        stretch = self.fields["factor"] * (ops.maximum(length, original) / original - 1.0) + 1.0
        turns, exponents = (ops.cast(x, "float32") for x in (self.turns, self._exponents))
        return turns * ops.power(stretch, -exponents)

    def ids_of_pairs(self, ids, name):
        """The id that turns each pair, (B, T, pairs or 1); `name` is that of the encoding."""
        ids = ops.cast(ids, "float32")
        if len(ids.shape) == 2:
            return ids[..., None]
        if ids.shape[-1] != self._axes:
            raise ValueError(
                f"{name} rotates by {self._axes} ids per position"
                f"{'; `sections` sets their number' if self._axes == 1 else ''}. "
                f"Received: position ids on {ids.shape[-1]} axes"
            )
        return ops.take(ids, self._pair_axes, axis=-1)


def one_of(name, value, scaling, otherwise):
    """Merges an argument with its counterpart in `scaling`; if both are given they must agree."""
    if name not in scaling:
        return otherwise if value is None else value
    plain = [list(x) if isinstance(x, tuple) else x for x in (value, scaling[name])]
    if value is not None and plain[0] != plain[1]:
        raise ValueError(
            f"`{name}` is {value!r}, but `scaling` has {scaling[name]!r}: leave one of them out."
        )
    return scaling[name]


def checked_size(size):
    """`rotary_dim`; raises ValueError unless it is None, a positive even int, or a share in (0,
    1]."""
    whole = isinstance(size, int) and not isinstance(size, bool) and size > 0 and size % 2 == 0
    if not (size is None or whole or isinstance(size, float) and 0 < size <= 1):
        raise ValueError(
            "`rotary_dim` must be None, a positive even integer, or a float in (0, 1] that is the "
            f"share of the features. Received: {size!r}"
        )
    return size


def checked_sections(sections):
    """`sections` as a tuple; raises ValueError unless they are positive integers."""
    if sections is None:
        return None
    if (
        not isinstance(sections, (list, tuple))
        or not sections
        or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sections)
    ):
        raise ValueError(
            "`sections` must be a list of positive integers, the pairs of features that each axis "
            f"turns. Received: {sections!r}"
        )
    return tuple(sections)
