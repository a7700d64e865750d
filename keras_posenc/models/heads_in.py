"""The heads that a checkpoint has, by the names of their tasks."""

from keras_posenc.arguments import checks
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES
from keras_posenc.files.untrusted import quote
from keras_posenc.models.config_file import read_config
from keras_posenc.models.families import FAMILIES, choose_family
from keras_posenc.models.families.task_heads import TASKS, saved_head

# Argument of the factory -> a variable that a checkpoint has if and only if it has that head.
HEADS = {
    "with_pool": "Pooler-Dense/kernel",
    "with_nsp": "NSP-Proba/kernel",
    "with_mlm": "MLM-Bias/bias",
    "with_discriminator": "Discriminator-Proba/kernel",
}


def heads_in(checkpoint, model=None, config=None):
    """Finds the heads in a checkpoint, as keywords of `build_transformer_model`.

    Args:
        checkpoint: a path, or anything else that `open_checkpoint` takes.
        model: the model family; default that of the config, else BERT.
        config: path of the config, a dict or a `Config`; None if there is none.

    Returns:
        dict, keyword -> True; or {"head": task}, if it is the head of a task by its config.

    Raises:
        FileNotFoundError: if there is no checkpoint.

    Example:

    >>> heads_in("all-MiniLM-L6-v2")
    {'with_pool': True}
    """
    checkpoint = open_checkpoint(checkpoint)
    config = None if config is None else read_config(config, model)
    family = FAMILIES[config.family] if config else choose_family({}, model)
    table = family.table(config)
    if checkpoint.format == "keras_hub":
        table = BACKBONES[checkpoint.backbone].table(family.name)
    if task := _task_in(checkpoint, config, family, table):
        return {"head": task}
    found = {}
    for head, variable in HEADS.items():
        if head == "with_mlm" and config is not None:
            variable = _variable_of_mlm(config)
        if variable is None:
            found[head] = _names_head_of_tokens(config, family)
        else:
            names = (variable, *(place.name for place in table.names(variable)))
            found[head] = any(name in checkpoint for name in names)
    return {head: True for head in found if found[head]}


def _variable_of_mlm(config):
    """A variable that the MLM head of a model has, or None where it is the token table alone."""
    if config.mlm_bias:
        return HEADS["with_mlm"]
    if config.mlm_dense:
        return "MLM-Dense/kernel"
    return None if config.tie_word_embeddings else "MLM-Output/kernel"


def _names_head_of_tokens(config, family):
    """Whether a config names transformers' class of a model with token logits."""
    table = family.table(config)
    if not (family.causal or "MLM-Output" in table.rows):
        return False
    named = (config.source or {}).get("architectures")
    ending = table.endings.get("ForMaskedLM", "ForMaskedLM")
    return isinstance(named, list) and bool(named) and str(named[0]).endswith(ending)


def _task_in(checkpoint, config, family, table):
    """The task of the head that config and checkpoint have, or None."""
    source = (config and config.source) or {}
    named = source.get("architectures")
    if (other := source.get("task_head")) is not None:
        ((task, head),) = saved_head(other).items()
        return task if _has_output(checkpoint, table, head) else None
    if not isinstance(named, list) or not named:
        return None
    for task, head in family.heads_of(config).items():
        if str(named[0]).endswith(TASKS[task]) and _has_output(checkpoint, table, head):
            return task
    return None


def _has_output(checkpoint, table, head):
    return any(place.name in checkpoint for place in table.names(f"{head.output}/kernel"))


def read_head(config, task):
    """The `TaskHead` of a task. `task`: a key of `TASKS`."""
    checks.choice("head", task, TASKS)
    known = config.heads
    if task not in known:
        some = f"those of {', '.join(known)} are" if known else "it has none that is"
        title = FAMILIES[config.family].title
        raise ValueError(f"{title} with head={task!r} is not supported; {some}.")
    named = (config.source or {}).get("architectures")
    named = named[0] if isinstance(named, list) and named else ""
    for other, ending in TASKS.items():
        if other != task and str(named).endswith(ending):
            raise ValueError(
                f"The config is of a {quote(named)}, whose head is head={other!r}. Received: "
                f"head={task!r}; give `label_names` for a new head."
            )
    return known[task]
