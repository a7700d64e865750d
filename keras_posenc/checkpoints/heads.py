"""Which heads a checkpoint has."""

from keras_posenc.checkpoints.names import TABLES
from keras_posenc.checkpoints.reader import open_checkpoint

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

    Raises:
        ValueError: an unknown family.

    Example:

    >>> heads_in("all-MiniLM-L6-v2")
    {"with_pool": True}
    """
    checkpoint, table = open_checkpoint(checkpoint), table_of_family(model)
    return {
        head: True
        for head, variable in HEADS.items()
        if variable in checkpoint or any(name in checkpoint for name, _ in table.names(variable))
    }


def table_of_family(model):
    """The weight table of a family."""
    if model not in TABLES:
        raise ValueError(f"Unknown model {model!r}: there are {sorted(TABLES)}.")
    return TABLES[model]
