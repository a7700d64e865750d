"""Reading a `Config` from the JSON of a checkpoint."""

import dataclasses
import os

from keras_posenc.checkpoints.keras_hub.reading import read_preset_config
from keras_posenc.checkpoints.quantized import check_config as check_quantized
from keras_posenc.encodings import get as get_encoding
from keras_posenc.files.untrusted import parse_json, quote, read_bytes, shorten
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.huggingface import CONFIG_NAMES, config_name
from keras_posenc.folders.keras_hub import is_preset
from keras_posenc.layers import activations
from keras_posenc.models.config import CHOICES, FIELDS, FLAGS, WITH_ENCODINGS, Config, plain
from keras_posenc.models.families import FAMILIES, choose_family
from keras_posenc.models.families.family import ALIASES, BIDIRECTIONAL, nearest, read_direction
from keras_posenc.models.families.keys import (
    IRRELEVANT,
    READ_BY_ALL,
    REFUSALS,
    REQUIRED_VALUES,
    check_finite,
    check_kinds,
)

MOST_KEYS = 1000
MOST_ERROR = 2000
# Hugging Face keys with names close to ours and another meaning.
HARMLESS = {*IRRELEVANT, *READ_BY_ALL, "hidden_sizes", "pad_token", "vocab_file"}


def read_config(source=None, model=None, **overrides):
    """Reads a `Config` from a JSON file, a directory that holds one, or a dict.

    The family is that of `model`, else of the key `model_type`, else BERT; it determines the known
    keys and their meaning. Keys that do not affect the computation (labels, versions, ...) are
    ignored. A key that resembles a known one is an error, and so is a value that the model does
    not support.

    Args:
        source: str, path, dict or None. Path of bert_config.json or config.json, a directory with
            one of them, or a dict.
        model: str or None. Name of the family in `keras_posenc.models.families.FAMILIES`.
        **overrides: Fields of `Config`, or their names in the files of Google, Hugging Face and the
            family. They take precedence over `source`.

    Returns:
        A `Config`.

    Raises:
        FileNotFoundError: if there is no such file, or no config in the directory.

    Example:

    >>> read_config("bert", hidden_dropout_prob=0.0).dropout_rate
    0.0
    """
    overrides = {key: plain(value) for key, value in overrides.items()}
    if isinstance(source, Config):
        return _replaced(source, overrides)
    values, where = _values(source)
    try:
        family = choose_family({**values, **overrides}, model)
        _check_required({**values, **overrides}, family, where)
        values = _overridden(values, overrides, family)
        _check_spelling(values, family, where)
        return _configured(_fields(values, family, where), values, family)
    except _Located as error:
        raise ValueError(*error.args) from None
    except ValueError as error:
        raise _named(error, where, source) from None
    except (TypeError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
        error = ValueError(f"A value is of another kind than its key needs ({shorten(error)}).")
        raise _named(error, where, source) from None


class _Located(ValueError):
    """An error that names the config's place."""


def _replaced(config, overrides):
    """A `Config` with other fields, by any of their names, as its file would have it with them."""
    family = FAMILIES[config.family]
    overrides = {family.ours(key): value for key, value in overrides.items()}
    if config.source is None or not overrides:
        return dataclasses.replace(config, **overrides)
    if overrides.get("max_position") is not None:  # a file counts those behind the padding id, too
        overrides["max_position"] += config.position_offset
    values = config.to_huggingface(config.saved_encodings)
    before, after = (read_config(values, config.family, **each) for each in ({}, overrides))
    # What was replaced in the config, and is not in its file.
    changed = {
        name: getattr(config, name)
        for name in FIELDS
        if name not in overrides and getattr(config, name) != getattr(before, name)
    }
    return dataclasses.replace(after, **changed)


def _values(source):
    """The keys and values of a source, and where they are."""
    if source is None or isinstance(source, dict):
        values, where = dict(source or {}), "the keywords" if source is None else "the config"
    else:
        values, where = _load(source)
    if isinstance(values.get("model_type"), str):
        values["model_type"] = values["model_type"].removeprefix(WITH_ENCODINGS)
    return values, where


def _check_required(values, family, where):
    """Refuses values that change what is computed in a way that the family does not know."""
    for key, allowed in {**REQUIRED_VALUES, **family.required}.items():
        if allowed is not None and values.get(key) not in allowed:
            refusal = None if key in family.required else REFUSALS.get(key)
            refusal = refusal or f"The family {family.name!r} knows no other value."
            raise _Located(f"{refusal} Found {key}={quote(values.get(key))} in {where}.")


def _overridden(values, overrides, family):
    """The values of a file with others, each in the file's own words."""
    ours = family.ours
    fields = set(map(ours, overrides))
    # The further rates of fields that are overridden would contradict them.
    values = {k: value for k, value in values.items() if family.rates.get(k) not in fields}
    for key, value in overrides.items():
        others = [other for other in values if ours(other) == ours(key)]
        for other in others:
            del values[other]
        if ours(key) == "causal":
            values.pop(BIDIRECTIONAL, None)
        values[others[0] if others else key] = value
    return values


def _check_spelling(values, family, where):
    """Refuses keys that resemble a known one."""
    # A key that the family's file has cannot be what another key of it misspells.
    family_keys = {key for key in family.keys_read if key in values}
    known = {*FIELDS, *ALIASES, *REQUIRED_VALUES, *family.keys_read} - family_keys
    for key in values:
        short = len(key) < 100  # comparing takes as long as the square of a key
        compared = short and key not in known | family_keys | HARMLESS
        if near := nearest(key, known, 0.85) if compared else []:
            raise _Located(f"Unknown key {quote(key)} in {where}: did you mean {near[0]!r}?")


def _fields(values, family, where):
    """The fields of `Config` that are given, none of which is missing."""
    fields = {family.ours(key): value for key, value in values.items()}
    # A switch without a value is as the family has it.
    fields = {
        key: value
        for key, value in fields.items()
        if key in FIELDS and (value is not None or key not in (*FLAGS, *CHOICES))
    }
    fields = {**family.defaults, **fields, "causal": read_direction(values, family)}
    needed = [f.name for f in dataclasses.fields(Config) if f.default is dataclasses.MISSING]
    missing = [name for name in needed if name in FIELDS and name not in fields]
    if missing:
        raise _Located(
            f"Missing in {where}: {', '.join(missing)}. Is it the config of a {family.title}?"
        )
    fields.pop("encodings", None)
    return fields


def _configured(fields, values, family):
    """The `Config`, after the checks of its values."""
    check_finite(values)
    check_quantized(values)
    check_kinds(values, family)
    if values.get("encodings") is not None:
        check_specs(values["encodings"])
    config = family.configure(Config(**fields, family=family.name, source=values))
    check_names(config)
    return config


def _named(error, where, source):
    """The error, with the file in front where there is one."""
    error = shorten(error, MOST_ERROR)
    return ValueError(error if source is None or isinstance(source, dict) else f"{where}: {error}")


def _load(path):
    """The keys and values in a file, or in the config of a directory, and where they are."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"A config is a path, a dict or a Config. Received: {quote(path)}")
    folder = Folder.of(path)
    if folder.is_directory or folder is path and folder.file:  # beside the weights
        folder = folder.base or folder
        name = config_name(folder)
        if name is None:
            raise FileNotFoundError(
                f"No {' or '.join(CONFIG_NAMES)} in the directory {folder}: give the path of the "
                "config, or put one there."
            )
        path, values = folder.path / name, folder.config
    else:
        path = folder.file or folder.path
        values = _parsed(path)
    if is_preset(values):
        values = read_preset_config(values, path)
    if len(values) > MOST_KEYS:  # each is compared to all known ones
        raise ValueError(f"{path} has {len(values)} keys, more than a config has.")
    return values, os.fspath(path)


def _parsed(path):
    if not path.is_file():
        raise FileNotFoundError(
            f"No config at {path}: give a JSON file or a directory with one.{from_hub(path)}"
        )
    data = read_bytes(path)
    try:
        values = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"{path} is not JSON ({shorten(error)}): give the config, not the weights."
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not the keys of a config.")
    return values


MOST_SPEC = 2000  # characters
MOST_INTEGER = 2**22  # in the arguments of an encoding, except its base


def check_names(config):
    """Tries the activations and encodings that a config names, once each."""
    for name in ("hidden_act", "mlm_act"):
        act = getattr(config, name)
        try:
            activations.get(act) if act is not None else None
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    named = config.saved_encodings or ()
    tried = []
    for layer in (*config.encodings, *named):
        for spec in layer if isinstance(layer, (list, tuple)) else [layer]:
            if spec not in tried:
                tried.append(spec)
                try:
                    get_encoding(spec)
                except (ValueError, TypeError) as error:
                    where = "`encodings`" if named and config.encodings == () else "Positions"
                    raise ValueError(f"{where}: {error}") from None


def check_specs(encodings):
    """Refuses encodings in a file that are not words and numbers: Keras makes no class of those."""
    layers = encodings if isinstance(encodings, (list, tuple)) else [None]
    lists = [spec if isinstance(spec, (list, tuple)) else [spec] for spec in layers]
    if not all(_is_spec(spec) for specs in lists for spec in specs):
        raise ValueError(
            "`encodings` must be a list of names and dicts of numbers and words, or one such list "
            f"a layer. Found {quote(encodings)}."
        )


def _is_spec(spec):
    if len(str(spec)) > MOST_SPEC:
        return False
    if not isinstance(spec, dict):
        return isinstance(spec, str)
    named = isinstance(spec.get("name"), str) and all(map(str.isidentifier, spec))
    large = [k for k, v in spec.items() if isinstance(v, int) and v > MOST_INTEGER and k != "base"]
    return named and not large and all(map(_is_plain, spec.values()))


def _is_plain(value):
    """Words, numbers, and lists and dicts of them in which Keras sees no object."""
    if isinstance(value, dict):
        return "class_name" not in value and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float, type(None)))
