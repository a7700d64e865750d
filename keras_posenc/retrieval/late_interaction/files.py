"""Directories of late interaction: of sentence-transformers, PyLate and Stanford's ColBERT."""

import dataclasses
import json
import string

import numpy as np

from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.files.untrusted import parse_json, quote, read_object
from keras_posenc.folders.sentence_transformers import (
    LATE_INTERACTION,
    MODEL_CONFIG,
    MODULES,
    TRANSFORMER_CONFIGS,
    Module,
    is_embedder,
    prompt_of_side,
    read_longest,
    read_modules,
    read_size,
)
from keras_posenc.folders.written import sentence_transformers_files
from keras_posenc.models.config_file import read_config

METADATA = "artifact.metadata"
STANFORD = "HF_ColBERT"
PROJECTION = "linear.weight"  # in the file of a Stanford model's weights
# The defaults of PyLate and Stanford's code for a directory without these settings.
QUERY_LENGTH, DOCUMENT_LENGTH = 32, 180
STRATEGIES = ("fixed", "min")


@dataclasses.dataclass(frozen=True)
class Side:
    """How texts of one side, the queries or the documents, are read."""

    marker: str | None = None  # token behind the first special token
    prompt: str = ""
    length: int | None = None  # tokens after which a text is truncated, markers included
    expand: int | None = None  # length up to which mask tokens follow a text, and are scored
    attended: bool = False  # whether other tokens attend to these mask tokens in the encoder
    token: str | None = None  # in place of the mask token
    skipped: tuple = ()  # tokens whose vectors are left out


def is_stanford(folder):
    """Whether a directory was written by Stanford's ColBERT."""
    return not is_embedder(folder) and STANFORD in (folder.config.get("architectures") or [])


def read_late_interaction(folder):
    """Reads the `Module`s of a directory of late interaction, and the two `Side`s."""
    if is_stanford(folder):
        transformer = Module("Transformer", folder, {})
        return [transformer, *_inline_modules(folder)], *_stanford(folder)
    if folder.is_directory and not is_embedder(folder):
        raise ValueError(
            f"{folder} has neither {MODULES} nor the architecture {STANFORD}, so it has no "
            "projection of its tokens: give a directory of sentence-transformers' "
            "MultiVectorEncoder, of PyLate or of Stanford's ColBERT."
        )
    modules = read_modules(folder, LATE_INTERACTION)
    config = folder.settings
    pylate = [key for key in ("query_prefix", "document_prefix", "query_length") if key in config]
    sides = _pylate(folder, config) if pylate else _native(folder, modules)
    return modules, *sides


def files_of(folder, query, document):
    """What lies around the transformer of a directory, a dict path -> bytes, with these lengths."""
    lengths = {"query_length": query.length, "document_length": document.length}
    if is_stanford(folder):
        settings = folder.json(METADATA)
        settings |= {"query_maxlen": query.expand, "doc_maxlen": document.length}
        return {METADATA: json.dumps(settings, indent=4).encode()}
    files = sentence_transformers_files(folder, document.length, LATE_INTERACTION)
    path = MODEL_CONFIG if "query_length" in folder.settings else None
    path = path or TRANSFORMER_CONFIGS[0]
    settings = parse_json(files[path])
    settings |= {key: lengths[key] for key in lengths if settings.get(key) is not None}
    files[path] = json.dumps(settings, indent=2).encode()
    return files


def to_stanford(folder, source, projection):
    """Makes a directory of transformers one of Stanford's ColBERT, with the names of weights of
    another such directory, `source`, and the arrays of the projection."""
    path, known = folder / "model.safetensors", list(open_checkpoint(source))
    saved = open_checkpoint(path)
    arrays = {name: np.array(saved[name]) for name in saved}
    prefixes = {
        other.removesuffix(name) for name in arrays for other in known if other.endswith(f".{name}")
    }
    prefix = min(prefixes, key=len, default="")
    arrays = {prefix + name: array for name, array in arrays.items()} | projection
    write_safetensors(path, arrays)
    settings = read_object(folder / "config.json", folder)
    settings["architectures"] = [STANFORD]
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")


def _inline_modules(folder):
    """The modules behind a Stanford encoder, whose projection is in the file of its weights."""
    checkpoint = open_checkpoint(folder)
    if PROJECTION not in checkpoint:
        raise ValueError(f"{folder} has no {PROJECTION}, the projection of its tokens.")
    config = {"activation_function": "torch.nn.modules.linear.Identity"}
    arrays = {PROJECTION: checkpoint[PROJECTION]}
    return [Module("Dense", folder, config, arrays), Module("Normalize", folder, {})]


def _stanford(folder):
    settings = folder.json(METADATA)
    punctuation = _switch(settings, "mask_punctuation", True)
    expand = read_size(settings, "query_maxlen", QUERY_LENGTH)
    query = Side(
        marker=_text(settings, "query_token_id") or "[unused0]",
        length=expand,
        expand=expand,
        attended=_switch(settings, "attend_to_mask_tokens"),
    )
    document = Side(
        marker=_text(settings, "doc_token_id") or "[unused1]",
        length=read_size(settings, "doc_maxlen", DOCUMENT_LENGTH),
        skipped=tuple(string.punctuation) if punctuation else (),
    )
    return query, document


def _pylate(folder, config):
    prompts, _ = folder.prompts
    length = read_size(config, "query_length", QUERY_LENGTH)
    query = Side(
        marker=_text(config, "query_prefix"),
        prompt=prompts.get("query", ""),
        length=length,
        expand=length if _switch(config, "do_query_expansion", True) else None,
        attended=_switch(config, "attend_to_expansion_tokens"),
    )
    document = Side(
        marker=_text(config, "document_prefix"),
        prompt=prompts.get("document", ""),
        length=read_size(config, "document_length", DOCUMENT_LENGTH),
        skipped=_words(config, tuple(string.punctuation)),
    )
    return query, document


def _native(folder, modules):
    prompts, default = folder.prompts
    settings, config = modules[0].config, read_config(modules[0].folder)
    lengths = read_longest(modules[0]), config.max_position if config.position_table else None
    longest = min(filter(None, lengths), default=None)
    mask = next((module.config for module in modules if module.kind == "MultiVectorMask"), {})
    tasks = mask.get("skiplist_tasks", ["document"])
    if mask.get("keep_only_token_ids") is not None:
        raise ValueError(f"{folder}: keep_only_token_ids is for images, and is not supported.")
    skipped, sides = _words(mask, ()), []
    for task in ("query", "document"):
        expansion = settings.get("query_expansion") if task == "query" else None
        side = Side(
            prompt=prompt_of_side(prompts, default, task),
            length=read_size(settings, f"{task}_length", longest),
            skipped=skipped if task in tasks else (),
        )
        if expansion is not None:
            side = _expanded(folder, side, expansion, longest)
        sides.append(side)
    return sides


def _expanded(folder, side, expansion, longest):
    if not isinstance(expansion, dict) or expansion.get("strategy") not in STRATEGIES:
        raise ValueError(
            f"{folder}: query_expansion must have a strategy, one of {STRATEGIES}. Found "
            f"{quote(expansion)}."
        )
    expand = read_size(expansion, "length", QUERY_LENGTH)
    return dataclasses.replace(
        side,
        length=expand if expansion["strategy"] == "fixed" else longest,
        expand=expand,
        attended=_switch(expansion, "attend"),
        token=_text(expansion, "token"),
    )


def _text(settings, key):
    value = settings.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text. Found {quote(value)}.")
    return value or None


def _words(settings, default):
    words = settings.get("skiplist_words")
    if words is None:
        return default
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"`skiplist_words` must be a list of texts. Found {quote(words)}.")
    return tuple(words)


def _switch(settings, key, default=False):
    value = settings.get(key)
    if not isinstance(value, (bool, type(None))):
        raise ValueError(f"`{key}` must be true or false. Found {quote(value)}.")
    return default if value is None else value
