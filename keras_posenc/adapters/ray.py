"""Ray Data: callables for `map_batches`, which open the model once per worker."""

import numpy as np

from keras_posenc.adapters.predictions import PredictionColumns
from keras_posenc.adapters.sides import Sides


class RayEmbedder:
    """Adds vectors to batches of a dataset of Ray.

    Args:
        model, **opening: as in `Sides`.
        text: str. The column of texts.
        output: str. The column of vectors.

    Example:

        vectors = ray.data.read_parquet("texts").map_batches(
            RayEmbedder, fn_constructor_args=["all-MiniLM-L6-v2"], concurrency=4)
        vectors.write_parquet("vectors")
    """

    def __init__(self, model, *, text="text", output="vector", **opening):
        self.sides, self.text, self.output = Sides(model, **opening), text, output

    def __call__(self, batch):
        """The batch, a dict of arrays, with the vectors of its texts."""
        texts = _texts(batch, self.text)
        vectors = self.sides.encode_documents(texts) if texts else self.sides.no_vectors()
        return {**batch, self.output: vectors}


class RayPredictor:
    """Adds the predictions of a fine-tuned model to batches of a dataset of Ray.

    The columns are `predicted_label` and `predicted_probability` of a classifier,
    `predicted_labels` of several classes per text, and `predicted_value`, or `predicted_value_1`,
    `predicted_value_2` ..., of numbers.

    Args:
        model: str or path. The `output` of `finetune`, of task "classify", "multilabel" or
            "regress". Every worker must be able to read it.
        text: str. The column of texts.
        prefix: str. Precedes the names of the new columns.
        **opening: arguments of `load_finetuned`, such as `max_length` or `chunks`.

    Example:

        found = ray.data.read_parquet("texts").map_batches(
            RayPredictor, fn_constructor_args=["out"], concurrency=4)
        found.write_parquet("found")
    """

    def __init__(self, model, *, text="text", prefix="predicted_", **opening):
        self.columns, self.text, self.prefix = PredictionColumns(model, **opening), text, prefix

    def __call__(self, batch):
        """The batch, a dict of arrays, with the predictions for its texts."""
        found = self.columns.of(_texts(batch, self.text))
        found = {
            f"{self.prefix}{name}": _array(values, self.columns.types[name])
            for name, values in found.items()
        }
        if taken := sorted(found.keys() & batch.keys()):
            raise ValueError(
                f"prefix={self.prefix!r}: the batch has a column {taken[0]!r} already. Give "
                "another prefix."
            )
        return {**batch, **found}


def _texts(batch, name):
    return np.asarray(batch[name]).tolist()


def _array(values, kind):
    """An array of as many values of a type, also if there are none; lists stay lists."""
    if kind is not list:
        return np.array(values, kind)
    lists = np.empty(len(values), object)
    lists[:] = values
    return lists
