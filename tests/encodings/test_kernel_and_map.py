"""By the kernel as by the map, for lists of encodings, in particular with a factor last."""

import itertools

import keras
import laws
import numpy as np
import pytest

from keras_posenc import backend

FACTORS = ({"name": "temperature", "value": 3.0}, {"name": "log_n", "train_length": 3})
SEPARABLE = ("sandwich", "rotary_bias", "alibi", "transformer_xl", "forget_gate", "rotary", "xpos")
LISTS = [(one, factor) for one in SEPARABLE for factor in FACTORS]
LISTS += [(*pair, FACTORS[0]) for pair in itertools.permutations(SEPARABLE[:3], 2)]
LISTS += [("sandwich", FACTORS[0], "rotary_bias"), (FACTORS[1], "sandwich", "rotary")]
LISTS += [("t5", "sandwich", FACTORS[0]), ("sandwich", "ssmax"), ("rotary_bias", "rotary")]
EVERYWHERE = (LISTS[0], LISTS[3], LISTS[14])


@pytest.mark.parametrize(
    "encodings",
    [pytest.param(x, marks=() if x in EVERYWHERE else pytest.mark.once) for x in LISTS],
    ids=lambda x: str(laws.Case(x)),
)
def test_the_kernel_computes_what_the_map_says(encodings, monkeypatch):
    layer, x = laws.attention(laws.Case(encodings)), laws.numbers()
    keep = np.ones((laws.B, laws.T), bool)
    keep[0, laws.T - 2 :] = False
    arguments = {"causal": True, "value_mask": keep}
    by_map = laws.call(layer, x, return_attention_scores=True, **arguments)[0]
    # torch takes its kernel anyway, but for a bias on a CPU.
    asked = "on_accelerator" if keras.backend.backend() == "torch" else "has_kernel"
    monkeypatch.setattr(backend, asked, lambda *_: True)
    laws.close(laws.run(layer, x, **arguments), laws.to_numpy(by_map), 1e-4)
