"""Directories of sentence-transformers: `modules.json`, and what stands beside it."""

import typing

from keras_posenc.files.untrusted import parse_json, quote, shorten
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.huggingface import is_plain

MODULES = "modules.json"
MODEL_CONFIG = "config_sentence_transformers.json"  # the settings of a whole model
MOST_MODULES = 32
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
WITHOUT_FILES = ("Normalize", "Dropout", "FlexibleQuantizer")
PACKAGES = ("sentence_transformers", "pylate")
# What pplx-embed has in its directory: a module, and the class of a model of passages.
QUANTIZER, CONTEXTUAL = "st_quantize.FlexibleQuantizer", "PPLXQwen3ContextualModel"
# The names of the prompt of each side, of which the first in a directory counts.
PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


class Layout(typing.NamedTuple):
    """Which modules a model consists of."""

    title: str  # how errors name it
    opened_by: str  # the function or class that opens such a directory
    first: tuple  # the kinds that it begins with
    others: tuple  # the kinds that may follow
    tasks: tuple  # the values of the transformer's `transformer_task` that are read
    tensors: tuple  # the names of the tensor that dense modules and norms act on
    # The tensor of transformers that the encoder gives, and its name there.
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
    ("Dense", "LayerNorm", "Normalize", "Dropout", "FlexibleQuantizer"),
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
    """One step of a sentence encoder."""

    kind: str  # the name of its class
    folder: object  # `Folder` of its files
    config: dict  # the content of its config file
    arrays: dict | None = None  # its weights, if they are not in a separate file


def is_embedder(folder):
    """Whether a directory lists the modules of an embedder."""
    return folder.is_directory and folder.has(MODULES)


def read_modules(folder, layout=EMBEDDER):
    """Reads the `Module`s of a directory of sentence-transformers, the transformer first.

    Without `modules.json` it is a transformer, followed by the other modules that every model of
    the layout begins with, with their defaults.
    """
    if not folder.is_directory:
        raise FileNotFoundError(
            f"There is no directory {folder} to read {layout.title} from.{from_hub(folder)}"
        )
    listed = folder.has_any(MODULES)
    if folder.base is not None and not listed:
        transformer, *others = read_modules(folder.base, layout)
        return [transformer._replace(folder=folder), *others]
    if not listed:
        first, *rest = layout.first
        rest += ["FlexibleQuantizer"] * (layout is EMBEDDER and is_contextual(folder.config))
        return [
            Module(first, folder, _config(folder, TRANSFORMER_CONFIGS)),
            *(Module(kind, folder, {}) for kind in rest),
        ]
    other = LAYOUTS.get(folder.settings.get("model_type"), layout)
    if other is not layout:
        raise _other(folder, other, layout)
    rows = folder.listed_modules
    kinds = tuple(_kind(folder, row["type"], layout) for row in rows)
    count = len(layout.first)
    if kinds[:count] != layout.first or set(layout.first) & set(kinds[count:]):
        rest = f", and then any of {', '.join(layout.others)}" if layout.others else ""
        raise ValueError(
            f"{folder.path / MODULES} lists {', '.join(kinds) or 'nothing'}: {layout.title} is a "
            f"{', a '.join(layout.first)}{rest}."
        )
    return [
        _module(folder, kind, row["path"], layout) for kind, row in zip(kinds, rows, strict=True)
    ]


def is_contextual(config):
    """Whether a model reads passages joined by the separator token, by the keys of its config."""
    return CONTEXTUAL in str([config.get(key) for key in ("auto_map", "architectures")])


def layout_of(folder):
    """The layout that a directory's settings or modules name, or None."""
    layout = LAYOUTS.get(folder.settings.get("model_type"))
    if layout is not None or not is_embedder(folder):
        return layout
    names = (row["type"].rpartition(".")[2] for row in folder.listed_modules)
    kinds = {OLD_NAMES.get(name, name) for name in names}
    known = (EMBEDDER, CROSS_ENCODER, LATE_INTERACTION, SPARSE)
    layout = next((each for each in known if set(each.first[1:]) & kinds), None)
    if layout is None and "Dense" in kinds and "Pooling" not in kinds:
        return LATE_INTERACTION
    return layout


def module_folders(folder):
    """The folders of a directory's modules, with the directory itself."""
    rows = folder.listed_modules if folder.has_any(MODULES) else []
    places = [row["path"] for row in rows]
    folders = [folder.sub(place) for place in dict.fromkeys(places)]
    return [folder, *(each for each in folders if each.is_directory and each is not folder)]


def listed_modules(folder):
    """What a directory lists as its modules: dicts with the class, "type", and the "path"."""
    data = folder.read(MODULES)
    try:
        rows = parse_json(data)
        pairs = [(row["type"], row["path"]) for row in rows]
        if len(pairs) > MOST_MODULES or not all(isinstance(x, str) for row in pairs for x in row):
            raise ValueError("it lists something else")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder.path / MODULES} is damaged ({shorten(error)}): it should list modules, each "
            "with a type and a path."
        ) from None
    return rows


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


def check_activation(name, folder):
    """The name in Keras of an activation that a directory names by its class in PyTorch."""
    return _supported(folder, f"the activation {quote(name)}", name, ACTIVATIONS)


def read_longest(module):
    """The tokens after which a transformer's texts are cut; None if no file names it."""
    tokenizer = module.folder.json("tokenizer_config.json")
    candidates = [module.config.get("max_seq_length"), tokenizer.get("model_max_length")]
    lengths = [n for n in candidates if isinstance(n, (int, float)) and not isinstance(n, bool)]
    return next((int(n) for n in lengths if 1 <= n <= LONGEST), None)


def read_settings(folder):
    """The settings of a whole model; empty if there are none."""
    if not folder.has_any(MODEL_CONFIG) and folder.base is not None:
        return folder.base.settings
    return folder.json(MODEL_CONFIG)


def read_prompts(folder):
    """The prompts of a model, by their names, and the name of the one that is put before all."""
    config = folder.settings
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise ValueError(f"{folder}: `prompts` must be texts by name. Found {quote(prompts)}.")
    return prompts, default if default in list(prompts) else None


def prompt_of_side(prompts, default, side):
    """The prompt of queries or of documents, as `encode_query` and `encode_document` choose it;
    without one, the prompt that is put before all texts, or ""."""
    named = (prompts[name] for name in PROMPT_NAMES[side] if name in prompts)
    return next(named, prompts.get(default, ""))


def read_size(settings, key, default=None):
    """A positive integer of settings, or `default` where they have none."""
    value = settings.get(key)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        raise ValueError(f"`{key}` must be an int, at least 1. Found {quote(value)}.")
    return value


def read_similarity(folder, known):
    """How a directory compares vectors: a value of `known`, a dict by name, whose first is that of
    a directory that names none."""
    name = folder.settings.get("similarity_fn_name")
    if name is None:
        return next(iter(known.values()))
    return _supported(folder, f"similarity_fn_name={quote(name)}", name, known)


def read_activation(folder):
    """The class in PyTorch of a cross-encoder's activation, as the directory names it, or None."""
    nested = folder.config.get("sentence_transformers")
    candidates = [
        folder.settings.get("activation_fn"),
        nested.get("activation_fn") if isinstance(nested, dict) else None,
        folder.config.get("sbert_ce_default_activation_function"),
    ]
    return next((name for name in candidates if name is not None), None)


def _supported(folder, what, name, known):
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{folder}: {what} is not supported; those are: {', '.join(known)}.")
    return known[name]


def _other(folder, found, layout):
    """The error about a directory of another layout."""
    return ValueError(
        f"{folder} is {found.title}, not {layout.title}: open it with {found.opened_by}."
    )


def _kind(folder, name, layout):
    """The kind of a module, by the name of its class."""
    package, _, kind = name.rpartition(".")
    kind = OLD_NAMES.get(kind, kind)
    kinds = (*layout.first, *layout.others)
    known = name == QUANTIZER or package.partition(".")[0] in PACKAGES
    if not known or kind not in kinds:
        other = next((each for each in LAYOUTS.values() if kind in each.first[1:]), None)
        if other and known:
            raise _other(folder, other, layout)
        raise ValueError(
            f"{folder.path / MODULES} names a module {quote(name)}, which is not read; those of "
            f"{layout.title} in sentence-transformers that are: {', '.join(kinds)}."
        )
    return kind


def _module(folder, kind, path, layout):
    index = folder.path / MODULES
    if path and not is_plain(path):
        raise ValueError(f"{index} is refused: it names {quote(path)} as a folder beside it.")
    # Without a setting a module has no file, and so no folder in some copies.
    if path and not folder.has_directory(path) and kind not in WITHOUT_FILES:
        raise FileNotFoundError(f"{index} names a folder that is not beside it: {path}.")
    place = folder.sub(path)
    names = TRANSFORMER_CONFIGS if kind == "Transformer" else ("config.json",)
    config = _config(place, names)
    for key, values in layout.settings(kind).items():
        if config.get(key) not in values:
            raise ValueError(
                f"{place}: a {kind} with {key}={quote(config.get(key))} is not supported."
            )
    return Module(kind, place, config)


def _config(folder, names):
    """The settings in the first file that there is of these names; empty if there is none."""
    found = [name for name in names if folder.has_any(name)]
    return folder.json(found[0]) if found else {}
