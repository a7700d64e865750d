"""Ray Data: callables for `map_batches`, which open the model once per worker.

A batch is a dict of arrays, a table of pyarrow or a data frame of pandas, and stays of its kind.
"""

import numpy as np

from keras_posenc.adapters.sides import PredictionColumns, Sides


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
        """The batch with the vectors of its texts."""
        texts = _texts(batch, self.text, [self.output], f"output={self.output!r}")
        vectors = self.sides.encode_documents(texts) if texts else self.sides.no_vectors()
        return _with(batch, {self.output: vectors})


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
        """The batch with the predictions for its texts."""
        types = {f"{self.prefix}{name}": kind for name, kind in self.columns.types.items()}
        texts = _texts(batch, self.text, types, f"prefix={self.prefix!r}")
        found = zip(types.items(), self.columns.of(texts).values(), strict=True)
        return _with(batch, {name: _array(values, kind) for (name, kind), values in found})


def _texts(batch, text, new, argument):
    """The list of texts of a batch, which has none of the new columns."""
    names = list(getattr(batch, "column_names", batch))  # of a table of pyarrow
    if text not in names:
        raise ValueError(
            f"`text` must be a column of the batch, which has {', '.join(map(repr, names))}. "
            f"Received: {text!r}"
        )
    if taken := sorted(set(new) & set(names)):
        raise ValueError(
            f"{argument}: the batch has a column {taken[0]!r} already. Give another "
            f"{argument.partition('=')[0]}."
        )
    column = batch[text]
    return column.to_pylist() if hasattr(column, "to_pylist") else np.asarray(column).tolist()


def _with(batch, columns):
    """A batch with further columns."""
    if hasattr(batch, "append_column"):
        for name, values in columns.items():
            batch = batch.append_column(name, [_arrow(values)])
        return batch
    if hasattr(batch, "assign"):
        return batch.assign(**{name: list(values) for name, values in columns.items()})
    return {**batch, **columns}


def _arrow(values):
    """An array of pyarrow: of vectors one of lists of as many numbers each."""
    import pyarrow

    if values.ndim == 1:
        return pyarrow.array(values.tolist())
    flat = pyarrow.array(np.ascontiguousarray(values).reshape(-1))
    return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _array(values, kind):
    """An array of as many values of a type, also if there are none; lists stay lists."""
    if kind is not list:
        return np.array(values, kind)
    lists = np.empty(len(values), object)
    lists[:] = values
    return lists
