"""Modules whose public names are imported when they are first used, and Keras itself."""

import ast
import difflib
import functools
import importlib
import importlib.util
import os
import pathlib
import sys
import types

PACKAGE = pathlib.Path(__file__).parents[1]
# What others call a thing, folded -> its name here.
HERE = {
    "automodel": "build_transformer_model",
    "autotokenizer": "Tokenizer",
    "bertmodel": "build_transformer_model",
    "cope": "ContextualPositionEmbedding",
    "cosentloss": "CoSENT",
    "cosineloss": "CosineRegression",
    "crf": "ConditionalRandomField",
    "crfloss": "ConditionalRandomFieldLoss",
    "crossencoder": "Reranker",
    "infonce": "MultipleNegativesRanking",
    "matryoshkaloss": "Matryoshka",
    "mrr": "MTEBEncoder",
    "multiheadattention": "PositionalAttention",
    "multiplenegativesrankingloss": "MultipleNegativesRanking",
    "ndcg": "MTEBEncoder",
    "positionembedding": "LearnedPositionEmbedding",
    "rmsnorm": "RMSNormalization",
    "rope": "RotaryEmbedding",
    "rotarypositionembedding": "RotaryEmbedding",
    "sentencetransformer": "open_embedder",
    "sineembedding": "SinusoidalPositionEmbedding",
    "sineposition": "SinusoidalPositionEmbedding",
    "sinepositionencoding": "SinusoidalPositionEmbedding",
    "sparseencoder": "SparseEmbedder",
    "trainer": "finetune",
}


class LazyModule(types.ModuleType):
    """A module that imports a public name when it is first used.

    What type checkers read under `if TYPE_CHECKING:` is the list: `from PLACE import NAME` states
    where a name is. `dir()` has the names of `__all__` only.
    """

    def __getattr__(self, name):
        place = self._places.get(name)
        if place is None:
            message = f"module {self.__name__!r} has no attribute {name!r}{_hint(name)}"
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


def _folded(name):
    return name.replace("_", "").casefold()


@functools.cache
def _public_names():
    """{folded name: dotted names}: what all modules list in `__all__`."""
    found = {}
    files = [PACKAGE / "__init__.py", PACKAGE / "heads.py", *sorted(PACKAGE.glob("*/__init__.py"))]
    for path in files:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for name in ast.literal_eval(node.value):
                    found.setdefault(_folded(name), []).append(f"{module}.{name}")
    return found


def _hint(name):
    """Where a public name is that someone looks for elsewhere, or spells otherwise."""
    if name.startswith("_"):
        return ""
    known = _public_names()
    folded = _folded(HERE.get(_folded(name), name))
    near = [folded] if folded in known else difflib.get_close_matches(folded, known, 1, 0.8)
    if not near:
        return ""
    spelled_alike = [place for place in known[near[0]] if place.endswith(f".{name}")]
    return f". Did you mean {(spelled_alike or known[near[0]])[0]}?"


BACKENDS = ("tensorflow", "jax", "torch")


def import_keras():
    """Imports Keras; the ImportError names the missing backend and the installed ones."""
    wanted = os.environ.get("KERAS_BACKEND", "")
    if wanted and wanted not in BACKENDS and "keras" not in sys.modules:
        raise ImportError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: {wanted!r}. Installed: "
            f"{', '.join(_installed()) or 'none of them'}."
        )
    try:
        import keras  # noqa: F401
    except ModuleNotFoundError as error:
        backend = str(error.name).partition(".")[0]
        if backend not in BACKENDS:
            raise
        installed = _installed()
        choice = f"Set KERAS_BACKEND to {' or '.join(installed)}; or: " if installed else ""
        raise ImportError(
            f"Keras is to run on {backend}, which is not installed. {choice}pip install {backend}"
        ) from None


def _installed():
    return [name for name in BACKENDS if importlib.util.find_spec(name)]
