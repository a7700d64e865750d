"""Arguments of another kind than they must be: an error that names them, or none."""

import inspect

import keras
import pytest

from keras_posenc import encodings, layers, losses, metrics

pytestmark = pytest.mark.once

LOSS = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
REQUIRED = {
    "num_heads": 2, "key_dim": 4, "units": 8, "digit_token_ids": [1, 2], "answer_token_id": 9,
    "separator_token_ids": [1], "loss": LOSS, "dimensions": [4], "encoding": "rotary",
}  # fmt: skip
# What Keras checks, in its words; `encodings` has its error for each of them.
OF_KERAS = (
    "name",
    "dtype",
    "reduction",
    "encodings",
    "initializer",
    "regularizer",
    "constraint",
    "_act",
)
WRONG = (True, "x", -1, 1.5, ["x"], (1, 2, 3, 4, 5), object())
BASES = keras.layers.Layer, keras.losses.Loss, keras.metrics.Metric
# They are made of other classes.
MADE = encodings.Encoding, layers.SharedTable
CLASSES = {
    kind
    for module in (encodings, layers, losses, metrics)
    for kind in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(kind) and issubclass(kind, BASES) and kind not in MADE
}


def arguments_of(kind):
    """The arguments of a class, and those of them without which it cannot be made."""
    given = inspect.signature(kind).parameters.values()
    named = [each for each in given if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    required = [each.name for each in named if each.default is each.empty]
    return [each.name for each in named], {name: REQUIRED.get(name, 4) for name in required}


@pytest.mark.parametrize("kind", sorted(CLASSES, key=lambda kind: kind.__name__))
def test_an_argument_of_the_wrong_kind_is_named(kind):
    names, required = arguments_of(kind)
    kind(**required)
    for name in names:
        for value in () if name.endswith(OF_KERAS) else WRONG:
            try:
                kind(**required | {name: value})
            except (TypeError, ValueError) as error:
                assert name in str(error), f"{name}={value!r}: {error}"
