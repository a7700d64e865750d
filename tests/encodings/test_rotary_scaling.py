"""What a rotary encoding and its `scaling` both name must agree."""

import keras
import numpy as np
import pytest

from keras_posenc import PositionalAttention, RotaryEmbedding
from keras_posenc.encodings import ReRoPE, XPos


@pytest.mark.once
@pytest.mark.parametrize("cls", [RotaryEmbedding, ReRoPE, XPos])
@pytest.mark.parametrize(
    ("name", "value", "same", "field", "reference"),
    [
        ("base", 100.0, 500.0, "rope_theta", 500.0),
        ("rotary_dim", 0.25, 0.5, "partial_rotary_factor", 0.5),
        ("sections", [2, 2], (1, 3), "mrope_section", [1, 3]),
        ("section_order", "axial", "round_robin", "mrope_interleaved", True),
        ("section_order", "contiguous", "round_robin", "mrope_interleaved", True),
        ("section_order", "axial", "contiguous", "mrope_interleaved", False),
    ],
)
def test_an_argument_that_scaling_contradicts_is_refused(cls, name, value, same, field, reference):
    if name[:7] == "section" and cls is not RotaryEmbedding:
        return
    scaling = {"rope_type": "linear", "factor": 2.0, field: reference}
    more = {"sections": [1, 3]} if name == "section_order" else {}
    with pytest.raises(ValueError, match=f"`{name}` is .* but `scaling` has .*: leave one"):
        cls(**{name: value}, scaling=scaling, **more)
    layer = cls(**{name: same}, scaling=scaling, **more)
    assert getattr(layer, name) == same == getattr(cls(scaling=scaling, **more), name)
    assert cls.from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.once
def test_learned_frequencies_are_those_of_mistral_large_4():
    torch = pytest.importorskip("torch")
    name = "transformers.models.mistral_large4"
    configs = pytest.importorskip(f"{name}.configuration_mistral_large4")
    rope = {"rope_type": "default", "rope_theta": 500.0}
    config = configs.MistralLarge4TextConfig(rope_parameters=rope)
    mistral = pytest.importorskip(f"{name}.modeling_mistral_large4")
    reference = mistral.MistralLarge4TextRotaryEmbedding(config)
    pairs = len(reference.alpha)
    random = np.random.default_rng(0)
    alpha = random.normal(0, 0.3, pairs).astype("float32")
    reference.alpha.copy_(torch.tensor(alpha))
    x = random.normal(size=(1, 6, 2, 2 * pairs)).astype("float32")
    ids = np.array([0, 1, 2, 5, 9, 40])
    heads = torch.tensor(x).transpose(1, 2)
    cos, sin = reference(heads, torch.tensor(ids)[None])
    expected, _ = mistral.apply_rotary_pos_emb_interleave(heads, heads, cos, sin)
    layer = RotaryEmbedding(base=500.0, learned=True)
    layer.build(x.shape)
    layer.set_weights([alpha])
    # Theirs gathers the first features of all pairs, then the second ones.
    found = keras.ops.convert_to_numpy(layer(x, positions=ids))
    found = np.concatenate([found[..., 0::2], found[..., 1::2]], -1)
    np.testing.assert_allclose(found, expected.transpose(1, 2).numpy(), atol=2e-5)


@pytest.mark.parametrize("kind", [RotaryEmbedding, ReRoPE])
def test_learned_frequencies_are_trained(kind):
    """In ReRoPE those of far distances too, in blocks."""
    more = {"window": 2} if kind is ReRoPE else {}
    layer = PositionalAttention(2, 8, encodings=[kind(learned=True, **more)])
    x = keras.Input((None, 6))
    model = keras.Model(x, layer(x, x))
    model.compile(keras.optimizers.SGD(0.5), "mse")
    data = np.random.default_rng(0).normal(size=(2, 2, 12, 6)).astype("float32")
    (weight,) = layer.encodings[0].trainable_variables
    model.fit(data[0], data[1], verbose=0)
    assert np.abs(keras.ops.convert_to_numpy(weight)).min() > 0
