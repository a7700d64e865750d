"""Directories of sentence-transformers: `modules.json`, and what stands beside it."""

import json
import pathlib
import typing

from keras_posenc.checkpoints.model_settings import MODEL_CONFIG, read_model_config
from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.checkpoints.shards import is_plain
from keras_posenc.files.untrusted import (
    check_inside,
    parse_json,
    quote,
    read_bytes,
    read_object,
    shorten,
)
from keras_posenc.folders.download import local_path
from keras_posenc.folders.hub_names import from_hub
from keras_posenc.folders.lora import base_of

MODULES = "modules.json"
MOST_MODULES = 32
MOST_MODULE = 2**30  # bytes of a file of one
# Where the settings of a transformer lie; the first is written today.
TRANSFORMER_CONFIGS = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
LONGEST = 10**6  # tokens; tokenizers without a limit have 10^30

# The modes of a pooling, in the order in which several are concatenated -> our poolings.
POOLING_OF_MODE = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "sqrt_mean",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
# The keys of the older dialect: a boolean for each mode.
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.SiLU": "silu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
}
OLD_NAMES = {"MLMTransformer": "Transformer"}
PACKAGES = ("sentence_transformers", "pylate")


class Layout(typing.NamedTuple):
    """Which modules a model consists of.

    Attributes:
        title: str. How errors name it.
        opened_by: str. The function or class that opens such a directory.
        first: tuple. The kinds that it begins with.
        others: tuple. The kinds that may follow.
        tasks: tuple. The values of the transformer's `transformer_task` that are read.
        tensors: tuple. The names of the tensor that dense modules and norms act on.
        outputs: tuple. The tensor of transformers that the encoder gives, and its name there.
    """

    title: str
    opened_by: str
    first: tuple
    others: tuple
    tasks: tuple
    tensors: tuple
    outputs: tuple = ("last_hidden_state", "token_embeddings")

    def settings(self, kind):
        """The keys of a module that decide what it computes, each with the values that are read."""
        names = dict.fromkeys(("module_input_name", "module_output_name"), (*self.tensors, None))
        tensor, name = self.outputs
        text = {"text": {"method": "forward", "method_output_name": tensor}}
        transformer = {
            "transformer_task": self.tasks,
            "modality_config": (text, None),
            "module_output_name": (name, None),
            "processing_kwargs": ({}, None),
        }
        if self.opened_by != "LateInteraction":
            sides = ("query_length", "document_length", "query_expansion")
            transformer |= dict.fromkeys(sides, (None,))
        return {
            "Transformer": transformer,
            "Dense": {"use_residual": (False, None), **names},
            "Normalize": names,
        }.get(kind, {})


EMBEDDER = Layout(
    "an embedder",
    "open_embedder",
    ("Transformer", "Pooling"),
    ("Dense", "LayerNorm", "Normalize", "Dropout"),
    ("feature-extraction", None),
    ("sentence_embedding",),
)
CROSS_ENCODER = Layout(
    "a cross-encoder",
    "Reranker",
    ("Transformer",),
    (),
    ("sequence-classification", None),
    ("scores",),
    ("logits", "scores"),
)
LATE_INTERACTION = Layout(
    "a model of late interaction",
    "LateInteraction",
    ("Transformer",),
    ("Dense", "LayerNorm", "Normalize", "Dropout", "MultiVectorMask"),
    ("feature-extraction", None),
    # Without a pooling before it, a dense module of either name acts on tokens.
    ("token_embeddings", "sentence_embedding"),
)
SPARSE = Layout(
    "a sparse encoder",
    "SparseEmbedder",
    ("Transformer", "SpladePooling"),
    (),
    ("fill-mask", None),
    ("sentence_embedding",),
    ("logits", "token_embeddings"),
)
# By the `model_type` of config_sentence_transformers.json; "ColBERT" is PyLate's.
LAYOUTS = {
    "SentenceTransformer": EMBEDDER,
    "CrossEncoder": CROSS_ENCODER,
    "MultiVectorEncoder": LATE_INTERACTION,
    "ColBERT": LATE_INTERACTION,
    "SparseEncoder": SPARSE,
}


class Module(typing.NamedTuple):
    """One step of a sentence encoder.

    Attributes:
        kind: str. The name of its class.
        folder: `pathlib.Path`. The folder of its files.
        config: dict. The content of its config file.
        index: `pathlib.Path`. The file that lists it.
        arrays: dict. Its weights, if they are not in a separate file.
    """

    kind: str
    folder: pathlib.Path
    config: dict
    index: pathlib.Path
    arrays: dict | None = None


def is_embedder(directory):
    """Whether a directory lists the modules of an embedder."""
    return (pathlib.Path(local_path(directory)) / MODULES).is_file()


def read_modules(directory, layout=EMBEDDER):
    """Reads what a directory of sentence-transformers consists of.

    Args:
        directory: str or path. Without `modules.json` it is a transformer, followed by the other
            modules that every model of the layout begins with, with their defaults.
        layout: `Layout` of the model.

    Returns:
        list of `Module`: a transformer, what must follow, and others.

    Raises:
        FileNotFoundError: if there is no such directory, or a part of it is missing.
    """
    directory = pathlib.Path(local_path(directory))
    if not directory.is_dir():
        raise FileNotFoundError(
            f"There is no directory {directory} to read {layout.title} from.{from_hub(directory)}"
        )
    index = directory / MODULES
    check_inside(index, directory)
    base = base_of(directory)
    if base is not None and not index.exists():
        transformer, *others = read_modules(base, layout)
        return [transformer._replace(folder=directory), *others]
    if not index.exists():
        first, *rest = layout.first
        return [
            Module(first, directory, _settings(directory, index), index),
            *(Module(kind, directory, {}, index) for kind in rest),
        ]
    other = LAYOUTS.get(read_model_config(directory).get("model_type"), layout)
    if other is not layout:
        raise _other(directory, other, layout)
    pairs = _listed(index)
    kinds = tuple(_kind(index, name, layout) for name, _ in pairs)
    count = len(layout.first)
    if kinds[:count] != layout.first or set(layout.first) & set(kinds[count:]):
        rest = f", and then any of {', '.join(layout.others)}" if layout.others else ""
        raise ValueError(
            f"{index} lists {', '.join(kinds) or 'nothing'}: {layout.title} is a "
            f"{', a '.join(layout.first)}{rest}."
        )
    paths = (path for _, path in pairs)
    return [_module(index, kind, path, layout) for kind, path in zip(kinds, paths, strict=True)]


def kinds_in(directory):
    """The names of the classes of the modules that a directory lists; empty if it lists none."""
    index = pathlib.Path(directory) / MODULES
    check_inside(index, pathlib.Path(directory))
    names = (name.rpartition(".")[2] for name, _ in _listed(index)) if index.exists() else ()
    return {OLD_NAMES.get(name, name) for name in names}


def module_folders(directory):
    """The folders of a directory's modules, with the directory itself."""
    directory = pathlib.Path(directory)
    index = directory / MODULES
    check_inside(index, directory)
    places = [path for _, path in _listed(index)] if index.exists() else []
    folders = [directory, *(directory / place for place in places)]
    for folder in folders[1:]:
        check_inside(folder, directory)
    return {folder for folder in folders if folder.is_dir()}


def _listed(index):
    """(class, path) of each module that a file lists."""
    try:
        rows = parse_json(read_bytes(index))
        pairs = [(row["type"], row["path"]) for row in rows]
        if len(pairs) > MOST_MODULES or not all(isinstance(x, str) for row in pairs for x in row):
            raise ValueError("it lists something else")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{index} is damaged ({shorten(error)}): it should list modules, each with a type and "
            "a path."
        ) from None
    return pairs


def read_pooling(module):
    """The poolings that a module concatenates, by our names, and whether prompts take part."""
    config = module.config
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for flag, mode in FLAGS.items() if config.get(flag)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    sound = isinstance(modes, list) and modes and all(isinstance(mode, str) for mode in modes)
    if not sound or not set(modes) <= POOLING_OF_MODE.keys():
        raise ValueError(
            f"{module.folder}: pooling_mode must be one or several of "
            f"{', '.join(POOLING_OF_MODE)}. Found {quote(modes)}."
        )
    return [POOLING_OF_MODE[mode] for mode in modes], bool(config.get("include_prompt", True))


def read_activation(module):
    """The activation of a dense module, by Keras' name."""
    name = module.config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(
            f"{module.folder}: the activation {quote(name)} is not supported; those are: "
            f"{', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[name]


def read_weights(module, names):
    """The arrays of a module, by these names.

    Args:
        module: `Module`.
        names: set of str, all that it may have; a dense layer's bias may be missing.
    """
    if module.arrays is not None:
        return module.arrays
    checkpoint = open_checkpoint(module.folder)
    needed = names - {"linear.bias"}
    if not needed <= set(checkpoint) <= names:
        raise ValueError(
            f"{checkpoint} holds {shorten(', '.join(sorted(checkpoint)))}, and a {module.kind} has "
            f"{', '.join(sorted(names))}."
        )
    return {name: checkpoint[name] for name in checkpoint}


def read_longest(module):
    """The tokens after which a transformer's texts are cut; None if no file names it."""
    candidates = [module.config.get("max_seq_length")]
    tokenizer = read_object(module.folder / "tokenizer_config.json", module.index.parent)
    candidates.append(tokenizer.get("model_max_length"))
    lengths = [n for n in candidates if isinstance(n, (int, float)) and not isinstance(n, bool)]
    return next((int(n) for n in lengths if 1 <= n <= LONGEST), None)


def sentence_transformers_files(directory, longest, layout=EMBEDDER):
    """What makes a model of the transformer in a directory: pooling, other modules, prompts.

    Args:
        directory: str or path. One without `modules.json` is a transformer alone.
        longest: int. Tokens after which texts are to be cut; None as in `directory`.
        layout: `Layout` of the model.

    Returns:
        dict path -> bytes, to be written beside the files of another transformer.

    Raises:
        FileNotFoundError, ValueError: as `read_modules`.
    """
    if not is_embedder(directory):
        return {}
    transformer, *others = read_modules(directory, layout)
    index = transformer.index
    rows = parse_json(read_bytes(index))
    rows[0]["path"] = ""
    cut = {} if longest is None else {"max_seq_length": longest}
    settings = {**transformer.config, **cut}
    files = {MODULES: json.dumps(rows, indent=2).encode()}
    files[TRANSFORMER_CONFIGS[0]] = json.dumps(settings, indent=1).encode()
    prompts = index.parent / MODEL_CONFIG
    paths = [prompts] if prompts.exists() else []
    for module in others:
        if module.folder.is_dir() and module.folder != index.parent:
            paths += sorted(path for path in module.folder.iterdir() if path.is_file())
    for path in paths:
        check_inside(path, index.parent)
        files[str(path.relative_to(index.parent))] = read_bytes(path, MOST_MODULE)
    return files


def _other(directory, found, layout):
    """The error about a directory of another layout."""
    return ValueError(
        f"{directory} is {found.title}, not {layout.title}: open it with {found.opened_by}."
    )


def _kind(index, name, layout):
    """The kind of a module, by the name of its class."""
    package, _, kind = name.rpartition(".")
    kind = OLD_NAMES.get(kind, kind)
    kinds = (*layout.first, *layout.others)
    if package.partition(".")[0] not in PACKAGES or kind not in kinds:
        other = next((each for each in LAYOUTS.values() if kind in each.first[1:]), None)
        if other and package.partition(".")[0] in PACKAGES:
            raise _other(index.parent, other, layout)
        raise ValueError(
            f"{index} names a module {quote(name)}, which is not read; those of {layout.title} in "
            f"sentence-transformers that are: {', '.join(kinds)}."
        )
    return kind


def _module(index, kind, path, layout):
    if path and not is_plain(path):
        raise ValueError(f"{index} is refused: it names {quote(path)} as a folder beside it.")
    folder = index.parent / path if path else index.parent
    # Without a setting a module has no file, and so no folder in some copies.
    if not folder.is_dir() and kind not in ("Normalize", "Dropout"):
        raise FileNotFoundError(f"{index} names a folder that is not beside it: {path}.")
    check_inside(folder, index.parent)
    names = TRANSFORMER_CONFIGS if kind == "Transformer" else ("config.json",)
    config = _settings(folder, index, names)
    for key, values in layout.settings(kind).items():
        if config.get(key) not in values:
            raise ValueError(
                f"{folder}: a {kind} with {key}={quote(config.get(key))} is not supported."
            )
    return Module(kind, folder, config, index)


def _settings(folder, index, names=TRANSFORMER_CONFIGS):
    """The settings in the first file that there is of these names; empty if there is none."""
    found = [folder / name for name in names if (folder / name).exists()]
    return read_object(found[0], index.parent) if found else {}
