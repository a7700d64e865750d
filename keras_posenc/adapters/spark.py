"""Spark: pandas UDFs, which open the model once per worker."""

import functools
import pickle
from collections.abc import Iterator

try:
    import pandas
    from pyspark.sql.functions import pandas_udf
except ImportError:
    raise ImportError("This adapter needs Spark: pip install pyspark pandas pyarrow") from None

from keras_posenc.adapters.sides import PredictionColumns, Sides, column_types

TYPES = {str: "string", float: "double", list: "array<string>"}


def spark_embedder(model, **opening):
    """A pandas UDF that makes a column of vectors from a column of texts.

    Spark repeats the parts that fail, and names the files that it writes.

    Args:
        model: str or path of a directory, which every worker must be able to read.
        **opening: as in `Sides`.

    Returns:
        A function of a column, whose values are lists of floats.

    Raises:
        ImportError: if pyspark, pandas or pyarrow is not installed.

    Example:

        embed = spark_embedder("all-MiniLM-L6-v2")
        texts.withColumn("vector", embed("text")).write.parquet("vectors")
    """
    opened = pickle.dumps(opening)

    def embed(parts: Iterator[pandas.Series]) -> Iterator[pandas.Series]:
        sides = _opened(Sides, str(model), opened)
        for part in parts:
            yield pandas.Series(list(sides.encode_documents(part.tolist())))

    return pandas_udf(embed, "array<float>")


def spark_predictor(model, **opening):
    """A pandas UDF that makes a column of predictions from a column of texts.

    A prediction is a struct: `label` and `probability` of a classifier, `labels` of several classes
    per text, and `value`, or `value_1`, `value_2` ..., of numbers. `select("predicted.*")` makes
    columns of it.

    Args:
        model: str or path. The `output` of `finetune`, of task "classify", "multilabel" or
            "regress". The driver and every worker must be able to read it.
        **opening: arguments of `load_finetuned`, such as `max_length` or `chunks`.

    Returns:
        A function of a column, whose values are structs.

    Raises:
        ImportError: if pyspark, pandas or pyarrow is not installed.

    Example:

        predict = spark_predictor("out")
        found = texts.withColumn("predicted", predict("text"))
        found.select("id", "predicted.*").write.parquet("found")
    """
    opened = pickle.dumps(opening)
    fields = [f"`{name}` {TYPES[kind]}" for name, kind in column_types(model).items()]

    def predict(parts: Iterator[pandas.Series]) -> Iterator[pandas.DataFrame]:
        columns = _opened(PredictionColumns, str(model), opened)
        for part in parts:
            yield pandas.DataFrame(columns.of(part.tolist()))

    return pandas_udf(predict, ", ".join(fields))


@functools.cache
def _opened(kind, model, opening):
    """An opened model; its arguments are pickled, because not all can be keys of a cache."""
    return kind(model, **pickle.loads(opening))
