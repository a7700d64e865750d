"""Ray Data: a callable for `map_batches`, which opens the model once per worker."""

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
        texts = [str(text) for text in batch[self.text]]
        return {**batch, self.output: self.sides.encode_documents(texts)}
