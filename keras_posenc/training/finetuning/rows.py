"""No task: a row of numbers for each text, whatever they mean."""

from keras_posenc.training.finetuning.task import FinetuneTask, check_encoded, pooled


class RowPerText(FinetuneTask):
    """What a `TextModel` without a task does."""

    def labels(self, label_names, values=None):
        return values

    def check_outputs(self, model, label_names):
        """They may be of anything."""

    def merged(self, texts, batches, outputs, label_names, pool):
        """Rows (N, D)."""
        return pooled(batches, check_encoded(outputs), pool)
