"""What is at the top of the package, and what its modules group."""

import pytest

import keras_posenc
from keras_posenc import heads, losses, metrics

pytestmark = pytest.mark.once


def test_what_is_at_the_top_can_be_read():
    """The names that the design promises, layers, models and calls, in less than a page."""
    names = keras_posenc.__all__
    promised = {"HierarchicalPositionEmbedding", "RotaryEmbedding", "LogNAttention", "Encoding"}
    promised |= {"ContextualPositionEmbedding", "RandomPositionIds", "build_transformer_model"}
    assert promised <= set(names) and len(names) <= 70 and len(set(names)) == len(names)
    assert all(hasattr(keras_posenc, name) for name in names)
    for module in (losses, metrics, heads):
        assert module.__doc__ and all(hasattr(module, name) for name in module.__all__)
