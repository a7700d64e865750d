"""One opened model for queries and for documents, each with the prompt of its side."""

import dataclasses

from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import embed_spans
from keras_posenc.retrieval.embed import open_embedder
from keras_posenc.retrieval.opening import side_prompt


class Sides:
    """Vectors of queries and of documents, as adapters to other libraries need them.

    Args:
        model: str or path of a directory of sentence-transformers, or of the `output` of
            `finetune`; or a `TextModel`, for texts of both sides.
        **opening: arguments of `open_embedder`, such as `max_length`. A `prompt` is for both sides.

    Example:

    >>> sides = Sides("all-MiniLM-L6-v2")
    >>> sides.encode_queries(["Where does Ada live?"]).shape
    (1, 384)
    """

    def __init__(self, model, **opening):
        if not isinstance(model, (str, bytes)) and hasattr(model, "predict"):
            self.queries = self.documents = model
            return
        prompt = opening.pop("prompt", None)
        first, second = (side_prompt(model, prompt, side) for side in ("query", "document"))
        self.queries = open_embedder(model, prompt=first, **opening)
        self.documents = self.queries
        if second != first:
            self.documents = dataclasses.replace(self.queries, prompt=second or "")

    def encode_queries(self, texts):
        """Vectors (N, D) of queries."""
        return self.queries.predict(list(texts), verbose=0)

    def encode_documents(self, texts):
        """Vectors (N, D) of documents."""
        return self.documents.predict(list(texts), verbose=0)

    def encode_chunks(self, texts, tokens, overlap=0):
        """`ChunkVectors` by late chunking, with at most `tokens` tokens per chunk."""
        texts = list(texts)
        spans = [chunk_spans(text, self.documents.tokenizer, tokens, overlap) for text in texts]
        return embed_spans(self.documents, texts, spans, verbose=0)
