"""What is at the top of the package, and what its modules group."""

import pytest

import keras_posenc

pytestmark = pytest.mark.once


def test_what_is_at_the_top_can_be_read():
    """The names that the design promises, layers, models and calls, in less than a page."""
    names = keras_posenc.__all__
    promised = {"HierarchicalPositionEmbedding", "RotaryEmbedding", "LogNAttention", "Encoding"}
    promised |= {"ContextualPositionEmbedding", "RandomPositionIds", "build_transformer_model"}
    assert promised <= set(names) and len(names) <= 70 and len(set(names)) == len(names)
    assert all(hasattr(keras_posenc, name) for name in names)
    for module in (getattr(keras_posenc, name) for name in names if name.islower()):
        if listed := getattr(module, "__all__", None):
            assert module.__doc__ and all(hasattr(module, name) for name in listed)
            assert len(set(listed)) == len(listed)
