"""Predictions of a fine-tuned model as columns of values, for engines that read tables."""

from keras_posenc.training.evaluate import predictor
from keras_posenc.training.finetuning.regress import NumberPrediction
from keras_posenc.training.saved_models import label_names_of, task_of


def column_types(model):
    """{column: type} of the predictions of a directory, whose model is not loaded.

    The columns are those that the command line writes: `label` and `probability` of a classifier,
    `labels` of several classes per text, `value` or `value_1`, `value_2` ... of numbers.
    """
    task = task_of(model).name
    if task == "classify":
        return {"label": str, "probability": float}
    if task == "multilabel":
        return {"labels": list}
    if task == "regress":
        return dict.fromkeys(label_names_of(model), float)
    instead = "keras_posenc.training.predict(..., output=, part_size=, shard=)"
    instead = "RayEmbedder or spark_embedder" if task == "embed" else instead
    raise ValueError(
        "`model` must be of task classify, multilabel or regress, whose predictions are a row of "
        f"values per text. Received: {model}, of task {task!r}. Use {instead}."
    )


class PredictionColumns:
    """An opened model whose predictions are columns.

    Args:
        model, **opening: of `load_finetuned`.
    """

    def __init__(self, model, **opening):
        self.types = column_types(model)
        self.predict = predictor(directory=model, **opening)

    def of(self, texts):
        """{column: list of values}, with a value for each text."""
        predictions = self.predict(texts, verbose=0) if texts else []
        rows = [_values(prediction) for prediction in predictions]
        return {name: [row[n] for row in rows] for n, name in enumerate(self.types)}


def _values(prediction):
    if isinstance(prediction, NumberPrediction):
        return prediction.values
    return [getattr(prediction, name) for name in prediction.columns()]
