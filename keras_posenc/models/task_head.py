"""The heads that come with checkpoints, by the name of their task."""

import keras

from keras_posenc.layers import activations
from keras_posenc.layers.dropout import Dropout
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.task_heads import TASKS
from keras_posenc.models.heads import MaskedPooling
from keras_posenc.untrusted import quote


def read_head(config, task):
    """The `TaskHead` of a task.

    Args:
        config: `Config`.
        task: a key of `TASKS`.

    Raises:
        ValueError: on another task, or one that the family has no head for, or if the config names
            the head of another.
    """
    if task not in TASKS:
        raise ValueError(f"`head` must be one of {tuple(TASKS)}. Received: {task!r}")
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
                f"head={task!r}; give `labels` for a new head."
            )
    return known[task]


def add_head(transformer, x):
    """The logits (B, C), or (B, T, C) where each token has some, of the features x (B, T, D)."""
    head, config = transformer.options.head, transformer.config
    if head.pooling is not None:
        x = transformer.layer(MaskedPooling, "Head-Pooling", pooling=head.pooling)(x)
    if head.dense is not None:
        act = activations.get(head.activation)
        x = transformer.dense(head.dense, config.hidden_size, act, head.dense_bias)(x)
    if head.norm is not None:
        x = transformer.normalize(x, head.norm)
    if config.dropout_rate:
        x = transformer.layer(Dropout, "Head-Dropout", rate=config.dropout_rate)(x)
    output = transformer.layer(
        keras.layers.Dense,
        head.output,
        units=2 if head.output == "Span-Output" else len(config.labels),
        use_bias=head.output_bias,
        dtype="float32",
        kernel_initializer=transformer.initializer(f"{head.output}/kernel"),
    )
    return output(x)
