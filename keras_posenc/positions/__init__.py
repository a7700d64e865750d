"""Position ids, the check that they exist, and absolute position embeddings.

Ids are int32 (float32 where a strategy is continuous), with every dtype policy.
"""

from keras_posenc.positions.position_range import check_length, check_positions, consecutive
from keras_posenc.positions.random import RandomPositionIds
from keras_posenc.positions.structured import (
    AbacusPositionIds,
    CoupledPositionIds,
    PaddedPositionIds,
    SegmentPositionIds,
)

__all__ = [
    "AbacusPositionIds", "CoupledPositionIds", "PaddedPositionIds", "RandomPositionIds",
    "SegmentPositionIds", "check_length", "check_positions", "consecutive",
]  # fmt: skip
