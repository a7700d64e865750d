"""Names that were at the top of the package are in modules, and work there for two versions."""

import importlib

import pytest

import keras_posenc
from keras_posenc import heads, losses, metrics, training

pytestmark = pytest.mark.once

# A few of each module, as they were imported until version 0.2.
MOVED = {
    "losses": ("SpanCrossentropy", "ConditionalRandomFieldLoss", "MarginMSE"),
    "metrics": ("SpanF1", "ViterbiAccuracy"),
    "heads": ("classifier", "MaskedPooling", "similarity"),
    "encodings": ("ALiBi", "Grid", "alternate"),
    "text": ("TagLabels", "CausalBatches"),
    "training": ("FusedAdamW", "cosine_warmup"),
    "retrieval": ("open_embedder", "LateInteraction"),
    "checkpoints": ("open_checkpoint",),
}


@pytest.mark.parametrize(("room", "name"), [(r, n) for r, names in MOVED.items() for n in names])
def test_an_old_name_works_and_says_where_it_is(room, name):
    module = importlib.import_module(f"keras_posenc.{room}")
    words = rf"keras_posenc\.{name} is keras_posenc\.{room}\.{name}; .* until version 0\.4"
    with pytest.warns(DeprecationWarning, match=words) as caught:
        assert getattr(keras_posenc, name) is getattr(module, name)
    assert caught[0].filename == __file__
    assert name in module.__all__ and name not in keras_posenc.__all__


@pytest.mark.parametrize("name", ["SpanCrossentropy", "SpanF1"])
def test_losses_and_metrics_were_in_training(name):
    with pytest.warns(DeprecationWarning, match=rf"training\.{name} has moved to keras_posenc\."):
        assert getattr(training, name) in (losses.SpanCrossentropy, metrics.SpanF1)


def test_a_name_that_never_was():
    for module in (keras_posenc, training):
        with pytest.raises(AttributeError, match="has no attribute 'Transfromer'"):
            module.Transfromer  # noqa: B018


def test_what_is_at_the_top_can_be_read():
    """The names that the design promises, layers, models and calls, in less than a page."""
    names = keras_posenc.__all__
    promised = {"HierarchicalPositionEmbedding", "RotaryEmbedding", "LogNAttention", "Encoding"}
    promised |= {"ContextualPositionEmbedding", "RandomPositionIds", "build_transformer_model"}
    assert promised <= set(names) and len(names) <= 70 and len(set(names)) == len(names)
    assert all(hasattr(keras_posenc, name) for name in names)
    for module in (losses, metrics, heads):
        assert module.__doc__ and all(hasattr(module, name) for name in module.__all__)
