"""Settings that belong together, as values; and the arguments that they replaced in version 0.5."""

import dataclasses
import functools
import inspect
import typing

from keras_posenc.arguments import checks
from keras_posenc.arguments.aliases import check_arguments
from keras_posenc.models.extension import FORMER, Extension, former_extension


class Settings:
    """A frozen dataclass whose `repr` shows the first field and what differs from the defaults."""

    def __repr__(self):
        values = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]
        shown = [f"{f.name}={value!r}" for f, value in values if value != f.default]
        return f"{type(self).__name__}({', '.join(shown)})"


class Former(typing.NamedTuple):
    """The names of arguments that one argument replaced, and a function of the new argument (None
    if it is not given) and a dict of the former ones, which returns the new argument."""

    names: tuple
    value: typing.Callable


def renamed(name):
    """The `Former` of an argument that had another name."""

    def value(current, given):
        return _alone(current, given) or given[name]

    return Former((name,), value)


def _alone(current, given):
    """Refuses an argument beside the one that replaced it."""
    if current is not None:
        raise TypeError(
            f"{checks.listed(given)}: the argument that replaced it is given, too ({current!r}); "
            "leave the former one out."
        )


def former_settings(extension=None, removed=None, **owners):
    """A decorator for functions that still take the arguments which they had until version 0.4.

    A call with such arguments has one warning, which has the new arguments. `extension` is the
    default of that argument, if the function had its parts; `removed` has no new argument; `owners`
    are `Former` by the name of the new argument.
    """
    if extension is not None:
        owners["extension"] = Former(
            FORMER, lambda now, given: _alone(now, given) or former_extension(given, extension)
        )

    every = {**owners, None: removed} if removed else owners

    def decorate(function):
        positional = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args, **kwargs):
            new, former = {}, []
            for name, (names, value) in every.items():
                given = {each: kwargs.pop(each) for each in names if each in kwargs}
                if given:
                    kwargs |= dict(zip(positional, args, strict=False))
                    args = ()
                    new[name] = value(kwargs.get(name), given)
                    former += given
            new.pop(None, None)
            if former:
                shown = ", ".join(f"{name}={_written(value)}" for name, value in new.items())
                checks.warn_former(function.__qualname__, f"give {shown or 'nothing'}", former)
            check_arguments(function, kwargs | new)
            return function(*args, **kwargs | new)

        return call

    return decorate


def _written(value):
    """A value as a user would write it."""
    return repr(str(value) if isinstance(value, Extension) else value)
