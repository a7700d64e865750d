"""Keywords of a function with defaults and descriptions, read from its source.

Nothing is imported, since Keras takes seconds and `--help` must not.
"""

import ast
import functools
import pathlib
import re
import typing

PACKAGE = pathlib.Path(__file__).parents[1]
REQUIRED = object()
# A default that is no literal, such as the name of a constant.
COMPUTED = object()
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^    ([*\w]+(?:, [*\w]+)*): ", re.MULTILINE)


class Keyword(typing.NamedTuple):
    """A keyword of a function: its default, and its entry in `Args:` as one line."""

    default: object
    text: str


class Described(typing.NamedTuple):
    """A function as its source describes it: the first line of its docstring, and its keywords."""

    summary: str
    keywords: dict


def describe(name):
    """Reads a function or a dataclass by its public name, such as "training.finetune", as
    `Described`, with the keywords in the order of the signature."""
    module, _, name = f"{PACKAGE.name}.{name}".rpartition(".")
    node = _definition(module, name)
    docstring = ast.get_docstring(node)
    texts = _entries(docstring)
    keywords = {
        name: Keyword(default, texts.get(name, "")) for name, default in _defaults(node).items()
    }
    return Described(docstring.partition("\n")[0].rstrip("."), keywords)


def constant(name, module=PACKAGE.name):
    """The literal value of a name of the package itself, such as its version, or of a module."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{module} has no {name}.")


def _definition(module, name):
    """The syntax tree of a function or class, from any module that it is imported from."""
    body = _tree(module).body
    # Names that a module imports when they are first used are under `if TYPE_CHECKING:`.
    on_request = [node for each in body if isinstance(each, ast.If) for node in each.body]
    for node in (*body, *on_request):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(node.module, alias.name)
    raise LookupError(f"{module} has no {name}.")


@functools.cache
def _tree(module):
    path = PACKAGE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text("utf-8"))


def _defaults(node):
    """{name: default} of a signature, of that of a class, or of the fields of a dataclass."""
    inits = [each for each in node.body if getattr(each, "name", None) == "__init__"]
    if isinstance(node, ast.ClassDef) and inits:
        (node,) = inits
    if isinstance(node, ast.ClassDef):
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        pairs = [(field.target.id, field.value) for field in fields]
    else:
        named = node.args
        missing = len(named.args) - len(named.defaults)
        defaults = [*[None] * missing, *named.defaults, *named.kw_defaults]
        names = [each.arg for each in (*named.args, *named.kwonlyargs)]
        pairs = [pair for pair in zip(names, defaults, strict=True) if pair[0] != "self"]
    return {name: REQUIRED if value is None else _literal(value) for name, value in pairs}


def _literal(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return COMPUTED


def _entries(docstring):
    """{name: text} of the section that explains the arguments."""
    section = SECTION.search(docstring)
    _, *parts = ENTRY.split(section[1] if section else "")
    return {
        name: " ".join(text.split())
        for names, text in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(", ")
    }
