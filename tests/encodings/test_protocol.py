"""What a class must be to act as an encoding."""

import re

import numpy as np
import pytest
from keras import ops

from keras_posenc import Encoding, PositionalAttention, encodings
from keras_posenc.encodings import ENCODINGS

pytestmark = pytest.mark.once


def test_an_encoding_without_a_hook_is_refused():
    class Nothing(Encoding):
        def distance(self, grid):
            return grid.distance()

    with pytest.raises(TypeError, match="Nothing overrides no hook, .*: override one of restrict,"):
        Nothing()


@pytest.mark.parametrize(("name", "hook"), [("biass", "bias"), ("scores", "score")])
def test_a_method_that_is_nearly_a_hook_is_refused(name, hook):
    with pytest.raises(TypeError, match=f"never calls Typed.{name}: did you mean '{hook}'?"):
        type("Typed", (Encoding,), {name: lambda self, *arguments: None})
    type("Own", (Encoding,), {f"_{name}": lambda self: None, "bias": Encoding.bias})


@pytest.mark.parametrize("hook", ["scan", "carry"])
def test_scan_and_carry_come_together(hook):
    half = type("Half", (Encoding,), {hook: lambda self, *arguments: None, "score": ops.add})
    with pytest.raises(TypeError, match="Half must override both `scan` and `carry`"):
        half()


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("size", [1, 7])
def test_a_head_size_is_refused_when_attention_is_made_or_never(name, size):
    try:
        layer = PositionalAttention(2, size, encodings=[name])
    except ValueError as error:
        assert str(error).startswith(
            f"Rotary positions need an even number of features per head; this head has {size}: "
        ) or re.fullmatch("`size` must be .*: sines and cosines come in pairs.*", str(error))
        return
    x = np.zeros((1, 5, 8), "float32")
    assert layer(x, x, use_causal_mask=True).shape == x.shape


@pytest.mark.parametrize(
    ("guess", "name"),
    [("CoPE", "cope"), ("RotaryEmbedding", "rotary"), ("T5Bias", "t5"), ("alib", "alibi")],
)
def test_a_class_or_another_spelling_leads_to_the_name(guess, name):
    with pytest.raises(ValueError, match=f"Unknown encoding '{guess}': did you mean '{name}'"):
        encodings.get(guess)
