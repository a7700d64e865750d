"""TensorFlow's checksum, against its definition and against files of TensorFlow."""

import numpy as np
import pytest

from keras_posenc.checkpoints.crc32c import POLYNOMIAL, SCALES, STEPS, crc32c

pytestmark = pytest.mark.once


def by_definition(data):
    crc = 0xFFFFFFFF
    for byte in data.tolist():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ POLYNOMIAL * (crc & 1)
    return crc ^ 0xFFFFFFFF


def test_known_values():
    """From RFC 3720, B.4, and the one every implementation is tried on."""
    assert crc32c(np.frombuffer(b"123456789", "uint8")) == 0xE3069283
    assert crc32c(np.zeros(32, "uint8")) == 0x8A9136AA
    assert crc32c(np.full(32, 255, "uint8")) == 0x62A8AB43
    assert crc32c(np.arange(32, dtype="uint8")) == 0x46DD794E


@pytest.mark.parametrize(
    "length", [*range(10), 1000, *(STEPS[-1] + i for i in range(-1, 6)), 20000]
)
def test_definition(length):
    data = np.random.default_rng(length).integers(0, 256, length, "uint8")
    assert crc32c(data) == by_definition(data)
    assert crc32c(data.copy()) == by_definition(data)


def test_every_scale():
    """What a change of the last bytes adds to a checksum does not depend on the bytes before."""
    rng = np.random.default_rng(0)
    for length in [scale * STEPS[-1] + extra for scale in SCALES for extra in (0, 3, 4, 40_000)]:
        zeros, data = np.zeros(length, "uint8"), np.zeros(length, "uint8")
        data[-3000:] = rng.integers(0, 256, 3000)
        short = crc32c(data[-3000:]) ^ crc32c(zeros[-3000:])
        assert crc32c(data) ^ crc32c(zeros) == short
        data[:9] = 1
        flipped = data.copy()
        flipped[length // 2] ^= 4
        assert crc32c(data) != crc32c(flipped)
