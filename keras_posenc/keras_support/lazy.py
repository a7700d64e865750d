"""Modules whose public names are imported when they are first used."""

import ast
import functools
import importlib
import sys
import types


class LazyModule(types.ModuleType):
    """A module that imports a public name when it is first used.

    What type checkers read under `if TYPE_CHECKING:` is the list: `from PLACE import NAME` states
    where a name is. `dir()` has the names of `__all__` only.
    """

    def __getattr__(self, name):
        place = self._places.get(name)
        if place is None:
            message = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)
        if place == self.__name__:
            return importlib.import_module(f"{place}.{name}")
        value = getattr(importlib.import_module(place), name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name, value):
        # Python binds a submodule to its name here: `embed.py` must not hide the function `embed`.
        is_submodule = isinstance(value, types.ModuleType)
        if not (is_submodule and self._places.get(name, self.__name__) != self.__name__):
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted(self.__all__)

    @functools.cached_property
    def _places(self):
        """{name: module that has it}."""
        tree = ast.parse(self.__spec__.loader.get_source(self.__name__))
        blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
        return {
            alias.name: node.module
            for block in blocks
            for node in block
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }


def names_on_request(module):
    """Turns a module into a `LazyModule`; the last line of the module calls it with its name."""
    sys.modules[module].__class__ = LazyModule
