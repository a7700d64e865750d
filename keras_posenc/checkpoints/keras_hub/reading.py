"""Reads the config and the weights of a preset; KerasHub is not needed for it."""

import re

from keras_posenc.checkpoints.checkpoint import array_over, mapped, numpy_dtype
from keras_posenc.checkpoints.keras_file import RefusedModelError, check_numbers
from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES
from keras_posenc.files.untrusted import check_file, check_inside, quote, shorten
from keras_posenc.folders.huggingface import read_index
from keras_posenc.folders.keras_hub import PACKAGE, WEIGHTS, is_preset


def backbone_of(values, where):
    """The name of the backbone's class and its config.

    `values`: dict, the content of a preset's config.json. `where`: its path, for errors.
    """
    name = values["registered_name"]
    found = PACKAGE.fullmatch(name)
    config = values.get("config")
    if not found or found[1] not in BACKBONES or not isinstance(config, dict):
        raise ValueError(
            f"{where} describes a {quote(name)} of Keras, which is not read. Presets of KerasHub "
            f"that are: {', '.join(BACKBONES)}."
        )
    return found[1], config


def read_preset_config(values, where):
    """The config of a preset in Hugging Face's words.

    `values`: dict, the content of a preset's config.json. `where`: its path, for errors. Returns a
    dict with `model_type`.

    Example:

    >>> sizes = {"vocabulary_size": 9, "num_layers": 1, "num_heads": 1, "hidden_dim": 8}
    >>> values = {"registered_name": "keras_hub>BertBackbone", "config": sizes}
    >>> read_preset_config(values, "config.json")["hidden_act"]
    'gelu_new'
    """
    name, config = backbone_of(values, where)
    backbone = BACKBONES[name]
    for key, allowed in backbone.neutral.items():
        if config.get(key, allowed[0]) not in allowed:
            raise ValueError(f"{where}: a {name} with {key}={quote(config[key])} is not read.")
    ours = {"model_type": backbone.model_type, **backbone.values}
    ours |= {theirs: config[key] for key, theirs in backbone.keys.items() if key in config}
    try:
        backbone.read(config, ours)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{where}: the config of the {name} lacks {shorten(error)}.") from None
    return ours


def read_preset(folder, path):
    """The weights of a preset, memory-mapped.

    `path`: `pathlib.Path` of model.weights.h5, or of the index of several. Returns `(arrays,
    name)`: dict of arrays by their paths in the file, with a number for every block, and the name
    of the backbone's class. Raises ImportError without h5py.
    """
    values, config = folder.json("config.json"), folder.path / "config.json"
    if not is_preset(values):
        raise ValueError(
            f"{path} is an HDF5 file without the config.json of a KerasHub preset beside it: save "
            "the model as safetensors or .keras."
        )
    name, _ = backbone_of(values, config)
    files = [path] if path.name == WEIGHTS else read_index(path)[1].values()
    arrays = {}
    for file in files:
        check_inside(file, folder.path)
        arrays |= _read(file, BACKBONES[name])
    return shifted(arrays, BACKBONES[name]), name


def _read(path, backbone):
    import h5py  # Keras depends on it

    check_file(path)
    arrays, buffer = {}, mapped(path)
    try:
        with h5py.File(path, "r") as file:
            check_numbers(file, buffer.size)
            for name, item in datasets(file, backbone).items():
                arrays[name] = _ordered(_array(item, buffer), name, backbone)
    except RefusedModelError as error:
        raise ValueError(f"{path} is refused: {shorten(error)}.") from None
    except Exception as error:  # h5py raises what the library behind it happens to find
        raise ValueError(f"{path} is damaged ({shorten(error)}). Download it again.") from None
    return arrays


def datasets(file, backbone):
    """{name: dataset} of the weights, by the names that the rows of a backbone have.

    `file`: `h5py.File` of a model.weights.h5.
    """
    import h5py

    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset) and "/seed_generator" not in name:
            found[numbered(name, backbone)] = item

    file.visititems(add)
    return found


def shifted(found, backbone):
    """The same dict by the names that layers have here (`Backbone.shifted`).

    `found`: dict by the names of all weights of a model: of all its files, if there are several.
    """
    for name, other in backbone.shifted.items():
        if not any(each.startswith(f"{other}/") for each in found):
            found = {
                other + each.removeprefix(name) if each.startswith(f"{name}/") else each: item
                for each, item in found.items()
            }
    return found


def numbered(name, backbone):
    """The path of a weight with a number for every block, also for the first.

    `name`: str, a path in model.weights.h5.

    Example:

    >>> numbered("layers/transformer_encoder/vars/0", BACKBONES["BertBackbone"])
    'layers/transformer_encoder_0/vars/0'
    """
    pattern = rf"(layers/{backbone.block})(?:_(\d+))?/"
    return re.sub(pattern, lambda found: f"{found[1]}_{found[2] or 0}/", name)


def _array(item, buffer):
    dtype = item.dtype
    if item.attrs.get("dtype") == "bfloat16":
        dtype = numpy_dtype("bfloat16")
    offset = item.id.get_offset()
    if offset is None or dtype.itemsize != item.dtype.itemsize:
        return item[()].astype(dtype)
    return array_over(buffer, item.shape, dtype, offset)


def _ordered(array, name, backbone):
    """The array with the axes of ours: rows, heads, columns."""
    queries = re.search(r"/(?:query|key|value)_dense/vars/0\Z", name)
    return array.swapaxes(0, 1) if backbone.heads_first and queries else array
