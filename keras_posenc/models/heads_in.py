"""The heads in a checkpoint."""

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
    """Finds the heads in a checkpoint, as keywords of `build_transformer_model`.

    Args:
        checkpoint: a path, or anything else that `open_checkpoint` takes.
        model: the model family; default that of the config, else BERT.
        config: path of the config, a dict or a `Config`; None if there is none.

    Returns:
        dict, keyword -> True.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        TypeError: if the config is not a dict or a path.
        ValueError: if the checkpoint is damaged, or on an unknown family.

    Example:

    >>> heads_in("all-MiniLM-L6-v2")
    {'with_pool': True}
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
