"""Which position ids, and their one guard.

Ids are int32 (float32 where a strategy is continuous), whatever the dtype policy.
"""

from keras_posenc.positions.consecutive import PaddedPositionIds, consecutive
from keras_posenc.positions.guard import check_length, check_positions

__all__ = ["PaddedPositionIds", "check_length", "check_positions", "consecutive"]
