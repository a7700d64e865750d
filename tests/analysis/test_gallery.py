import re

import pytest

from keras_posenc import Encoding
from keras_posenc.analysis import gallery
from keras_posenc.encodings import ENCODINGS

pytestmark = pytest.mark.once


def test_the_table_has_a_row_for_each_encoding():
    lines = gallery.encoding_table().splitlines()
    names = [re.match(r"\| `(\w+)`", line).group(1) for line in lines[2:]]
    assert names == list(ENCODINGS)
    assert len({len(line) for line in lines}) == 1
    assert all(re.search(r"\| https://\S+ +\|$", line) for line in lines[2:])


def test_facts():
    found = gallery.facts("alibi")
    assert found["class"] == "ALiBi" and found["acts_on"] == ["heads"]
    assert found["separable"] is True and found["causal_only"] is True and found["learned"] == {}
    found = gallery.facts({"name": "alibi", "direction": "symmetric", "learned": True})
    assert found["acts_on"] == ["bias"] and found["learned"] == {"slopes": (8,)}
    assert found["separable"] is False and found["causal_only"] is False
    assert gallery.facts("window")["separable"] is None
    assert gallery.facts("cope")["learned"] == {"embeddings": (64, 64)}


def test_features_alone_need_no_map():
    class Keys(Encoding):
        def features(self, states):
            return states[..., None, :1]

        def build(self, heads_shape, states_shape):
            super().build(heads_shape)

    assert gallery.facts(Keys())["separable"] is True


def test_a_description_holds_the_arguments_and_the_formula():
    text = gallery.describe_encoding("alibi")
    assert text.startswith(
        "alibi: keras_posenc.encodings.ALiBi(direction='causal', learned=False)\n\n"
    )
    assert "b[h, i, j] = -m_h (i - j)" in text
    assert "\n  causal only  yes\n  paper        https://arxiv.org/abs/2108.12409" in text


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_is_described(name):
    text = gallery.describe_encoding(name)
    assert "\nExample:\n\n>>> " in text and "acts on" in text
