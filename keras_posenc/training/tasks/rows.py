"""No task: a row of numbers for each text, whatever they mean."""

from keras_posenc.training.tasks.finetune_task import FinetuneTask, pooled


class Rows(FinetuneTask):
    """What a `TextModel` without a task does."""

    def labels(self, names, values=None):
        return values

    def check_outputs(self, model, names):
        """They may be of anything."""

    def merged(self, texts, batches, outputs, names, pool):
        return outputs if len(outputs) == len(texts) else pooled(batches, outputs, pool)
