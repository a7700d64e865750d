"""Rows of bits and Python's integers, which have any number of bits. The lowest bit is first."""

import numpy as np


def to_numbers(bits):
    """Rows of bits (B, L) as a list of B integers."""
    packed = np.packbits(bits.astype(bool), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def to_bits(numbers, width):
    """Integers as rows of bits (B, width)."""
    count = -(-width // 8)
    data = b"".join(number.to_bytes(count, "little") for number in numbers)
    packed = np.frombuffer(data, "uint8").reshape(len(numbers), count)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :width].astype("int32")


def draw_positive(rng, bits, part):
    """Draws the bits in `part`, (B, L) bool, of each row anew until they are not all 0.

    Each number from 1 on is then as likely as any other.
    """
    zero = np.arange(len(bits))
    while zero.size:
        shape = zero.size, bits.shape[1]
        bits[zero] = np.where(part[zero], rng.integers(0, 2, shape), bits[zero])
        zero = zero[~(bits[zero] * part[zero]).any(1)]
    return bits
