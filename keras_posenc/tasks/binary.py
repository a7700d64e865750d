"""Conversion of rows of bits, lowest bit first, from and to Python's unbounded integers."""

import numpy as np


def to_numbers(bits):
    """Converts rows of bits (B, L) to a list of B integers."""
    packed = np.packbits(bits.astype(bool), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def to_bits(numbers, width):
    """Converts integers to rows of bits (B, width)."""
    count = -(-width // 8)
    data = b"".join(number.to_bytes(count, "little") for number in numbers)
    packed = np.frombuffer(data, "uint8").reshape(len(numbers), count)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :width].astype("int32")


def draw_positive(rng, bits, part):
    """Redraws the bits in `part`, (B, L) bool, of each row until they are not all 0.

    The positive numbers are then uniformly distributed.
    """
    zero = np.arange(len(bits))
    while zero.size:
        shape = zero.size, bits.shape[1]
        bits[zero] = np.where(part[zero], rng.integers(0, 2, shape), bits[zero])
        zero = zero[~(bits[zero] * part[zero]).any(1)]
    return bits
