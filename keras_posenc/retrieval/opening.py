"""What opens the directory of an encoder for texts of a given length, and writes it as it came."""

import json
import pathlib

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.checkpoints.export import save_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.files.untrusted import quote, read_object
from keras_posenc.files.writing import make_folder, write_text
from keras_posenc.folders.sentence_transformers import MODULES, prompt_of_side, read_longest
from keras_posenc.folders.written import replacing_together, write_files
from keras_posenc.models.config_file import read_config
from keras_posenc.models.extension import Extension
from keras_posenc.text import Tokenizer
from keras_posenc.text.truncation import LOGGER
from keras_posenc.training.saved_models import load_finetuned
from keras_posenc.training.source import check_table, padding_id


def read_encoder(transformer, *, max_length, extension, pair=False):
    """Reads a transformer's tokenizer and length, and what its positions need for that length:
    arguments of `build_transformer_model`.

    The default length is that of the directory, or else as many tokens as the model has positions.
    """
    tokenizer = _tokenizer(transformer)
    config = read_config(transformer.folder)
    check_table(tokenizer, config.vocab_size)
    positions = config.max_position if config.position_table else None
    extension = Extension.of(extension)
    extended = extension is not None and extension.table is not None
    explicit = max_length is not None
    if explicit:
        checks.whole("max_length", max_length, least=tokenizer.special_tokens(pair) + 1)
    else:
        max_length = read_longest(transformer)
    if positions is not None and not extended and (max_length is None or max_length > positions):
        if explicit:
            scaling = None if extension is None else extension.rope_scaling
            extension, extended = Extension("hierarchical", rope_scaling=scaling), True
            LOGGER.warning(
                f"{transformer.folder} has {positions:,} trained positions, and those up to "
                f"max_length={max_length} are not trained, so the result may be poor. Train them "
                'first with keras_posenc.stretch, or give reading="chunks:256".'
            )
        else:
            max_length = positions
    tokenizer.pad_id = padding_id(tokenizer, config)
    arguments = {"extension": extension, "pad_token_id": tokenizer.pad_id}
    if extended:
        arguments["max_position"] = max_length
    arguments = {name: value for name, value in arguments.items() if value is not None}
    return tokenizer, max_length, arguments


def open_finetuned(folder, max_length, token_budget, **unused):
    """Opens a model as `finetune` trained it: with its length, and positions for that length; None
    if the directory is no output of `finetune`. Arguments that change an encoder are refused."""
    if not folder.finetuned:
        return None
    if given := [name for name, value in unused.items() if value is not None]:
        raise ValueError(
            f"{folder} holds a model that was fine-tuned at its length: leave "
            f"{' and '.join(given)} out."
        )
    return load_finetuned(folder, max_length, token_budget)


def choose_prompt(folder, prompt=None, side=None):
    """What precedes every text: the prompt of that name, or the text that is given; else the one of
    the side, "query" or "document"; else the one that the directory puts before all texts."""
    prompts, default = folder.prompts
    if prompt is None:
        return prompts.get(default, "") if side is None else prompt_of_side(prompts, default, side)
    if not isinstance(prompt, str):
        raise TypeError(f"`prompt` must be a str. Received: {quote(prompt)}")
    return prompts.get(prompt, prompt)


def side_prompt(folder, prompt, side):
    """The `prompt` of `open_embedder` for queries or for documents; one that is given counts."""
    if prompt is not None:
        return prompt
    if folder.finetuned:
        return (folder.finetuned["prompts"] or {}).get(side)
    return choose_prompt(folder, side=side)


def _tokenizer(transformer):
    tokenizer = Tokenizer(transformer.folder)
    if transformer.config.get("do_lower_case") and tokenizer.tokenize("A") != tokenizer.tokenize(
        "a"
    ):
        return Tokenizer(transformer.folder, lowercase=True, strip_accents=False)
    return tokenizer


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
