"""One opened model for queries and for documents, each with the prompt of its side."""

import pathlib

import numpy as np

from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, embed_spans
from keras_posenc.retrieval.embedders import open_embedder
from keras_posenc.retrieval.identity import identity_of, plain
from keras_posenc.retrieval.readings import LateSpans
from keras_posenc.text.documents import texts_of


class Sides:
    """Vectors of queries and of documents, as adapters to other libraries need them.

    Args:
        model: str or path of a directory of sentence-transformers, or of the `output` of
            `finetune`; or what `open_embedder` returns; or a `TextModel`, for texts of both sides.
        fingerprint: str or None. The one that the model must have; see the attribute.
        **opening: arguments of `open_embedder`, such as `max_length`. A `prompt` is for both sides.
            Late chunks are averaged: these libraries take one vector per document.

    Attributes:
        fingerprint: str. A hash of all that decides the vectors: weights, tokenizer, reading,
            prompts, dimension, length. It is the same for each copy of a directory.
        name: str. Name of the directory.

    Example:

    >>> sides = Sides("all-MiniLM-L6-v2")
    >>> sides.encode_queries(["Where does Ada live?"]).shape
    (1, 384)
    """

    def __init__(self, model, fingerprint=None, **opening):
        is_open = hasattr(model, "predict")
        check_opening(model, opening)
        self.model = model if is_open else open_embedder(model, **opening)
        if fingerprint is not None and fingerprint != self.fingerprint:
            raise ValueError(
                f"`fingerprint` is that of other vectors than those of {self.name}: its weights or "
                "its settings have changed. Compute the vectors again, without `fingerprint`. "
                f"Received: {fingerprint!r} for a model with {self.fingerprint!r}"
            )

    @property
    def fingerprint(self):
        return identity_of(self.model)

    @property
    def name(self):
        directory = getattr(self.model, "directory", None)
        return "model" if directory is None else pathlib.Path(directory).resolve().name

    def stored(self):
        """The arguments from which another process makes the same, as JSON can store them."""
        return {**stored_opening(self.model, {}), "fingerprint": self.fingerprint}

    def encode_queries(self, texts):
        """Vectors (N, D) of queries."""
        encode = getattr(self.model, "encode_queries", self.model.predict)
        return encode(texts_of(texts), verbose=0)

    def encode_documents(self, texts):
        """Vectors (N, D) of documents."""
        encode = getattr(self.model, "encode_documents", self.model.predict)
        return one_per_text(encode(texts_of(texts), verbose=0), len(texts))

    def no_vectors(self):
        """Vectors (0, D) of no texts."""
        return np.zeros((0, self.model.model.output_shape[-1]), "float32")

    def encode_texts(self, texts):
        """Vectors (N, D) of texts that are neither queries nor documents."""
        if not hasattr(self.model, "encode"):
            return self.encode_documents(texts)
        return one_per_text(self.model.encode(texts_of(texts), None, verbose=0), len(texts))

    def encode_chunks(self, texts, tokens, overlap=0):
        """`ChunkVectors` by late chunking, with at most `tokens` tokens per chunk."""
        texts = texts_of(texts)
        spans = [chunk_spans(text, self.model.tokenizer, tokens, overlap) for text in texts]
        if not hasattr(self.model, "encode"):
            return embed_spans(self.model, texts, spans, verbose=0)
        return self.model.encode(texts, "document", verbose=0, reading=LateSpans(spans))


def check_opening(model, opening):
    """Refuses arguments of opening for a model that is open."""
    if opening and hasattr(model, "predict"):
        raise ValueError(
            f"{' and '.join(opening)} belong to opening a directory, and `model` is open: give "
            f"them to open_embedder. Received: {type(model).__name__}"
        )


def stored_opening(model, opening):
    """A directory and the arguments that it is opened with, as JSON can store them."""
    directory = model
    if hasattr(model, "predict"):
        directory, opening = getattr(model, "directory", None), getattr(model, "opened_with", {})
    if directory is None:
        raise ValueError(
            "`model` must be a directory, or opened from one by open_embedder, to be stored: save "
            f"it and give its directory. Received: {type(model).__name__}"
        )
    return {"model": str(directory), **{name: plain(value) for name, value in opening.items()}}


def one_per_text(found, count):
    """The vectors (N, D) of texts; of `ChunkVectors` the means of each text's chunks."""
    if not isinstance(found, ChunkVectors):
        return found
    sums = np.zeros((count, found.vectors.shape[1]), "float32")
    np.add.at(sums, found.texts, found.vectors)
    return sums / np.bincount(found.texts, minlength=count)[:, None]
