"""What a checkpoint contains, what of it would load, and a model with all of it."""

import contextlib
import dataclasses
import json
import math
import pathlib

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.load import Loader
from keras_posenc.files.untrusted import shorten
from keras_posenc.folders.download import from_hub
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.huggingface import CONFIG_NAMES, config_name
from keras_posenc.folders.written import sentence_transformers_files, write_files
from keras_posenc.models.config_file import read_config
from keras_posenc.models.config_layers import check_size, fit_labels
from keras_posenc.models.extension import Extension, former_arguments
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.heads_in import heads_in
from keras_posenc.text import Tokenizer
from keras_posenc.training.runs import with_extension

MOST_VALUE = 2000  # characters


@former_arguments
def open_model(
    checkpoint,
    config=None,
    model=None,
    *,
    extension=None,
    max_position=None,
    ignore=None,
    adapter=None,
):
    """Returns a model with everything in a checkpoint, heads included, to convert or save.

    Args:
        checkpoint: str. Path of the weights, or of a directory with weights and config.
        config: str. Path of the config. Default: the config in the directory of `checkpoint`.
        model: str. Family of the checkpoint. Default: the one its config names.
        extension: `Extension`, str or dict. How to serve more positions than the checkpoint has,
            such as "hierarchical" or "yarn:4". None serves only those it has.
        max_position: int. Number of positions to serve, if stretched.
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*
        adapter: str. Directory of a LoRA adapter in PEFT's format, which is merged into the
            weights.

    Raises:
        FileNotFoundError: if the weights or the config are missing.

    Example:

    >>> model = open_model("all-MiniLM-L6-v2", extension="hierarchical", max_position=1536)
    >>> [tuple(output.shape) for output in model.outputs]  # the pooler's
    [(None, 384)]
    """
    folder = Folder.of(checkpoint)
    config = config or _config_folder(folder)
    return build_transformer_model(
        config,
        folder,
        model=model,
        extension=extension,
        max_position=max_position,
        ignore=ignore,
        adapter=adapter,
        **heads_in(folder, model, config),
    )


class Inspection(str):
    """The description of a checkpoint, as text.

    Attributes:
        problem: str. Why the checkpoint cannot be loaded, or None.
    """

    problem = None

    def check(self):
        """Raises ValueError if the checkpoint cannot be loaded."""
        if self.problem:
            raise ValueError(self.problem)


def inspect_checkpoint(checkpoint, config=None, model=None, ignore=None, full=False):
    """Describes what a checkpoint contains and whether it can be loaded, without loading it.

    Args:
        checkpoint: str. Path of the weights, or of a directory with weights and config.
        config: str. Path of the config. Default: the config in the directory of `checkpoint`.
        model: str. Family of the checkpoint. Default: the one its config names.
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*
        full: bool. List every tensor, every field of the config, and what becomes of each tensor.

    Returns:
        str of several lines, the last of which is the verdict. Its `check()` raises ValueError if
            the checkpoint cannot be loaded.

    Raises:
        FileNotFoundError: if there is no checkpoint.

    Example:

    >>> found = inspect_checkpoint("all-MiniLM-L6-v2").splitlines()
    >>> print(found[0])
    all-MiniLM-L6-v2/model.safetensors: safetensors, 104 tensors, 22,713,728 numbers
    >>> print(found[-1])
    It can be loaded as bert: build_transformer_model("all-MiniLM-L6-v2", with_pool=True)
    """
    folder = Folder.of(checkpoint)
    opened = open_checkpoint(folder)
    parts, problem = [_content(opened) if full else _head(opened)], None
    try:
        config = read_config(config or _config_folder(folder), model)
        parts.append(f"Config\n\n{_fields(config)}" if full else _sizes(config))
        parts += _recorded_extension(folder)
        loader = Loader(
            opened,
            FAMILIES[config.family].table(config),
            position_offset=config.position_offset,
            ignore=ignore,
        )
        check_size(config, loader)
        heads = heads_in(opened, model, config)
        if "head" in heads:
            config = fit_labels(config, loader, heads["head"])
        transformer = build_transformer_model(
            config, model=model, return_keras_model=False, **heads
        )
        account, _ = loader.match(transformer.layers)
        parts.append(str(account) if full else account.summary())
        problem = account.problem()
        call = "".join(f", {name}={json.dumps(value)}" for name, value in heads.items())
        call = call.replace("=true", "=True")
        verdict = (
            f"It can be loaded as {config.family}: build_transformer_model("
            f'"{shorten(checkpoint)}"{call})'
        )
    except FileNotFoundError as error:
        verdict = f"Whether it can be loaded is not known: {error}"
    except ValueError as error:
        problem = str(error)
    parts.append(f"It cannot be loaded: {problem}" if problem else verdict)
    inspection = Inspection(("\n\n" if full else "\n").join(parts))
    inspection.problem = problem
    return inspection


def _config_folder(folder):
    """The folder of a checkpoint, or of its base, which must have a config."""
    home = folder.base or folder
    if config_name(home) is None:
        raise FileNotFoundError(
            f"There is no {' or '.join(CONFIG_NAMES)} in {home.path}: give the path of the config "
            f"as `config`.{from_hub(home.path)}"
        )
    return home


def _content(checkpoint):
    shapes = {name: tuple(checkpoint.shape(name)) for name in checkpoint}
    names = [shorten(name) for name in shapes]
    width = max(map(len, names), default=0)
    lines = [
        f"  {name:{width}}  {str(checkpoint.dtype(given)):9}  {shorten(shape)}"
        for name, (given, shape) in zip(names, shapes.items(), strict=True)
    ]
    return "\n".join([_head(checkpoint), *lines])


def _head(checkpoint):
    count = sum(math.prod(checkpoint.shape(name)) for name in checkpoint)
    return (
        f"{shorten(checkpoint.path)}: {checkpoint.format}, {len(checkpoint)} tensors, "
        f"{count:,} numbers"
    )


def _sizes(config):
    """What a reader wants to know first."""
    sizes = {
        "family": config.family,
        "layers": config.num_hidden_layers,
        "features per token": config.hidden_size,
        "heads": config.num_attention_heads,
        "vocabulary": f"{config.vocab_size:,}",
        "positions": f"{config.max_position:,}" if config.position_table else "no table",
    }
    return "\n".join(f"{name}: {value}" for name, value in sizes.items())


def _recorded_extension(folder):
    """A line on how positions are extended by the record of the run that made a directory."""
    try:
        recipe = folder.recipe
        recipe = recipe if "extension" in recipe else with_extension(recipe)
        extension = Extension.of(recipe["extension"])
    except (TypeError, ValueError) as error:
        return [shorten(f"extension: recipe.json is not readable: {error}", MOST_VALUE)]
    return [] if extension is None else [shorten(f"extension: {extension}", MOST_VALUE)]


def _fields(config):
    fields = [field.name for field in dataclasses.fields(config) if field.repr]
    values = {name: shorten(repr(getattr(config, name)), MOST_VALUE) for name in fields}
    return "\n".join(f"  {name} = {value}" for name, value in values.items())


def copy_settings(sources, directory, max_length=None):
    """Writes tokenizer, pooling and prompts of other directories beside a checkpoint.

    Args:
        sources: list of str or path. Directories; of several, the last one that has a file counts.
            What is no directory is left out, and so is an adapter behind the first whose base model
            is not here.
        directory: str or path. Where the checkpoint is.
        max_length: int. Tokens after which sentence-transformers is to cut texts. Default: as in
            `sources`.

    Raises:
        FileNotFoundError: if the base model of a first adapter, or a module, is missing.

    Example:

    >>> _ = save_checkpoint(build_transformer_model("all-MiniLM-L6-v2"), "copy")
    >>> copy_settings(["all-MiniLM-L6-v2"], "copy")
    >>> embed("copy", ["A text."], verbose=0).shape
    (1, 384)
    """
    folders = [folder for source in sources if (folder := Folder.of(source)).is_directory]
    for folder in _with_bases(folders):
        with contextlib.suppress(FileNotFoundError):  # no tokenizer
            Tokenizer(folder).save(directory)
        write_files(pathlib.Path(directory), sentence_transformers_files(folder, max_length))


def _with_bases(folders):
    """The folders to read, bases first: an adapter alone takes from its base what it lacks."""
    bases, found = [], []
    for number, folder in enumerate(folders):
        try:
            base = folder.base
        except (FileNotFoundError, ValueError):
            if number:  # its base is the directory before, whatever its file names
                continue
            raise
        bases += [] if base is None else [base]
        found.append(folder)
    return [*bases, *found]
