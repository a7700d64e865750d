"""Which position ids, and their one guard.

Ids are int32 (float32 where a strategy is continuous), whatever the dtype policy.
"""

from keras_posenc.positions.consecutive import PaddedPositionIds, consecutive
from keras_posenc.positions.guard import check_length, check_positions
from keras_posenc.positions.random import RandomPositionIds

__all__ = [
    "PaddedPositionIds",
    "RandomPositionIds",
    "check_length",
    "check_positions",
    "consecutive",
]
