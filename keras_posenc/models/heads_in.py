"""Which heads a checkpoint has."""

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.models.config import read_config
from keras_posenc.models.families import FAMILIES, choose_family

# Argument of the factory -> a variable that tells whether a checkpoint has that head.
HEADS = {
    "with_pool": "Pooler-Dense/kernel",
    "with_nsp": "NSP-Proba/kernel",
    "with_mlm": "MLM-Bias/bias",
}


def heads_in(checkpoint, model=None, config=None):
    """The heads that a checkpoint has, as keywords of `build_transformer_model`.

    Args:
        checkpoint: a path or what else `open_checkpoint` takes.
        model: the family; default what the config says, else BERT.
        config: path of the config, a dict or a `Config`; None if there is none.

    Returns:
        dict, argument -> True.

    Raises:
        ValueError: on a family that is not known.

    Example:

    >>> heads_in("all-MiniLM-L6-v2")
    {"with_pool": True}
    """
    checkpoint = open_checkpoint(checkpoint)
    config = None if config is None else read_config(config, model)
    family = FAMILIES[config.family] if config else choose_family({}, model)
    table = family.table(config)
    return {
        head: True
        for head, variable in HEADS.items()
        if variable in checkpoint or any(p.name in checkpoint for p in table.names(variable))
    }
