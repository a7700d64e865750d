"""What a checkpoint holds, what of it would load, and a model of all of it."""

import dataclasses
import math
import pathlib

from keras_posenc.checkpoints import TABLES, compare_checkpoint, open_checkpoint
from keras_posenc.models.config import CONFIG_NAMES, read_config
from keras_posenc.models.factory import build_transformer_model

# Argument of the factory -> a variable that tells whether a checkpoint has that head.
HEADS = {
    "with_pool": "Pooler-Dense/kernel",
    "with_nsp": "NSP-Proba/kernel",
    "with_mlm": "MLM-Bias/bias",
}


def heads_in(checkpoint, model="bert"):
    """The heads that a checkpoint has, as keywords of `build_transformer_model`.

    Args:
        checkpoint: a path or what else `open_checkpoint` takes.
        model: the family, "bert" or "roberta".

    Returns:
        dict, argument -> True.

    Example:

    >>> heads_in("all-MiniLM-L6-v2")
    {"with_pool": True}
    """
    checkpoint, table = open_checkpoint(checkpoint), _table(model)
    return {
        head: True
        for head, variable in HEADS.items()
        if variable in checkpoint or any(name in checkpoint for name, _ in table.names(variable))
    }


def open_model(
    checkpoint, config=None, model="bert", *, stretch=None, alpha=None, max_position=None
):
    """Builds a model with everything in a checkpoint, heads included, to convert or save.

    Args:
        checkpoint: path of the weights, or of a directory with weights and config.
        config: path of the config; default the directory of `checkpoint`.
        model: the family, "bert" or "roberta".
        stretch: None, or how to serve more positions: "hierarchical", "tile", "interpolate" or
            "fresh".
        alpha: float. Weight of the coarse digit in the hierarchical stretch; default 0.4.
        max_position: int. Number of positions to serve, if stretched.

    Returns:
        A functional `keras.Model` from `build_transformer_model`.

    Raises:
        FileNotFoundError: if the weights or the config are missing.
        ValueError: if the checkpoint does not fit the config.

    Example:

    >>> model = open_model("all-MiniLM-L6-v2", stretch="hierarchical", max_position=1536)
    >>> [tuple(output.shape) for output in model.outputs]  # the pooler's
    [(None, 384)]
    """
    if alpha is not None and stretch not in (None, "hierarchical"):
        raise ValueError(f"alpha belongs to stretch='hierarchical'. Received: stretch={stretch!r}")
    return build_transformer_model(
        config or _beside(checkpoint),
        checkpoint,
        model=model,
        stretch=stretch,
        hierarchical_position=alpha,
        max_position=max_position,
        **heads_in(checkpoint, model),
    )


def inspect_checkpoint(checkpoint, config=None, model="bert"):
    """Describes what a checkpoint contains and what of it would load, without loading it.

    Args:
        checkpoint: path of the weights, or of a directory with weights and config.
        config: path of the config; default the directory of `checkpoint`.
        model: the family, "bert" or "roberta".

    Returns:
        str of several lines: every tensor with its dtype and shape, the config, and the account
            that loading would give.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ValueError: if it is damaged.

    Example:

    >>> print(inspect_checkpoint("all-MiniLM-L6-v2").splitlines()[0])
    all-MiniLM-L6-v2/model.safetensors: safetensors, 104 tensors, 22,713,728 numbers
    """
    opened, table = open_checkpoint(checkpoint), _table(model)
    parts = [_content(opened)]
    try:
        config = config or _beside(checkpoint)
        sizes = read_config(config)
        heads = heads_in(opened, model)
        transformer = build_transformer_model(
            config, model=model, return_keras_model=False, **heads
        )
        account = compare_checkpoint(
            transformer.layers, opened, table, position_offset=sizes.position_offset
        )
        parts += ["Config", _fields(sizes), f"Loading, with {_words(heads)}", str(account)]
    except (FileNotFoundError, ValueError) as error:
        parts += ["Loading", f"What would load is not known: {error}"]
    return "\n\n".join(parts)


def _table(model):
    if model not in TABLES:
        raise ValueError(f"Unknown model {model!r}: there are {sorted(TABLES)}.")
    return TABLES[model]


def _beside(checkpoint):
    """The directory of a checkpoint, where its config lies."""
    path = pathlib.Path(checkpoint)
    directory = path if path.is_dir() else path.parent
    if not any((directory / name).is_file() for name in CONFIG_NAMES):
        raise FileNotFoundError(
            f"There is no {' or '.join(CONFIG_NAMES)} in {directory}: name the config "
            "(config=; --config on the command line)."
        )
    return directory


def _content(checkpoint):
    shapes = {name: tuple(checkpoint.shape(name)) for name in checkpoint}
    width = max(map(len, shapes), default=0)
    lines = [
        f"  {name:{width}}  {str(checkpoint.dtype(name)):9}  {shape}"
        for name, shape in shapes.items()
    ]
    count = sum(math.prod(shape) for shape in shapes.values())
    head = f"{checkpoint.path}: {checkpoint.format}, {len(shapes)} tensors, {count:,} numbers"
    return "\n".join([head, *lines])


def _fields(config):
    return "\n".join(f"  {name} = {value!r}" for name, value in dataclasses.asdict(config).items())


def _words(heads):
    return ", ".join(heads) or "no head"
