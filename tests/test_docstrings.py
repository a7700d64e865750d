"""Every public name says what it is for, what it takes, gives and refuses, and shows it."""

import ast
import builtins
import dataclasses
import doctest
import functools
import importlib
import inspect
import pathlib
import re
import shutil
import textwrap
from unittest import mock

import keras
import numpy as np
import pytest

import keras_posenc
from keras_posenc import (
    analysis,
    checkpoints,
    encodings,
    heads,
    losses,
    metrics,
    retrieval,
    tasks,
    text,
    training,
)
from keras_posenc.encodings import ENCODINGS
from keras_posenc.encodings.base import HOOKS, Encoding
from keras_posenc.models.families import FAMILIES

pytestmark = pytest.mark.once

ROOMS = (analysis, checkpoints, encodings, heads, losses, metrics, retrieval, text, training)
ROOM = pathlib.Path(keras_posenc.__file__).parent
# A caller mends these; `Raises` has what a caller catches.
EXPLAINED_BY_ITS_MESSAGE = {"ValueError", "TypeError", "NotImplementedError"}

SECTION = re.compile(
    r"^(Args|Attributes|Call arguments|Returns|Raises|Example|Reference|Yields)s?:", re.MULTILINE
)
SHAPE = re.compile(r"\((B( or 1)?|2M),\s|\(H,\)")


def is_ours(thing):
    return getattr(thing, "__module__", "").startswith("keras_posenc")


def public():
    """{dotted name: class or function}: all that users are told to call."""
    rooms = (keras_posenc, *ROOMS, tasks)
    named = {
        f"{room.__name__}.{name}": getattr(room, name) for room in rooms for name in room.__all__
    }
    return {
        name: thing
        for name, thing in {**{id(t): (n, t) for n, t in reversed(named.items())}}.values()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and is_ours(thing)
    }


def methods(cls):
    """{name: function}: what a class of ours adds to its bases elsewhere, without an underscore."""
    elsewhere = {name for base in cls.__mro__ if not is_ours(base) for name in dir(base)}
    found = {}
    for base in reversed([base for base in cls.__mro__ if is_ours(base)]):
        for name, value in vars(base).items():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not inspect.isfunction(function) or name[0] == "_" or name in elsewhere:
                continue
            # What is said of the base's method holds, unless it is a hook: each has its formula.
            if name in HOOKS or name not in found or function.__doc__:
                found[name] = function
    return found


def sections(thing):
    """{title: text} of a docstring, "" being what stands before all titles."""
    parts = SECTION.split(inspect.getdoc(thing) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section):
    """The names that a section explains: `q, k: (B, T, H, D)` explains two."""
    lines = re.findall(r"^    (\S[^:\n]*):", section, re.MULTILINE)
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


def parameters(thing):
    """The names in a signature, and whether it takes keywords of any name."""
    function = thing
    if inspect.isclass(thing):
        function = thing.__init__
        if not is_ours(function):
            return set(), True  # those of Keras
        if function is Encoding.__init__ and thing is not Encoding:
            return set(), True  # `shared` would be refused
    taken = [
        p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")
    ]
    names = {p.name for p in taken if p.kind is not p.VAR_KEYWORD}
    return names, any(p.kind is p.VAR_KEYWORD for p in taken)


@functools.cache
def tree_of(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def raised(function):
    """The names of the exceptions that a function raises, or a helper of ours that it calls."""
    found, helpers = set(), {function}
    while left := {each for each in helpers if each not in found}:
        found |= left
        helpers |= set().union(*(raises_and_helpers(each)[1] for each in left))
    names = set().union(*(raises_and_helpers(each)[0] for each in found))
    return {name for name in names if hasattr(builtins, name)} - EXPLAINED_BY_ITS_MESSAGE


@functools.cache
def raises_and_helpers(function):
    """The names of what a function raises itself, and the functions that it calls."""
    names, helpers = set(), set()
    if not is_ours(function) or not has_source(function):
        return names, helpers
    for node in ast.walk(tree_of(function)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            names.add(ast.unparse(node.exc.func))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = inspect.unwrap(function).__globals__.get(node.func.id)
            if inspect.isfunction(helper):
                helpers.add(helper)
    return names, helpers


def has_source(function):
    """A dataclass writes methods of its own, in no file."""
    return pathlib.Path(inspect.unwrap(function).__code__.co_filename).exists()


def refusals(cls):
    """What a class raises where it is made, built and called."""
    functions = [vars(cls).get(name) for name in ("__init__", "__post_init__", "build", "call")]
    return set().union(*[raised(function) for function in functions if function])


def gives_something(function):
    tree = tree_of(function)
    inner = {
        id(node)
        for child in ast.walk(tree.body[0])
        if isinstance(child, ast.FunctionDef | ast.Lambda) and child is not tree.body[0]
        for node in ast.walk(child)
    }
    return any(
        isinstance(node, ast.Return) and node.value is not None and id(node) not in inner
        for node in ast.walk(tree)
    )


def purpose(thing):
    """What is wrong with the first paragraph."""
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    if not first:
        return ["no docstring"]
    wrong = []
    if "\n" in first:
        wrong.append("the first sentence takes more than a line")
    if not first.endswith((".", ":", "?")):
        wrong.append("the first line is no sentence")
    return wrong


def flaws(thing):
    """What the docstring of a public class or function lacks."""
    wrong, parts = purpose(thing), sections(thing)
    documented = entries(parts.get("Args", ""))
    if dataclasses.is_dataclass(thing) or (inspect.isclass(thing) and issubclass(thing, tuple)):
        # A record's fields are its arguments; what it computes of them is not.
        computed = (property, functools.cached_property)
        documented |= {
            name
            for name in entries(parts.get("Attributes", ""))
            if not isinstance(inspect.getattr_static(thing, name, None), computed)
        }
    names, more = parameters(thing)
    if missing := names - documented:
        wrong.append(f"Args lacks {sorted(missing)}")
    if (unknown := documented - names - {"kwargs"}) and not more:
        wrong.append(f"Args has {sorted(unknown)}, which the signature lacks")
    errors = refusals(thing) if inspect.isclass(thing) else raised(thing)
    if lost := {error for error in errors if error not in parts.get("Raises", "")}:
        wrong.append(f"Raises lacks {sorted(lost)}")
    if ">>>" not in parts.get("Example", ""):
        wrong.append("no Example")
    if inspect.isclass(thing) and issubclass(thing, keras.layers.Layer):
        if not SHAPE.search(inspect.getdoc(thing)):
            wrong.append("no shape")
    if inspect.isfunction(thing) and gives_something(thing) and "Returns" not in parts:
        if not (inspect.getdoc(thing) or "").startswith("Returns"):
            wrong.append("no Returns")
    return wrong


def flaws_of_method(function, is_hook):
    """What the docstring of a public method lacks; a hook says its formula or its shapes."""
    if is_hook and not function.__doc__:
        return ["a hook without a docstring of its own"]
    wrong, parts = purpose(function), sections(function)
    names, more = parameters(function)
    if "Args" in parts and (missing := names - entries(parts["Args"])):
        wrong.append(f"Args lacks {sorted(missing)}")
    if "Args" in parts and (unknown := entries(parts["Args"]) - names) and not more:
        wrong.append(f"Args has {sorted(unknown)}, which the signature lacks")
    if is_hook and not SHAPE.search(function.__doc__):
        wrong.append("a hook without a shape")
    return wrong


PUBLIC = public()
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
# Dotted names of the files that have examples.
MODULES = [
    f"keras_posenc.{'.'.join(path.relative_to(ROOM).with_suffix('').parts)}"
    for path in sorted(ROOM.rglob("*.py"))
    if ">>>" in path.read_text("utf-8")
]


def test_public_names_are_explained():
    found = {name: flaws(thing) for name, thing in PUBLIC.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_public_methods_are_explained():
    found = {}
    for name, cls in CLASSES.items():
        for method, function in methods(cls).items():
            is_hook = method in HOOKS and issubclass(cls, Encoding)
            found[f"{name}.{method}"] = flaws_of_method(function, is_hook)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_encodings_name_their_paper():
    found = [
        name
        for name, cls in ENCODINGS.items()
        if not (cls.paper and cls.paper in sections(cls).get("Reference", ""))
    ]
    assert found == []


@functools.cache
def knowing_names(pretrained):
    """A copy of a model whose tokenizer knows the names of the examples: unknown ones are one."""
    folder = shutil.copytree(pretrained, pretrained.parent / "knowing_names")
    vocabulary = (folder / "vocab.txt").read_text("utf-8").split()
    vocabulary[-3:] = ["ada", "otto", "nora"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    return folder


# What the examples read -> its path: pretrained models, data, a finished fine-tuning.
FILES = {
    "all-MiniLM-L6-v2": lambda request: request.getfixturevalue("minilm"),
    "bert": lambda request: knowing_names(request.getfixturevalue("pretrained")),
    "colbert": lambda request: request.getfixturevalue("colberts") / "pylate",
    "splade": lambda request: request.getfixturevalue("splade"),
    "out": lambda request: request.getfixturevalue("finetuned"),
    "train.tsv": lambda request: request.getfixturevalue("corpus") / "train.tsv",
    "test.tsv": lambda request: request.getfixturevalue("corpus") / "test.tsv",
}


class Checker(doctest.OutputChecker):
    """torch writes a shape in its own way."""

    def check_output(self, want, got, optionflags):
        got = re.sub(r"torch\.Size\(\[(.*?)\]\)", r"(\1)", got)
        return super().check_output(want, got, optionflags)


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_happens(name, tmp_path, monkeypatch, request):
    """With NumPy, Keras and the public names imported, in a folder with the `FILES`."""
    monkeypatch.chdir(tmp_path)
    at_hand = {"keras": keras, "ops": keras.ops, "np": np}
    for room in (keras_posenc, *ROOMS):
        at_hand |= {each: getattr(room, each) for each in room.__all__}
    module = importlib.import_module(name.removesuffix(".__init__"))
    examples = doctest.DocTestFinder().find(module, globs=at_hand | vars(module))
    code = "".join(example.source for test in examples for example in test.examples)
    for file, path in FILES.items():
        if re.search(rf'"{file}["/]', code):
            (tmp_path / file).symlink_to(path(request))
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS)
    with mock.patch.dict(FAMILIES):  # an example registers one
        for test in examples:
            runner.run(test)
    assert runner.failures == 0


def turn(pages, *, x=None):
    """Turns pages.

    Args:
        pages: int. How many.
        x: (B, T). Unused.

    Returns:
        int.

    Raises:
        FileNotFoundError: if there are none.

    Example:

    >>> turn(3)
    3
    """
    if not pages:
        raise FileNotFoundError("no pages")
    return pages


def test_a_full_docstring_has_no_flaws(monkeypatch):
    monkeypatch.setitem(globals(), "is_ours", lambda thing: True)
    assert flaws(turn) == flaws_of_method(turn, is_hook=True) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Turns pages.", "Turns pages", "the first line is no sentence"),
        ("Turns pages.", "Turns\n    pages.", "the first sentence takes more than a line"),
        ("pages: int", "page: int", "Args has ['page'], which the signature lacks"),
        ("        x: (B, T). Unused.\n", "", "Args lacks ['x']"),
        ("Returns:", "Gives:", "no Returns"),
        ("FileNotFoundError: if", "OSError: if", "Raises lacks ['FileNotFoundError']"),
        (">>> turn(3)", "turn(3)", "no Example"),
    ],
)
def test_the_check_of_docstrings_can_fail(old, new, words, monkeypatch):
    monkeypatch.setitem(globals(), "is_ours", lambda thing: True)
    assert turn.__doc__.count(old) == 1
    monkeypatch.setattr(turn, "__doc__", turn.__doc__.replace(old, new))
    assert words in flaws(turn)


def test_the_check_of_hooks_can_fail(monkeypatch):
    monkeypatch.setattr(turn, "__doc__", "Turns pages.")
    assert flaws_of_method(turn, is_hook=True) == ["a hook without a shape"]
    monkeypatch.setattr(turn, "__doc__", None)
    assert flaws_of_method(turn, is_hook=True) == ["a hook without a docstring of its own"]
