"""Spark: a pandas UDF, which opens the model once per worker."""

import functools
from collections.abc import Iterator

try:
    import pandas
    from pyspark.sql.functions import pandas_udf
except ImportError:
    raise ImportError("This adapter needs Spark: pip install pyspark pandas pyarrow") from None

from keras_posenc.adapters.sides import Sides


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
    opened = tuple(sorted(opening.items()))

    def embed(parts: Iterator[pandas.Series]) -> Iterator[pandas.Series]:
        sides = _opened(str(model), opened)
        for part in parts:
            yield pandas.Series(list(sides.encode_documents(part.tolist())))

    return pandas_udf(embed, "array<float>")


@functools.cache
def _opened(model, opening):
    return Sides(model, **dict(opening))
