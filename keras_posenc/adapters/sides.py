"""One opened model for queries and for documents, each with the prompt of its side."""

from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import embed_spans
from keras_posenc.retrieval.embedders import open_embedder


class Sides:
    """Vectors of queries and of documents, as adapters to other libraries need them.

    Args:
        model: str or path of a directory of sentence-transformers, or of the `output` of
            `finetune`; or what `open_embedder` returns; or a `TextModel`, for texts of both sides.
        **opening: arguments of `open_embedder`, such as `max_length`. A `prompt` is for both sides.

    Example:

    >>> sides = Sides("all-MiniLM-L6-v2")
    >>> sides.encode_queries(["Where does Ada live?"]).shape
    (1, 384)
    """

    def __init__(self, model, **opening):
        is_open = hasattr(model, "predict")
        self.model = model if is_open else open_embedder(model, **opening)

    def encode_queries(self, texts):
        """Vectors (N, D) of queries."""
        encode = getattr(self.model, "encode_queries", self.model.predict)
        return encode(list(texts), verbose=0)

    def encode_documents(self, texts):
        """Vectors (N, D) of documents."""
        encode = getattr(self.model, "encode_documents", self.model.predict)
        return encode(list(texts), verbose=0)

    def encode_chunks(self, texts, tokens, overlap=0):
        """`ChunkVectors` by late chunking, with at most `tokens` tokens per chunk."""
        texts = list(texts)
        spans = [chunk_spans(text, self.model.tokenizer, tokens, overlap) for text in texts]
        return embed_spans(self.model, texts, spans, verbose=0)
