"""MTEB: an encoder for `mteb.evaluate`."""

try:
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta
    from mteb.types import PromptType
except ImportError:
    raise ImportError("This adapter needs MTEB: pip install mteb") from None

from keras_posenc.adapters.sides import Sides


class MTEBEncoder(AbsEncoder):
    """A dense embedder as `mteb.evaluate` calls it.

    MTEB keeps results by a model's name and revision: the name of the directory, and a hash of all
    that decides its vectors.

    Args:
        model, **opening: as in `Sides`, such as `max_length=2048` or `reading="late:256"`. A
            document's vector is then the mean of its late chunks.

    Example:

        mteb.evaluate(MTEBEncoder("all-MiniLM-L6-v2", max_length=2048), tasks)
    """

    def __init__(self, model, **opening):
        self.sides = Sides(model, **opening)
        self.model = self.sides.model

    @property
    def mteb_model_meta(self):
        facts = {"name": f"keras_posenc/{self.sides.name}", "revision": self.sides.fingerprint}
        return ModelMeta.create_empty(facts)

    def encode(self, inputs, *, prompt_type=None, **unused):
        """Vectors (N, D) of MTEB's batches of texts."""
        texts = [text for batch in inputs for text in batch["text"]]
        if prompt_type is None:
            return self.sides.encode_texts(texts)
        of_query = prompt_type == PromptType.query
        return (self.sides.encode_queries if of_query else self.sides.encode_documents)(texts)
