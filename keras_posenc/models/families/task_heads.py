"""What stands between the features and a task's logits, as data: a record a family and task."""

import dataclasses

from keras_posenc.checkpoints.names import OTHER_OUTPUT
from keras_posenc.files.untrusted import quote

# Task, as in `head=` -> the ending of Hugging Face's class.
TASKS = {
    "sequence_classification": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
    "question_answering": "ForQuestionAnswering",
}


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """The head of a task: pooling, a dense layer and a norm where a family has them, and logits.

    Attributes:
        output: str. Name of the last layer.
        pooling: str or None. A pooling of `MaskedPooling`; None for logits of each token.
        dense: str or None. Name of the layer before the last one.
        activation: str. Activation of `dense`.
        dense_bias, output_bias: bool. Whether the two layers have biases.
        norm: str or None. Name of the norm after `dense`.
        dropout: float or None. Rate before the last layer; None for that of the config.
        late: bool. Whether the features are pooled after `dense` and `norm`.
        closes: bool. Whether it is a `SpanLogits`, which masks padding and questions.

    Example:

    >>> from keras_posenc.models.families import FAMILIES
    >>> FAMILIES["bert"].heads_of(None)["sequence_classification"].dense
    'Pooler-Dense'
    """

    output: str
    pooling: str | None = None
    dense: str | None = None
    activation: str = "tanh"
    dense_bias: bool = True
    norm: str | None = None
    output_bias: bool = True
    dropout: float | None = None
    late: bool = False
    closes: bool = False


# Heads that most families call so; a family's own rows come behind these.
TASK_ROWS = {
    "Sequence-Output": ("classifier", "dense"),
    "Token-Output": ("classifier", "dense"),
    "Span-Output": ("qa_outputs", "dense"),
}
# Those of RoBERTa, with a dense layer before the logits of a text.
TASK_ROWS_OF_ROBERTA = TASK_ROWS | {
    "Sequence-Dense": ("classifier.dense", "dense"),
    "Sequence-Output": ("classifier.out_proj", "dense"),
}
TOKENS = TaskHead("Token-Output")
OF_TOKENS = {"token_classification": TOKENS, "question_answering": TaskHead("Span-Output")}


def heads(dense="Sequence-Dense", activation="tanh"):
    """The heads of BERT and its kin: a dense layer on the first token; none on every token.

    `dense`: name of the dense layer. `activation`: of the dense layer.
    """
    first = TaskHead("Sequence-Output", pooling="cls", dense=dense, activation=activation)
    return {"sequence_classification": first, **OF_TOKENS}


def last_token():
    """The head of causal models: the last token's logits."""
    head = TaskHead("Sequence-Output", pooling="last", output_bias=False)
    return {"sequence_classification": head}


def saved_head(record):
    """Reads the head that the config of a checkpoint names, as `save_checkpoint` writes it.

    `record`: dict with `task`, a key of `TASKS`, and `pooling`, None for logits of each token.
    Returns a dict, the task -> `TaskHead`.
    """
    known = record if isinstance(record, dict) else {}
    task, pooling = known.get("task"), known.get("pooling")
    pooled = task == "sequence_classification"
    if not isinstance(task, str) or task not in TASKS or (pooling is not None) != pooled:
        raise ValueError(
            f"`task_head` must name a `task`, one of {tuple(TASKS)}, and the `pooling` of the "
            f"first. Received: {quote(record)}"
        )
    return {task: TaskHead(OTHER_OUTPUT, pooling)}
