"""What is at the top of the package, what its modules group, and when names are imported."""

import ast
import importlib
import json
import pathlib
import re
import textwrap

import pytest
from forks import run_fork

import keras_posenc
from keras_posenc.keras_support import lazy

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "keras_posenc"
# Modules that a Keras user knows by these names, and one thing that they look for in each.
WHERE_KERAS_HAS_THEM = {
    "layers": "PositionalAttention",
    "models": "build_transformer_model",
    "losses": "CoSENT",
    "metrics": "SpanF1",
    "encodings": "RotaryEmbedding",
    "heads": "classifier",
    "text": "Tokenizer",
    "training": "finetune",
    "retrieval": "search",
    "checkpoints": "open_checkpoint",
    "analysis": "decay_curve",
    "tasks": "get",
}


def test_what_is_at_the_top_can_be_read():
    """The names that the design promises, layers, models and calls, in less than a page."""
    names = keras_posenc.__all__
    promised = {"HierarchicalPositionEmbedding", "RotaryEmbedding", "LogNAttention", "Encoding"}
    promised |= {"ContextualPositionEmbedding", "RandomPositionIds", "build_transformer_model"}
    promised |= {"embed", "search", "rerank", *WHERE_KERAS_HAS_THEM}
    assert promised <= set(names) and len(names) <= 70 and len(set(names)) == len(names)
    assert all(hasattr(keras_posenc, name) for name in names)
    assert dir(keras_posenc) == sorted(names)


@pytest.mark.parametrize("room", WHERE_KERAS_HAS_THEM)
def test_a_module_has_the_names_it_lists_and_shows_no_others(room):
    module = getattr(keras_posenc, room)
    assert WHERE_KERAS_HAS_THEM[room] in module.__all__
    assert module.__doc__ and len(set(module.__all__)) == len(module.__all__)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        found = getattr(module, name)
        assert name.islower() or not isinstance(found, type(keras_posenc)), name


def test_a_function_is_not_hidden_by_the_file_that_has_it():
    """`embed` is in `retrieval/embed.py`: Python would put the file where the function was."""
    importlib.import_module("keras_posenc.retrieval.embed")
    assert callable(keras_posenc.retrieval.embed) and callable(keras_posenc.embed)
    importlib.import_module("keras_posenc.training.pretrain")
    assert callable(keras_posenc.training.pretrain)


def test_an_unknown_name_is_an_error_of_the_module():
    with pytest.raises(
        AttributeError, match="module 'keras_posenc.layers' has no attribute 'ALBi'"
    ):
        keras_posenc.layers.ALBi  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'keras_posenc'"):
        from keras_posenc import nothing  # noqa: F401


@pytest.mark.parametrize(
    ("guess", "place"),
    [
        ("Reranker", "retrieval.Reranker"),
        ("open_embedder", "retrieval.open_embedder"),
        ("Embed", "training.Embed"),
        ("Optimizer", "training.Optimizer"),
        ("layers.ALiBi", "encodings.ALiBi"),
        ("layers.Alibi", "encodings.ALiBi"),
        ("layers.Encoding", "Encoding"),
        ("layers.MultiHeadAttention", "PositionalAttention"),
        ("layers.RoPE", "RotaryEmbedding"),
        ("layers.CoPE", "ContextualPositionEmbedding"),
        ("BertModel", "build_transformer_model"),
        ("losses.InfoNCE", "losses.MultipleNegativesRanking"),
        ("losses.CosentLoss", "losses.CoSENT"),
        ("models.CrossEncoder", "retrieval.Reranker"),
        ("SentenceTransformer", "retrieval.open_embedder"),
        ("layers.ALBi", "encodings.ALiBi"),
    ],
)
def test_a_first_guess_leads_to_the_name_here(guess, place):
    """Each hint can be followed."""
    room, _, name = f"keras_posenc.{guess}".rpartition(".")
    with pytest.raises(AttributeError, match=rf"{name}'\. Did you mean keras_posenc\.{place}\?"):
        getattr(importlib.import_module(room), name)
    room, _, name = f"keras_posenc.{place}".rpartition(".")
    assert getattr(importlib.import_module(room), name)


def test_every_name_of_others_has_one_here():
    public = {name for names in lazy._public_names().values() for name in names}
    assert {name.rpartition(".")[2] for name in public} >= set(lazy.HERE.values())


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*/__init__.py")) + [PACKAGE / "__init__.py"])
def test_type_checkers_see_the_names(path):
    """What is imported on request is written as imports that only type checkers read."""
    tree = ast.parse(path.read_text("utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n)]
    if not blocks:  # all names are imported with the module
        return
    seen = {alias.name for node in blocks[0].body for alias in node.names}
    (listed,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    ]
    assert seen == set(listed)


def test_importing_the_package_imports_what_saved_models_need_and_little_more():
    """Its time is that of its modules: on request are the rest."""
    found = run_fork(
        "code",
        """
        import json, sys
        for name in [name for name in sys.modules if name.startswith("keras_posenc")]:
            del sys.modules[name]
        import keras_posenc
        print(json.dumps([name for name in sys.modules if name.startswith("keras_posenc")]))
        """,
    )
    imported = set(json.loads(found.stdout))
    registering = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if "@keras.saving.register_keras_serializable" in path.read_text("utf-8")
    }
    missing = registering - imported
    apart = "keras_posenc.adapters"  # which need other packages
    assert {name for name in missing if not name.startswith(apart)} == set()
    assert len(imported) <= 140
    rooms = ("text", "checkpoints", "retrieval", "analysis", "tasks", "models.families")
    late = tuple(f"keras_posenc.{room}" for room in rooms)
    # A kind of retrieval has its layers in its folder, and the folders above them come along.
    folders = {".".join(name.split(".")[:end]) for name in registering for end in range(2, 5)}
    assert [name for name in imported - folders if name.startswith(late)] == []


def programs():
    """Yields (place, program) of README, the pages and the notebooks."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not {"notes", "api"} & set(path.parts):  # of docstrings: tests/test_docstrings.py
            for block in re.findall(r"^```py\w*\n(.*?)^```", path.read_text("utf-8"), re.M | re.S):
                yield path.relative_to(ROOT).as_posix(), block
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield (
                    path.name,
                    re.sub(r"^(\s*)[%!].*$", r"\1pass", "".join(cell["source"]), flags=re.M),
                )


def names_used(program):
    """The dotted names of ours that a program imports, or reads from what it imports."""
    tree = ast.parse(textwrap.dedent(program))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_posenc"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("keras_posenc."):
            yield ast.unparse(node)


def test_names_are_where_the_pages_and_notebooks_import_them():
    missing, count = [], 0
    for place, program in programs():
        for name in names_used(program):
            count += 1
            try:
                thing_named(name)
            except (AttributeError, ImportError) as error:
                if "This adapter needs" not in str(error):  # it is there, its package is not
                    missing.append(f"{place}: {name}")
    assert missing == [] and count > 100


def thing_named(name):
    """The thing with a dotted name."""
    found = keras_posenc
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")
    return found
