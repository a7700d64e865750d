"""The house rules no single file shows: import order, lazy imports, sizes, names."""

import ast
import configparser
import functools
import graphlib
import pathlib
import re
import subprocess

import pytest

import keras_posenc

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "keras_posenc"
# Where a module stands in the package -> its text.
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}

parsed = functools.cache(ast.parse)  # several checks read each tree
# Low to high. A room imports itself and lower rooms; two rooms on one floor do not see each other.
FLOORS = [
    ("backend", "arguments", "files"),
    ("keras_support", "folders", "maps"),
    ("positions",),
    ("encodings",),
    ("attention",),
    ("layers",),
    ("checkpoints",),
    ("models", "losses"),
    ("metrics", "processes"),
    ("text",),
    ("tasks",),
    ("training",),
    ("analysis",),
    ("retrieval",),
    ("adapters",),
    ("heads", "registered"),
    ("__init__",),
    ("cli",),
    ("__main__",),
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

# Where a function may import what the package does not depend on; at module level nothing may.
# What a backend does by itself is a function in backend/; export writes TensorFlow's own files.
LAZY = {
    "bm25s": ("retrieval/words/index.py",),
    "docutils": ("text/structure.py",),
    "markdown_it": ("text/structure.py",),
    "tensorflow": ("backend/", "checkpoints/export.py"),
    "torch": ("backend/",),
    "jax": ("backend/",),
    "safetensors": (),
    "tokenizers": ("text/",),
    "rjieba": ("text/words.py",),
    "keras_hub": ("adapters/keras_hub.py", "checkpoints/keras_hub/writing.py"),
    "huggingface_hub": ("folders/download.py",),
    "matplotlib": ("analysis/plot.py",),
    "pyarrow": ("adapters/ray.py", "retrieval/vector_files.py", "text/parquet.py"),
    "transformers": (),
}
# Who else may ask which backend runs: to write its name into a report, or to start a process.
MAY_ASK_THE_BACKEND = (
    "backend/",
    "processes/devices.py",
    "training/runs.py",
)
# Public, in spite of the underscore: they are methods of named tuples.
OF_NAMED_TUPLES = {"_asdict", "_replace"}
FAMILIES = "bert|roberta|albert|electra|nezha|roformer|deberta|gau_alpha|gpt|t5|llama|xlm|camembert"
MACHINE_PATH = rb"(?:^|[^A-Za-z0-9_.])/(?:work|farm|root|home|opt/pypi|tmp/bash_jobs)/"


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


def for_type_checkers(node):
    """Whether a node is the `if TYPE_CHECKING:` that lists the public names of a `LazyModule`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def names_on_request():
    """{public name: dotted name of the thing}, of all modules that import their names later."""
    return {
        f"{module_name(where)}.{alias.name}": f"{node.module}.{alias.name}"
        for where, source in SOURCES.items()
        for block in filter(for_type_checkers, parsed(source).body)
        for node in block.body
        for alias in node.names
    }


def imports(source, where):
    """Yields (dotted name, whether it runs when the module is imported) for every import; for a
    name that a module imports on request, the name in the module that it is imported from."""

    def visit(node, at_import):
        for name in imported(node, where):
            yield ON_REQUEST.get(name, name), at_import
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            if not for_type_checkers(child):
                yield from visit(child, at_import and not inside)

    yield from visit(parsed(source), True)


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
        if (top := name.split(".")[0]) in LAZY
        # Keras has imported its backend before a module of backend/ is; an adapter is imported by
        # those who have its package.
        and not where.startswith(
            () if at_import and not where.startswith(("backend/", "adapters/")) else LAZY[top]
        )
    ]


def misplaced_questions(source, where):
    """Returns the lines that ask Keras which backend runs, in a file that is not to know."""
    if where.startswith(MAY_ASK_THE_BACKEND):
        return []
    return [
        f"line {node.lineno}"
        for node in ast.walk(parsed(source))
        if (isinstance(node, ast.Attribute) and ast.unparse(node).endswith("backend.backend"))
        or (isinstance(node, ast.ImportFrom) and node.module in ("keras.backend", "keras.config"))
        and any(alias.name == "backend" for alias in node.names)
    ]


def private_names(source):
    """Yields (private name, whether the source defines it), also of what `getattr` reads."""
    for node in ast.walk(parsed(source)):
        name = defined = None
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            name, defined = node.attr, own and isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, defined = node.name, True
        elif isinstance(node, ast.AnnAssign):  # a field of a dataclass
            name, defined = getattr(node.target, "id", None), True
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            name = getattr(node.args[1], "value", None)
        if isinstance(name, str) and name.startswith("_") and not name.startswith("__"):
            yield name, defined


@functools.cache
def our_private_names():
    """Returns what the package defines; classes of backend/ override trainers of Keras."""
    files = [source for where, source in SOURCES.items() if not where.startswith("backend/")]
    return {name for source in files for name, defined in private_names(source) if defined}


def foreign_private_names(source, where):
    """Returns the private names of others, such as Keras, in a file outside backend/."""
    if where.startswith("backend/"):
        return []
    known = our_private_names() | OF_NAMED_TUPLES
    found = [name for name, _ in private_names(source) if name not in known]
    return found + [name for name, _ in imports(source, where) if name.startswith("keras.src")]


def module_name(where):
    return ".".join(["keras_posenc", *where.removesuffix(".py").split("/")]).removesuffix(
        ".__init__"
    )


ON_REQUEST = names_on_request()


def circle(sources):
    """Returns modules that import each other in a circle, wherever in them the imports stand."""
    names = {module_name(where): where for where in sources}
    graph = {
        name: {
            found
            for wanted, _ in imports(sources[where], where)
            # `from a import b` means the module a.b if there is one, else a.
            if (found := wanted if wanted in names else wanted.rpartition(".")[0]) in names
        }
        - {name}
        for name, where in names.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def offenders(check):
    """Returns "file: what" for all that `check(source, where)` finds in the modules."""
    return [
        f"{where}: {found}" for where, source in SOURCES.items() for found in check(source, where)
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
    rooms = (PACKAGE / "encodings", PACKAGE / "positions")
    trees = [ast.parse(path.read_text("utf-8")) for room in rooms for path in room.glob("*.py")]
    classes = [n.name for tree in trees for n in tree.body if isinstance(n, ast.ClassDef)]
    return sorted(set(classes) - {"Encoding"})


def repository_files():
    """Returns what git tracks, or every file outside hidden folders where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    return [path for path in files if not path.relative_to(ROOT).parts[0].startswith(".")]


def test_imports_go_down():
    assert {room_of(where) for where in SOURCES} == set(FLOOR)
    assert offenders(upward_imports) == []


def test_no_modules_import_each_other():
    assert circle(SOURCES) == []


KINDS = ("dense", "late_interaction", "sparse", "cross_encoder")
# Which know several kinds: what opens a directory, and what reads their vectors.
KNOW_THE_KINDS = ("embedders", "vectors", "vector_files", "hard_negatives", "__init__")


def imports_of_other_kinds(source, where):
    """Returns the imports of kinds of retrieval that a file of retrieval/ is not to have."""
    room, _, inside = where.partition("/")
    kind = inside.partition("/")[0].removesuffix(".py")
    if room != "retrieval" or kind in KNOW_THE_KINDS:
        return []
    others = tuple(f"keras_posenc.retrieval.{name}." for name in KINDS if name != kind)
    return [name for name, _ in imports(source, where) if name.startswith(others)]


def test_a_kind_of_retrieval_is_a_folder_that_can_be_deleted():
    """No kind knows another, and few files know the kinds."""
    vectors = "from keras_posenc.retrieval.sparse.vectors import SparseVectors"
    assert len(imports_of_other_kinds(vectors, "retrieval/dense/embedder.py")) == 1
    assert imports_of_other_kinds(vectors, "retrieval/sparse/embedder.py") == []
    assert offenders(imports_of_other_kinds) == []


def test_optional_packages_are_imported_lazily_and_in_their_place():
    assert offenders(eager_or_misplaced_imports) == []


def test_only_the_backends_room_asks_which_backend_runs():
    assert offenders(misplaced_questions) == []


def test_private_names_of_keras_stand_in_the_backends_room():
    assert offenders(foreign_private_names) == []


# Check -> (source, where it stands, whether the check finds something).
CASES = {
    foreign_private_names: [
        ("layers = model._flatten_layers()", "text/shapes.py", True),
        ("self._run_through_graph(x)", "models/model.py", True),
        ("y._keras_mask = mask", "models/direct.py", True),
        ("hasattr(metric, '_direction')", "training/finetuning/trainer.py", True),
        ("def f():\n    from keras.src.backend import KerasTensor", "maps/sums.py", True),
        ("layers = model._flatten_layers()", "backend/keras_names.py", False),
        ("def _run(self):\n    self._transformer = x.__dict__", "models/model.py", False),
        ("row._replace(text='')._asdict()", "text/documents.py", False),
    ],
    upward_imports: [
        ("from keras_posenc.models import bert", "attention/layer.py", True),
        ("from ..models.factory import build", "attention/layer.py", True),
        ("def f():\n    from keras_posenc import cli", "training/finetune.py", True),
        ("import keras_posenc", "text/files.py", True),
        ("from keras_posenc.analysis import plot", "training/finetune.py", True),
        ("from keras_posenc.layers import SpanLogits", "layers/norm.py", True),
        ("from keras_posenc.layers import RMSNormalization", "layers/block.py", False),
        ("from ..maps.grid import Grid\nfrom .choose import attend", "attention/layer.py", False),
        ("from . import choose", "attention/layer.py", False),
        ("import keras_posenc\nfrom keras_posenc.training import finetune", "cli.py", False),
    ],
    eager_or_misplaced_imports: [
        ("import torch", "checkpoints/reader.py", True),
        (
            "try:\n    import jax.numpy as jnp\nexcept ImportError:\n    pass",
            "attention/fused.py",
            True,
        ),
        ("class A:\n    import tokenizers", "text/tokenizer.py", True),
        ("def f():\n    import matplotlib.pyplot", "analysis/report.py", True),
        ("def f():\n    importlib.import_module('transformers')", "text/tokenizer.py", True),
        ("def f():\n    import torch", "checkpoints/export.py", True),
        ("def f():\n    from jax import lax", "maps/sums.py", True),
        ("def f():\n    import tensorflow as tf", "checkpoints/export.py", False),
        ("def f():\n    import torch", "backend/torch.py", False),
        ("def f():\n    from matplotlib import figure", "analysis/plot.py", False),
        ("import numpy as np\nimport keras", "maps/grid.py", False),
    ],
    misplaced_questions: [
        ("if keras.backend.backend() == 'jax':\n    pass", "maps/sums.py", True),
        ("which = keras.backend.backend", "maps/sums.py", True),
        ("from keras.backend import backend", "maps/sums.py", True),
        ("from keras.config import backend", "maps/sums.py", True),
        ("from keras_posenc import backend\nbackend.one_pass()", "maps/sums.py", False),
        ("keras.backend.standardize_dtype('int32')", "maps/sums.py", False),
        ("keras.backend.backend()", "backend/__init__.py", False),
    ],
}


@pytest.mark.parametrize(
    ("check", "source", "where", "found"),
    [(check, *case) for check, cases in CASES.items() for case in cases],
)
def test_the_checks_can_fail(check, source, where, found):
    assert bool(check(source, where)) is found


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("from keras_posenc.maps import sums", "from keras_posenc.maps.grid import Grid", True),
        ("from . import sums", "def f():\n    from .grid import Grid", True),
        ("from keras_posenc.maps.sums import total", "import keras_posenc", False),
    ],
)
def test_the_check_of_circles_can_fail(one, other, found):
    sources = {"maps/__init__.py": "", "maps/grid.py": one, "maps/sums.py": other}
    assert bool(circle(sources)) is found


def test_only_the_command_line_asks_how_the_process_was_started():
    """Importing the package gives the same in every process."""
    asking = {name for name, text in SOURCES.items() if re.search(r"\b(orig_)?argv\b", text)}
    assert {name.partition("/")[0] for name in asking} == {"cli"}


# Lines and files of the package. Who raises it names in the commit what a new part replaces, or why
# users need it; who deletes lowers it.
BUDGET, FILES = 60_677, 411


def test_the_package_stays_within_its_budget():
    lines = sum(len(text.splitlines()) for text in SOURCES.values())
    assert lines <= BUDGET, f"{lines - BUDGET} lines more than BUDGET: say what they replace"
    assert len(SOURCES) <= FILES, f"{len(SOURCES) - FILES} files more than FILES"


def test_no_module_outgrows_one_idea():
    """At 500 lines a file is two things."""
    paths = [
        p for room in ("keras_posenc", "tests", "benchmarks") for p in (ROOT / room).rglob("*.py")
    ]
    assert [p.name for p in paths if len(p.read_text("utf-8").splitlines()) > 500] == []


def test_the_benchmarks_are_found_by_their_listing():
    """A folder has at most 15 files, and is a package of the scripts that run by `python -m`."""
    rooms = {path.parent for path in (ROOT / "benchmarks").rglob("*.py")}
    counts = {room.name: len([*room.glob("*.py")]) for room in rooms}
    assert {name: count for name, count in counts.items() if count > 16} == {}  # `__init__.py`
    assert [room.name for room in rooms if not (room / "__init__.py").exists()] == []


def test_every_folder_is_a_package():
    """Without `__init__.py` a folder works in a checkout and is missing in an installation."""
    rooms = {pathlib.PurePosixPath(where).parent for where in SOURCES}
    assert [room for room in rooms if (room / "__init__.py").as_posix() not in SOURCES] == []


def test_the_transformer_names_no_family():
    code = code_of((PACKAGE / "models" / "transformer.py").read_text("utf-8"))
    assert re.findall(FAMILIES, code, re.IGNORECASE) == []


def test_each_backend_has_the_same_functions():
    """By their sources, since a process has one backend."""

    def functions(name):
        body = parsed(SOURCES[f"backend/{name}.py"]).body
        classes = {n.name: "" for n in body if isinstance(n, ast.ClassDef)}
        defined = [n for n in body if isinstance(n, ast.FunctionDef)]
        return classes | {n.name: ast.unparse(n.args) for n in defined}

    names = set(keras_posenc.backend.shared.NAMES) - {"TRAITS"}
    rooms = ("shared", "features", "weighing", "exports", "jax_alone", "cuda_alone")
    shared = {k: v for room in rooms for k, v in functions(room).items()}
    shared["interpolate"] = "table, position, training=False"
    for name in ("torch", "jax", "tensorflow"):
        found = shared | functions(name)
        assert names <= found.keys()
        if name == "torch":
            one = found
        assert {n: found[n] for n in names} == {n: one[n] for n in names}


def test_attention_names_no_encoding():
    names = encoding_names()
    assert "HierarchicalPositionEmbedding" in names
    code = code_of((PACKAGE / "attention" / "layer.py").read_text("utf-8"))
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
    assert f"keras=={tested} " in (ROOT / ".ci" / "oldest.txt").read_text("utf-8")
    assert tested.startswith(declared + ".") or tested == declared


def test_the_list_for_contributors_has_all_rooms_and_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", text)
    lost = [name for name in named if not any((root / name).exists() for root in (ROOT, PACKAGE))]
    assert named and not lost, f"CONTRIBUTING.md names what is not there: {lost}"
    table = text.partition("| subpackage |")[2].partition("\n\n")[0]
    rooms = [name for name in re.findall(r"`(\w+)/`", table) if name in FLOOR]
    assert set(rooms) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    floors = [FLOOR[room] for room in rooms]
    assert floors == sorted(floors), "A subpackage stands above one that it may import."
