"""Directories as transformers writes them: which file is the config, which have which weights."""

import fnmatch
import pathlib

from keras_posenc.files.untrusted import (
    check_file,
    check_inside,
    parse_json,
    quote,
    read_bytes,
    shorten,
)
from keras_posenc.folders import keras_hub
from keras_posenc.folders.download import SENTENCE_PIECE, from_hub, unfinished

CONFIG_NAMES = ("config.json", "bert_config.json")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", *SENTENCE_PIECE)
PICKLED = "bpe_encoder.bin"
# The weights that are looked for, in this order; a pattern must match one file only.
WEIGHTS = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json", "bert_model.ckpt.index", "model.keras", "model.weights.h5",
    "model.weights.json", "*.safetensors", "*.ckpt*.index", "*.bin", "*.keras",
)  # fmt: skip


def config_name(folder):
    """The name of the file with the config; None if there is none."""
    return next((name for name in CONFIG_NAMES if folder.has(name)), None)


def read_config(folder):
    """The content of the config; {} if there is none."""
    name = config_name(folder)
    return {} if name is None else folder.json(name)


def weights_file(folder):
    """The file that the weights are opened by: it has them, or is an index of those that have."""
    if (file := _weights_file(folder)) is not None:
        return file
    inner = sorted(
        name for name in folder.names() if (folder.path / name / CONFIG_NAMES[0]).is_file()
    )
    hint = f" Give {folder.path / inner[0]}, which has a {CONFIG_NAMES[0]}." if inner else ""
    raise FileNotFoundError(
        f"{folder} holds no checkpoint. Looked for {', '.join(WEIGHTS)}; there is "
        f"{_listed(folder)}.{hint}{unfinished(folder.path)}"
    )


def _weights_file(folder):
    for pattern in WEIGHTS:
        matches = fnmatch.filter(folder.names(), pattern)
        if len(matches) == 1:
            check_file(folder.path / matches[0])
            return folder.place(matches[0])
        if matches:
            raise ValueError(
                f"{folder} holds several checkpoints, name one of them: "
                f"{shorten(', '.join(matches))}."
            )
    return None


def weight_files(folder):
    """The files with the numbers of a checkpoint; an empty list if none is chosen."""
    if folder.file is not None:
        prefix = folder.file.name
        pattern = prefix if folder.has(prefix) else f"{prefix}.data-*"
        return [folder.path / name for name in fnmatch.filter(folder.names(), pattern)]
    try:
        path = _weights_file(folder)
        if path is None:
            return []
        if path.name.endswith(".index.json") or path.name == keras_hub.SHARDS:
            return list(read_index(path)[1].values())
    except (OSError, ValueError):  # opening it tells why
        return []
    if path.suffix == ".index":
        names = fnmatch.filter(folder.names(), f"{path.stem}.data-*")
        return [folder.path / name for name in names]
    return [path]


def tokenizer_file(folder):
    """The file that a tokenizer is made of."""
    vocabulary = keras_hub.vocabulary_name(folder)  # beside a tokenizer.json of another kind
    found = [vocabulary] if vocabulary else [name for name in TOKENIZERS if folder.has(name)]
    if found:
        return folder.place(found[0])
    if folder.has(PICKLED):
        raise ValueError(
            f"{folder.path / PICKLED} is DeBERTa's tokenizer as a pickle, which is not read: put "
            "the tokenizer.json beside it that transformers makes of its vocab.json and merges.txt."
        )
    if folder.base is not None:
        return folder.base.tokenizer_file
    if not folder.is_directory:
        raise FileNotFoundError(
            f"No tokenizer at {folder}: give a vocab.txt, a tokenizer.json, another of "
            f"{', '.join(TOKENIZERS[2:])}, or a directory of one.{from_hub(folder)}"
        )
    raise FileNotFoundError(
        f"No tokenizer ({', '.join(TOKENIZERS)}) in {folder}, which holds: {_listed(folder)}."
    )


def _listed(folder):
    return shorten(", ".join(folder.names())) or "nothing"


LONGEST = 255  # characters of a file's name


def read_index(path):
    """Which tensor of a sharded checkpoint lies in which files, and the paths of these."""
    data = read_bytes(path)
    try:
        places = parse_json(data)["weight_map"]
        # Keras lists several files for a layer whose weights do not fit into one.
        places = {name: at if isinstance(at, list) else [at] for name, at in places.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        places = {}
    shards = [shard for at in places.values() for shard in at]
    if not shards:
        raise ValueError(
            f'{path} is damaged: it should be JSON with a "weight_map" from each tensor to its '
            "file. Download it again."
        )
    for shard in shards:
        if not isinstance(shard, str) or not is_plain(shard) or shard.endswith(".index.json"):
            raise ValueError(
                f"{path} is refused: it names {quote(str(shard))} as a file beside it."
            )
    files = {shard: path.parent / shard for shard in sorted(set(shards))}
    lost = [shard for shard, file in files.items() if not file.exists()]
    if lost:
        raise FileNotFoundError(
            f"{path} names files that are not beside it: {shorten(', '.join(lost))}. Download them "
            f"again into {path.parent}.{unfinished(path.parent)}"
        )
    for file in files.values():
        check_inside(file, path.parent)
    return places, files


def is_plain(name):
    """Whether a name can only mean a file of the folder, on every system."""
    kinds = (pathlib.PurePosixPath, pathlib.PureWindowsPath)
    sound = name not in ("", "..") and len(name) <= LONGEST and name.isprintable()
    return sound and all(kind(name).name == name for kind in kinds)
