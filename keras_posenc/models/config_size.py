"""What a config asks for, compared with what a checkpoint holds, before anything is built."""

import dataclasses
import math
import warnings

from keras_posenc.models.families import FAMILIES

# A config may ask for this much more than the file has. Then the report lists what is missing.
SLACK = 2**20  # numbers
LAYERS = 64


def check_size(config, loader):
    """Raises ValueError if a checkpoint cannot hold the model of a config by far.

    `loader`: `Loader` of the checkpoint.
    """
    checkpoint, blocks = loader.checkpoint, config.num_hidden_layers
    rows = FAMILIES[config.family].table(config).rows.values()
    if config.num_hidden_groups or not any("{i}" in str(row) for row in rows):  # shared by layers
        blocks = config.num_hidden_groups or 1
    elif blocks > len(checkpoint) + LAYERS:
        raise ValueError(
            f"num_hidden_layers={blocks} is more than {checkpoint} holds, which has "
            f"{len(checkpoint)} tensors. Is it the config of this checkpoint?"
        )
    embedding = config.embedding_size or config.hidden_size
    experts = (config.experts or {}).get("num_experts", 1)
    heads = config.num_attention_heads * config.value_size
    parts = {
        "vocab_size": config.vocab_size * embedding,
        "intermediate_size": blocks * experts * config.hidden_size * config.intermediate_size,
        "num_attention_heads": blocks * config.hidden_size * heads,
        "segment_vocab_size": config.segment_vocab_size * embedding,
    }
    if config.position_table:
        parts["max_position"] = config.max_position * embedding
    available = sum(math.prod(checkpoint.shape(name)) for name in checkpoint)
    for key, numbers in parts.items():
        if numbers > 2 * available + SLACK:
            raise ValueError(
                f"{key}={getattr(config, key)} asks for {numbers:,} numbers, and {checkpoint} "
                f"holds {available:,}. Is it the config of this checkpoint?"
            )


def fit_labels(config, loader, head):
    """The config with as many labels as the head in the checkpoint has, whatever it names itself.

    `loader`: `Loader` of the checkpoint. `head`: `TaskHead`, or the name of a task.
    """
    head = config.heads[head] if isinstance(head, str) else head
    if head.output == "Span-Output":
        return config
    rows = _rows(loader, f"{head.output}/bias") or _rows(loader, f"{head.output}/kernel")
    source = dict(config.source or {})
    named, count = source.get("id2label"), source.pop("num_labels", None)
    num_labels = len(named) if isinstance(named, dict) else count or 2
    if rows is None or rows == num_labels:
        return config
    if named is not None or count is not None:
        warnings.warn(
            f"The config names {num_labels} labels, and the head in {loader.checkpoint} has "
            f"{rows}: the head's size is used, with the labels LABEL_0 to LABEL_{rows - 1}. "
            "Correct `id2label` to give them names.",
            stacklevel=3,
        )
    labels = {str(i): f"LABEL_{i}" for i in range(rows)}
    source |= {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}
    return dataclasses.replace(config, source=source)


def _rows(loader, variable):
    """How many outputs a variable of a head has in the checkpoint, or None."""
    for place in loader.table.names(variable):
        if place.name in loader.checkpoint:
            shape = loader.checkpoint.shape(place.name)
            return shape[0 if place.transposed else -1] if shape else None
    return None
