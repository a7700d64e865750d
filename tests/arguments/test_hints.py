"""Type hints where strangers meet the package: the constructors of its layers, and the hooks."""

import inspect
import pathlib
import types
import typing

import keras
import pytest

import keras_posenc
from keras_posenc.encodings.base import HOOKS

pytestmark = pytest.mark.once

ROOMS = ("attention", "encodings", "layers", "positions")
PUBLIC = {
    name: value
    for name, value in {**vars(keras_posenc.encodings), **vars(keras_posenc)}.items()
    if getattr(value, "__module__", "").startswith(tuple(f"keras_posenc.{r}." for r in ROOMS))
}


def hinted(function):
    """The parameters of a function but for `self` and **kwargs, and the hints of all."""
    parameters = list(inspect.signature(function).parameters.values())
    plain = [p for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    return plain, typing.get_type_hints(function)


def takes(hint, value):
    """Whether a value is of the kind that a hint names."""
    if hint is typing.Any:
        return True
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(takes(kind, value) for kind in typing.get_args(hint))
    kind = typing.get_origin(hint) or hint
    return isinstance(value, (int, float) if kind is float else kind)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_arguments_of_public_names_have_hints_that_their_defaults_fit(name):
    value = PUBLIC[name]
    parameters, hints = hinted(value.__init__ if inspect.isclass(value) else value)
    assert [p.name for p in parameters if p.name not in hints] == []
    wrong = [
        p.name
        for p in parameters
        if p.default is not p.empty and not takes(hints[p.name], p.default)
    ]
    assert wrong == []


@pytest.mark.parametrize("hook", [*HOOKS, "carry"])
def test_hooks_have_hints(hook):
    function = getattr(keras_posenc.Encoding, hook)
    parameters, hints = hinted(function)
    assert [p.name for p in parameters if p.name not in hints] == []
    assert "return" in hints


def test_calls_of_attention_have_hints():
    for layer in (keras_posenc.PositionalAttention, keras_posenc.GatedAttentionUnit):
        parameters, hints = hinted(layer.call)
        assert [p.name for p in parameters if p.name not in hints] == []


def test_the_package_says_that_it_has_hints():
    assert (pathlib.Path(keras_posenc.__file__).parent / "py.typed").exists()


def test_the_check_of_defaults_can_fail():
    assert not takes(int | None, "a") and not takes(float, None)
    assert takes(float, 1) and takes(str | keras.initializers.Initializer, "zeros")
