"""The house rules no single file shows: import order, lazy imports, sizes, names."""

import ast
import configparser
import pathlib
import re
import subprocess

import pytest

import keras_posenc

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "keras_posenc"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Low to high. A room imports itself and lower rooms; two rooms on one floor do not see each other.
FLOORS = [
    ("device",),
    ("grid", "one_pass", "quantized"),
    ("positions",),
    ("encodings",),
    ("layers",),
    ("checkpoints",),
    ("models",),
    ("text",),
    ("tasks",),
    ("training", "analysis"),
    ("bench",),
    ("__init__",),
    ("cli",),
    ("__main__",),
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

# Where a function may import what the package does not depend on; at module level nothing may.
QUIRKS = (
    "device.py",
    "one_pass.py",
    "positions/guard.py",
    "encodings/counting.py",
    "encodings/lookup.py",
    "layers/attend/",
    "training/adamw.py",
)
LAZY = {
    "tensorflow": (*QUIRKS, "checkpoints/export.py"),
    "torch": QUIRKS,
    "jax": QUIRKS,
    "safetensors": (),
    "tokenizers": ("text/",),
    "matplotlib": ("analysis/plot.py",),
    "transformers": (),
}
BY_NAME = ("importlib.import_module", "import_module", "__import__")
FAMILIES = "bert|roberta|albert|electra|nezha|roformer|deberta|gau_alpha|gpt|t5|llama|xlm|camembert"
MACHINE_PATH = rb"(?:^|[^A-Za-z0-9_.])/(?:work|farm|root|home|opt/pypi|tmp/bash_jobs)/"


def relative(path):
    return path.relative_to(PACKAGE).as_posix()


def absolute_name(node, where):
    """Returns the dotted module an `import from` names, with leading dots resolved."""
    if not node.level:
        return node.module
    package = ("keras_posenc", *pathlib.PurePosixPath(where).parent.parts)
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def imported(node, where):
    """Returns the dotted names that one node imports; `from a import b` gives a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{absolute_name(node, where)}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        ("import_module", "__import__")
    ):
        return [a.value for a in node.args if isinstance(a, ast.Constant)]
    return []


def imports(source, where):
    """Yields (dotted name, whether it runs when the module is imported) for every import."""

    def visit(node, at_import):
        for name in imported(node, where):
            yield name, at_import
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_import and not inside)

    yield from visit(ast.parse(source), True)


def room_of(where):
    return where.split("/")[0].removesuffix(".py")


def upward_imports(source, where):
    """Returns the imports of `where` that break the order of the floors."""
    room = room_of(where)
    wrong = []
    for name, _ in imports(source, where):
        top, _, rest = name.partition(".")
        if top != "keras_posenc":
            continue
        other = rest.split(".")[0]
        other = other if other in FLOOR else "__init__"
        if other != room and FLOOR[other] >= FLOOR[room]:
            wrong.append(name)
    return wrong


def eager_or_misplaced_imports(source, where):
    """Returns imports of optional packages at module level or in a file not meant for them."""
    return [
        name
        for name, at_import in imports(source, where)
        if (top := name.split(".")[0]) in LAZY and (at_import or not where.startswith(LAZY[top]))
    ]


def code_of(source):
    """Returns the source without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def encoding_names():
    """Returns the names of the classes in encodings/, but for the protocol itself."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (PACKAGE / "encodings").glob("*.py")]
    classes = [n.name for tree in trees for n in tree.body if isinstance(n, ast.ClassDef)]
    return sorted(set(classes) - {"Encoding"})


def repository_files():
    """Returns what git tracks, or every file outside hidden folders where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    return [path for path in files if not path.relative_to(ROOT).parts[0].startswith(".")]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_go_down(path):
    assert relative(path).split("/")[0].removesuffix(".py") in FLOOR
    assert upward_imports(path.read_text("utf-8"), relative(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_optional_packages_are_imported_lazily_and_in_their_place(path):
    assert eager_or_misplaced_imports(path.read_text("utf-8"), relative(path)) == []


@pytest.mark.parametrize(
    ("source", "where", "found"),
    [
        ("from keras_posenc.models import bert", "layers/attention.py", True),
        ("from ..models.factory import build", "layers/attention.py", True),
        ("def f():\n    from keras_posenc import cli", "training/finetune.py", True),
        ("import keras_posenc", "text/files.py", True),
        ("from keras_posenc.analysis import plot", "training/finetune.py", True),
        ("from ..grid import Grid\nfrom .attend import attend", "layers/attention.py", False),
        ("from . import attend", "layers/attention.py", False),
        ("import keras_posenc\nfrom keras_posenc.training import finetune", "cli.py", False),
    ],
)
def test_the_check_of_the_import_order_can_fail(source, where, found):
    assert bool(upward_imports(source, where)) is found


@pytest.mark.parametrize(
    ("source", "where", "found"),
    [
        ("import torch", "checkpoints/reader.py", True),
        (
            "try:\n    import jax.numpy as jnp\nexcept ImportError:\n    pass",
            "positions/guard.py",
            True,
        ),
        ("class A:\n    import tokenizers", "text/tokenizer.py", True),
        ("def f():\n    import matplotlib.pyplot", "analysis/report.py", True),
        ("def f():\n    importlib.import_module('transformers')", "text/tokenizer.py", True),
        ("def f():\n    import tensorflow as tf", "checkpoints/export.py", False),
        ("def f():\n    from matplotlib import figure", "analysis/plot.py", False),
        ("import numpy as np\nimport keras", "grid.py", False),
    ],
)
def test_the_check_of_lazy_imports_can_fail(source, where, found):
    assert bool(eager_or_misplaced_imports(source, where)) is found


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_module_outgrows_one_idea(path):
    assert len(path.read_text("utf-8").splitlines()) <= 500


def test_every_folder_is_a_package():
    """Without `__init__.py` a folder works in a checkout and is missing in an installation."""
    assert [p for p in {path.parent for path in MODULES} if not (p / "__init__.py").exists()] == []


def test_no_test_or_benchmark_outgrows_one_idea():
    paths = [p for folder in ("tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    assert [p.name for p in paths if len(p.read_text("utf-8").splitlines()) > 500] == []


def test_the_transformer_names_no_family():
    code = code_of((PACKAGE / "models" / "transformer.py").read_text("utf-8"))
    assert re.findall(FAMILIES, code, re.IGNORECASE) == []


def test_attention_names_no_encoding():
    names = encoding_names()
    assert "HierarchicalPositionEmbedding" in names
    code = code_of((PACKAGE / "layers" / "attention.py").read_text("utf-8"))
    assert re.findall("|".join(names), code) == []


def test_no_tracked_file_holds_a_path_of_a_machine():
    assert re.search(MACHINE_PATH, b"read from /ro" + b"ot/data")
    files = repository_files()
    assert ROOT / "setup.cfg" in files
    found = [path for path in files if re.search(MACHINE_PATH, path.read_bytes())]
    assert [str(path.relative_to(ROOT)) for path in found] == []


def test_one_version_everywhere():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE).group(1)
    assert setup["metadata"]["version"] == keras_posenc.__version__ == newest


def test_the_oldest_keras_tested_is_the_oldest_declared():
    declared = re.search(r"keras>=([\d.]+)", (ROOT / "setup.cfg").read_text("utf-8")).group(1)
    tested = re.search(r"OLDEST_KERAS := ([\d.]+)", (ROOT / "Makefile").read_text("utf-8")).group(1)
    assert tested.startswith(declared + ".") or tested == declared
