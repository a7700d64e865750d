"""What a model can be fine-tuned for: a file a task, each with its data, head, loss and metrics."""

from keras_posenc.training.tasks.answering import Answering
from keras_posenc.training.tasks.classification import Classification, Prediction
from keras_posenc.training.tasks.embedding import Embedding
from keras_posenc.training.tasks.finetune_task import FinetuneTask
from keras_posenc.training.tasks.multilabel import MultiLabel
from keras_posenc.training.tasks.regression import Regression
from keras_posenc.training.tasks.tagging import Tagging

TASKS = {
    task.name: task
    for task in (
        Classification(),
        MultiLabel(),
        Regression(),
        Tagging(),
        Answering(),
        Embedding(),
    )
}

__all__ = ["TASKS", "Prediction", "FinetuneTask"]
