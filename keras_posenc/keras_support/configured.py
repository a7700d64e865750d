"""Configs of layers, losses and metrics, made from the arguments of their classes."""

import inspect

import keras

SERIALIZED = (
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.losses.Loss,
)


class Configured:
    """A Keras object that keeps each argument in an attribute of the same name.

    A class whose attribute has another name, or holds something that has to be made plain first,
    extends `get_config`. Classes of users, which may keep anything, extend it as in Keras.
    """

    def get_config(self):
        config, kept = super().get_config(), set(vars(self))
        for cls in type(self).__mro__:
            # What a subclass makes a property is kept under another name.
            kept |= {name for name, value in vars(cls).items() if inspect.isdatadescriptor(value)}
            if "__init__" in vars(cls) and cls.__module__.startswith("keras_posenc."):
                names = inspect.signature(cls.__init__).parameters
                found = {name: plain(getattr(self, name)) for name in names if name in kept}
                config = found | config
        return config


def plain(value):
    """The value as a config holds it."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    is_function = callable(value) and not isinstance(value, keras.Layer)
    if isinstance(value, SERIALIZED) or is_function:
        return keras.saving.serialize_keras_object(value)
    return value
