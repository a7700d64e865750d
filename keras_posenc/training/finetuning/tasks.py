"""What a model can be fine-tuned for."""

import dataclasses

from keras_posenc.arguments import checks
from keras_posenc.training.finetuning.answer import Answer
from keras_posenc.training.finetuning.classify import Classify
from keras_posenc.training.finetuning.embed import Embed
from keras_posenc.training.finetuning.multilabel import MultiLabel
from keras_posenc.training.finetuning.regress import Regress
from keras_posenc.training.finetuning.tag import Tag
from keras_posenc.training.finetuning.task import FORMER_SETTINGS, FinetuneTask
from keras_posenc.training.settings import Former

# The tasks by name, with the default of each setting.
TASKS = {
    task.name: task for task in (Classify(), MultiLabel(), Regress(), Tag(), Answer(), Embed())
}


def task_of(given):
    """Returns the task of a name, with its defaults; or the `FinetuneTask` that is given."""
    if isinstance(given, FinetuneTask):
        return given
    return TASKS[checks.choice("task", given, TASKS)]


def task_of_record(record):
    """Returns the task that recipe.json has: its name, or with settings of its own the task."""
    task = TASKS[record.get("task", "classify")]
    fields = [field.name for field in dataclasses.fields(task) if field.name in record]
    task = dataclasses.replace(task, **{name: record[name] for name in fields})
    return task.name if task == TASKS[task.name] else task


def _former(current, given):
    """The task of the arguments that `finetune` had until version 0.4."""
    task = task_of("classify" if current is None else current)
    fields = {field.name for field in dataclasses.fields(task)}
    for name in given.keys() - fields:
        ignored = name == "head_dropout" or name == "pooling" and given[name] != "head"
        if not ignored and given[name] is not None:
            raise ValueError(
                f"{name}={given[name]!r}: task={task.name!r} has no such setting; leave it out."
            )
    return dataclasses.replace(
        task, **{name: value for name, value in given.items() if name in fields}
    )


FORMER_TASK = Former(tuple(FORMER_SETTINGS), _former)
