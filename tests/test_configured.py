"""Configs that are made from the arguments of a class."""

import pytest

from keras_posenc import RotaryEmbedding
from keras_posenc.losses import CoSENT

pytestmark = pytest.mark.once


class Half:
    """A data descriptor, which keeps half of what it is given."""

    def __set_name__(self, owner, name):
        self.name = f"_half_{name}"

    def __get__(self, instance, owner=None):
        return self if instance is None else 2 * getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, value / 2)


def as_property(name):
    def keep(self, value):
        setattr(self, f"_{name}", value)

    return property(lambda self: getattr(self, f"_{name}"), keep)


@pytest.mark.parametrize("kept", [as_property, lambda name: Half()])
@pytest.mark.parametrize(
    "make, name, value", [(CoSENT, "scale", 3.0), (RotaryEmbedding, "base", 50.0)]
)
def test_what_a_subclass_makes_a_property_is_in_the_config(make, name, value, kept):
    cls = type("Further", (type("Mine", (make,), {name: kept(name)}),), {})
    config = cls(**{name: value}).get_config()
    assert config[name] == value and getattr(cls.from_config(config), name) == value
    # Keras' own properties, such as the dtype of a loss, are none of it.
    assert config.keys() == make().get_config().keys()
