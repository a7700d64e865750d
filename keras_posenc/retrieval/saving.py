"""Models of retrieval, written in the format that they came in."""

import json
import pathlib

import numpy as np

from keras_posenc.checkpoints.export import save_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.files.untrusted import read_object
from keras_posenc.files.writing import make_folder, write_text
from keras_posenc.folders.sentence_transformers import MODULES
from keras_posenc.folders.written import replacing_together, write_files


def save_as_read(model, tokenizer, max_length, files, directory, finish=None, cuts=True):
    """Writes weights, config, tokenizer and what lies around them, all of them or none; returns the
    paths.

    `max_length` positions are written as plain rows, if the table is an extended one, and texts are
    to be cut there if `cuts`. `files` are bytes by path, or a dict of arrays for a .safetensors
    file. `finish` is called with the new folder at the end.
    """
    directory = pathlib.Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file: give a directory to write into.")
    config = getattr(model, "transformer", model).config
    with replacing_together(directory) as folder:
        save_checkpoint(model, folder, positions=config.beyond_table(max_length))
        tokenizer.save(folder)
        if cuts and MODULES not in files and max_length is not None:
            path = folder / "tokenizer_config.json"
            settings = read_object(path, folder) | {"model_max_length": max_length}
            write_text(path, json.dumps(settings, indent=2, ensure_ascii=False))
        arrays = {name: data for name, data in files.items() if isinstance(data, dict)}
        write_files(folder, {name: files[name] for name in files.keys() - arrays.keys()})
        for name, data in arrays.items():
            make_folder((folder / name).parent)
            write_safetensors(folder / name, data)
        if finish is not None:
            finish(folder)
        names = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return [str(directory / name) for name in names]


def module_arrays(modules, model, files):
    """The arrays by .safetensors file of the modules behind a transformer, whose layers are named
    by the kind of the module and a number; the files that they replace are removed from `files`."""
    found = {}
    for kind in ("Dense", "LayerNorm"):
        layers = [layer for layer in model.layers if layer.name.startswith(f"{kind}-")]
        folders = [module.folder for module in modules if module.kind == kind]
        for folder, layer in zip(folders, layers, strict=True):
            name = folder.path.name
            files.pop(f"{name}/pytorch_model.bin", None)
            found[f"{name}/model.safetensors"] = layer_arrays(layer)
    return found


def layer_arrays(layer):
    """The weights of a dense layer or a norm under the names of PyTorch."""
    kernel, *bias = layer.get_weights()
    if kernel.ndim == 1:
        return {"norm.weight": kernel, "norm.bias": bias[0]}
    arrays = {"linear.weight": np.ascontiguousarray(kernel.T)}
    return arrays | ({"linear.bias": bias[0]} if bias else {})
