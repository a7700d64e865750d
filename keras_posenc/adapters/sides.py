"""One opened model for queries and for documents, each with the prompt of its side."""

import numpy as np

from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, embed_spans
from keras_posenc.retrieval.embedders import open_embedder
from keras_posenc.retrieval.readings import LateSpans


class Sides:
    """Vectors of queries and of documents, as adapters to other libraries need them.

    Args:
        model: str or path of a directory of sentence-transformers, or of the `output` of
            `finetune`; or what `open_embedder` returns; or a `TextModel`, for texts of both sides.
        **opening: arguments of `open_embedder`, such as `max_length`. A `prompt` is for both sides.
            Late chunks are averaged: these libraries take one vector per document.

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
        return one_per_text(encode(list(texts), verbose=0), len(texts))

    def no_vectors(self):
        """Vectors (0, D) of no texts."""
        return np.zeros((0, self.model.model.output_shape[-1]), "float32")

    def encode_texts(self, texts):
        """Vectors (N, D) of texts that are neither queries nor documents."""
        if not hasattr(self.model, "encode"):
            return self.encode_documents(texts)
        return one_per_text(self.model.encode(list(texts), None, verbose=0), len(texts))

    def encode_chunks(self, texts, tokens, overlap=0):
        """`ChunkVectors` by late chunking, with at most `tokens` tokens per chunk."""
        texts = list(texts)
        spans = [chunk_spans(text, self.model.tokenizer, tokens, overlap) for text in texts]
        if not hasattr(self.model, "encode"):
            return embed_spans(self.model, texts, spans, verbose=0)
        return self.model.encode(texts, "document", verbose=0, reading=LateSpans(spans))


def one_per_text(found, count):
    """The vectors (N, D) of texts; of `ChunkVectors` the means of each text's chunks."""
    if not isinstance(found, ChunkVectors):
        return found
    sums = np.zeros((count, found.vectors.shape[1]), "float32")
    np.add.at(sums, found.texts, found.vectors)
    return sums / np.bincount(found.texts, minlength=count)[:, None]
