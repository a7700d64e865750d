"""What a rotary encoding and its `scaling` both name must agree."""

import pytest

from keras_posenc import ReRoPE, RotaryEmbedding, XPos


@pytest.mark.once
@pytest.mark.parametrize("cls", [RotaryEmbedding, ReRoPE, XPos])
@pytest.mark.parametrize(
    ("name", "value", "same", "field", "theirs"),
    [
        ("base", 100.0, 500.0, "rope_theta", 500.0),
        ("rotary_dim", 0.25, 0.5, "partial_rotary_factor", 0.5),
        ("sections", [2, 2], (1, 3), "mrope_section", [1, 3]),
        ("section_order", "axial", "round_robin", "mrope_interleaved", True),
        ("section_order", "contiguous", "round_robin", "mrope_interleaved", True),
        ("section_order", "axial", "contiguous", "mrope_interleaved", False),
    ],
)
def test_an_argument_that_scaling_contradicts_is_refused(cls, name, value, same, field, theirs):
    if name[:7] == "section" and cls is not RotaryEmbedding:
        return
    scaling = {"rope_type": "linear", "factor": 2.0, field: theirs}
    more = {"sections": [1, 3]} if name == "section_order" else {}
    with pytest.raises(ValueError, match=f"`{name}` is .* but `scaling` says .*: leave one"):
        cls(**{name: value}, scaling=scaling, **more)
    layer = cls(**{name: same}, scaling=scaling, **more)
    assert getattr(layer, name) == same == getattr(cls(scaling=scaling, **more), name)
    assert cls.from_config(layer.get_config()).get_config() == layer.get_config()
