"""The pages of the API reference: every public name, where it belongs.

`python docs/generate/api.py` writes them, so that a code host shows them as well.
"""

import __future__

import ast
import importlib
import inspect
import pathlib
import re
import textwrap

import docstrings

# Methods that every Keras object has.
OF_KERAS = (
    "build",
    "call",
    "get_config",
    "from_config",
    "compute_mask",
    "compute_output_shape",
    "compute_output_spec",
    "get_build_config",
    "build_from_config",
)
# Annotations are not evaluated.
LATER = __future__.annotations.compiler_flag
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object that is a default

# The sentence that opens a page.
OPENINGS = {
    "attention": "Layers of attention that combine position encodings.",
    "encodings": "What `PositionalAttention` takes as `encodings`.",
    "positions": "Position embeddings, and layers that choose position ids.",
    "models": "Pretrained and new models, how they serve more positions, and their export.",
    "structured": "Layers that decide on the tags or spans of a text together.",
    "heads": "Models with a head for a task, on an encoder.",
    "losses": "Losses for `compile`.",
    "metrics": "Metrics for `compile`.",
    "checkpoints": "Files of weights: reading, loading and saving.",
    "text": "Tokenizers, readers of files of texts, and batches for `fit`.",
    "training": "Calls that go from files of texts to a trained model, and what they use.",
    "retrieval": "Vectors of texts, search, and reranking.",
    "tasks": "Synthetic tasks that show whether a model works on texts longer than in training.",
    "analysis": "What encodings and models do with positions, as numbers and figures.",
    "adapters": "Models as parts of other libraries, each of which must be installed.",
}
# What a reader needs first: page, name, and what it does.
FIRST = [
    ("retrieval", "embed", "Makes vectors of documents, or of their passages."),
    ("retrieval", "search", "Finds the nearest passages to a question."),
    ("training", "contextualize", "Trains an embedder on your documents, without labels."),
    ("training", "finetune", "Trains a pretrained encoder on labelled texts, long ones too."),
    ("models", "build_transformer_model", "Opens a pretrained encoder as a Keras model."),
    ("attention", "PositionalAttention", "An attention layer for your own model."),
]
# Name of a page -> its title, the module, and the names there.
PAGES = {
    "attention": (
        "Attention",
        "keras_posenc",
        ["PositionalAttention", "LogNAttention", "GatedAttentionUnit", "SharedTable"],
    ),
    "encodings": ("Encodings", "keras_posenc.encodings", None),  # what ENCODINGS has
    "positions": (
        "Positions",
        "keras_posenc",
        [
            "HierarchicalPositionEmbedding",
            "TiledPositionEmbedding",
            "InterpolatedPositionEmbedding",
            "FreshPositionEmbedding",
            "LearnedPositionEmbedding",
            "SinusoidalPositionEmbedding",
            "position_embedding",
            "RandomPositionIds",
            "PaddedPositionIds",
            "AbacusPositionIds",
            "CoupledPositionIds",
            "SegmentPositionIds",
        ],
    ),
    "models": (
        "Models",
        "keras_posenc",
        [
            "build_transformer_model",
            "Transformer",
            "TransformerModel",
            "embedder",
            "open_folder",
            "register_family",
            "Family",
            "ConditionalLayerNormalization",
            "RMSNormalization",
            "build_encoder_decoder",
            "Generator",
            "Config",
            "Extension",
            "read_config",
            "layout_map",
            "export_model",
        ],
    ),
    "structured": (
        "Tags and spans",
        "keras_posenc",
        [
            "ConditionalRandomField",
            "MaximumEntropyMarkovModel",
            "ViterbiDecoder",
            "ChainMarginals",
            "GlobalPointer",
            "EfficientGlobalPointer",
        ],
    ),
    "heads": ("Heads", "keras_posenc.heads", "__all__"),
    "losses": ("Losses", "keras_posenc.losses", "__all__"),
    "metrics": ("Metrics", "keras_posenc.metrics", "__all__"),
    "checkpoints": (
        "Checkpoints",
        "keras_posenc.checkpoints",
        ["open_checkpoint", "load_checkpoint", "save_checkpoint"],
    ),
    "text": ("Text", "keras_posenc.text", "__all__"),
    "training": ("Training", "keras_posenc.training", "__all__"),
    "retrieval": ("Retrieval", "keras_posenc.retrieval", "__all__"),
    "tasks": ("Tasks", "keras_posenc.tasks", "__all__"),
    "analysis": ("Analysis", "keras_posenc.analysis", "__all__"),
    "adapters": ("Other libraries", "keras_posenc.adapters", "__all__"),
}


def main():
    docs = pathlib.Path(__file__).resolve().parents[1]
    for place, text in pages().items():
        (docs / place).write_text(text, "utf-8")


def pages():
    """dict place below docs/ -> Markdown."""
    names = {name: members(name) for name in PAGES}
    made = {f"api/{name}.md": _page(name, found) for name, found in names.items()}
    return {"api/index.md": _index(names), **made}


def members(name):
    """The public names on a page, in its order."""
    from keras_posenc.encodings import ENCODINGS

    _, module, listed = PAGES[name]
    if listed == "__all__":
        listed = sorted(importlib.import_module(module).__all__, key=str.lower)
    if listed is None:
        classes = {kind.__name__ for kind in ENCODINGS.values()}
        listed = ["Encoding", "Grid", "alternate", *sorted(classes)]
    return listed


def _index(names):
    """A table of all names with their purpose, page by page."""
    parts = [
        "# API reference",
        "This page lists every public name and links to its arguments, shapes, errors and "
        "example. The [guides](../guides/index.md) show what to use for which task.",
        "Start with these six:",
        _table(FIRST),
    ]
    for name, found in names.items():
        title, module, _ = PAGES[name]
        parts += [
            f"## [{title}]({name}.md)",
            f"{OPENINGS[name]} In `{module}`.",
            _table([(name, each, _purpose(_thing(module, each))) for each in found]),
        ]
    return "\n\n".join(parts) + "\n"


def _table(rows):
    """A row per name: page, name, purpose."""
    lines = [f"| [`{name}`]({page}.md#{name.lower()}) | {what} |" for page, name, what in rows]
    return "\n".join(["| name | purpose |", "|---|---|", *lines])


def _page(name, found):
    title, module, _ = PAGES[name]
    parts = [f"# {title}", OPENINGS[name]]
    for each in found:
        parts += [f"## {each}", *_described(f"{module}.{each}", _thing(module, each))]
    return "\n\n".join(parts) + "\n"


def _described(dotted, thing):
    """Signature and docstring of what users call, or the value of a constant."""
    if not callable(thing):
        value = repr(thing)
        if isinstance(thing, dict):
            value = "{" + ", ".join(f"{key!r}: ..." for key in thing) + "}"
        shown = textwrap.fill(value, 96, subsequent_indent="    ")
        return [f"```py\n{dotted} = {shown}\n```"]
    parts = [_signature(dotted, thing), docstrings.markdown(inspect.getdoc(thing))]
    if inspect.isclass(thing):
        for method, function in sorted(_methods(thing).items()):
            parts += [
                f"### {thing.__name__}.{method}",
                *([_signature(method, function)] if inspect.isfunction(function) else []),
                docstrings.markdown(inspect.getdoc(function)),
            ]
    return parts


def _methods(cls):
    """What a class of ours adds: methods and properties with a docstring."""
    found = {}
    for name, value in vars(cls).items():
        value = getattr(value, "__func__", value)
        if getattr(value, "__module__", cls.__module__) != cls.__module__:
            continue  # a function that the class uses as data
        shown = inspect.isfunction(value) or isinstance(value, property)
        if shown and not name.startswith("_") and (value.__doc__ or "").strip():
            found[name] = value
    return {name: value for name, value in found.items() if name not in OF_KERAS}


def _signature(dotted, thing):
    """`module.name(arguments)`, one argument a line where they do not fit into one."""
    function = thing
    if inspect.isclass(thing):
        function = thing.__init__
        if not getattr(function, "__module__", "").startswith("keras_posenc"):
            function = thing  # a record, or what Keras asks for
    taken = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]
    words, star = [], False
    for each in taken:
        if each.kind is each.KEYWORD_ONLY and not star:
            words.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        words.append(ADDRESS.sub("", str(each)))
    line = f"{dotted}({', '.join(words)})"
    if len(line) > 96:
        line = f"{dotted}(\n" + "".join(f"    {word},\n" for word in words) + ")"
    return f"```py\n{line}\n```"


def _thing(module, name):
    found = importlib.import_module(module)
    return _outline(found, name) if module == PAGES["adapters"][1] else getattr(found, name)


def _outline(package, name):
    """A class or function as it is written, without its bases and its code.

    An adapter's base class belongs to a library that need not be installed here.
    """
    for path in sorted(pathlib.Path(package.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                names = {"__name__": f"{package.__name__}.{path.stem}"}
                bare = ast.fix_missing_locations(ast.Module([_without_code(node)], []))
                exec(compile(bare, path, "exec", LATER), names)
                return names[name]
    raise LookupError(f"No file of {package.__name__} has {name}.")


def _without_code(node):
    body = node.body[:1] if ast.get_docstring(node) is not None else [ast.Pass()]
    if isinstance(node, ast.ClassDef):
        node.bases = []
        body += [_without_code(each) for each in node.body if isinstance(each, ast.FunctionDef)]
    node.body, node.decorator_list = body, []
    return node


def _purpose(thing):
    """The first line of a docstring; what a constant is."""
    if not callable(thing):
        return f"A constant: {type(thing).__name__}."
    return docstrings.escaped((inspect.getdoc(thing) or "").split("\n")[0]).replace("|", "\\|")


if __name__ == "__main__":
    main()
