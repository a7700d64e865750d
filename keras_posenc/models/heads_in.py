"""The heads in a checkpoint."""

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.models.config import read_config
from keras_posenc.models.families import FAMILIES, choose_family
from keras_posenc.models.families.task_heads import TASKS

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
        dict, keyword -> True; or {"head": task}, if the config says that it is a task's.

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
    if task := _task_in(checkpoint, config, family, table):
        return {"head": task}
    return {
        head: True
        for head, variable in HEADS.items()
        if variable in checkpoint or any(p.name in checkpoint for p in table.names(variable))
    }


def _task_in(checkpoint, config, family, table):
    """The task of the head that config and checkpoint have, or None."""
    named = ((config and config.source) or {}).get("architectures")
    if not isinstance(named, list) or not named:
        return None
    for task, head in family.heads_of(config).items():
        names = [place.name for place in table.names(f"{head.output}/kernel")]
        if str(named[0]).endswith(TASKS[task]) and any(name in checkpoint for name in names):
            return task
    return None
