"""What all kinds of retrieval have in common: the same verbs."""

import abc
import dataclasses
import functools
import pathlib

import numpy as np

from keras_posenc.folders.folder import Folder
from keras_posenc.folders.sentence_transformers import read_similarity
from keras_posenc.retrieval.prediction import ranked
from keras_posenc.text.documents import check_list


def remembered(init):
    """Decorates an `__init__` that opens a directory: its keywords are kept in `opened_with`.

    The directory itself is kept in `folder`, as a `Folder`.
    """

    @functools.wraps(init)
    def call(self, directory, **arguments):
        self.folder = Folder.of(directory)
        self.directory = pathlib.Path(self.folder)
        init(self, self.folder, **arguments)
        self.opened_with = {name: given for name, given in arguments.items() if given is not None}

    return call


class Embedder(abc.ABC):
    """A model of retrieval with its tokenizer: it encodes queries and documents, and ranks.

    `open_embedder` opens one, of the kind that a directory holds: `DenseEmbedder`,
    `LateInteraction`, `SparseEmbedder` or `Reranker`.

    Attributes:
        title: str. What the kind is called in errors.
        similarities: dict. The names of similarities in a directory's settings that are computed,
            each with whether vectors are compared at length 1. The first is the default.
        opened_with: dict. The arguments that the directory was opened with.

    Example:

    >>> model = open_embedder("all-MiniLM-L6-v2")
    >>> isinstance(model, Embedder), model.encode_queries(["Who?"], verbose=0).shape
    (True, (1, 384))
    """

    title = "an embedder"
    similarities = {}
    reading = None

    def encode_queries(self, queries, verbose="auto"):
        """Computes the vectors of queries.

        Args:
            queries: list of str.
            verbose: as in `TextModel.predict`.

        Returns:
            float32 array (N, D), `MultiVectors` or `SparseVectors`, in the order of the texts.
        """
        return self.encode(queries, "query", verbose)

    def encode_documents(self, documents, verbose="auto"):
        """Computes the vectors of documents.

        Args:
            documents: list of str.
            verbose: as in `TextModel.predict`.

        Returns:
            float32 array (N, D), `MultiVectors` or `SparseVectors`, in the order of the texts; with
                late chunking, `ChunkVectors`.
        """
        return self.encode(documents, "document", verbose)

    @abc.abstractmethod
    def encode(self, texts, side, verbose="auto"):
        """Computes the vectors of texts of a side.

        Args:
            texts: list of str.
            side: str, "query" or "document".
            verbose: as in `TextModel.predict`.

        Returns:
            as `encode_documents`.
        """

    @abc.abstractmethod
    def similarity(self, queries, documents):
        """Scores every document for every query.

        Args:
            queries, documents: what `encode_queries` and `encode_documents` return.

        Returns:
            (Q, N) float32 array.
        """

    def rank(self, query, documents, top_k=None, verbose="auto"):
        """Orders documents by how well they match a query.

        Args:
            query: str.
            documents: list of str, or what `encode_documents` returned.
            top_k: int. Number of the best documents to return. Default: all.
            verbose: as in `TextModel.predict`.

        Returns:
            list of dicts with the keys `corpus_id`, the index of a document, and `score`, a float,
                from the best to the worst. With late chunking the score of a document is that of
                its best chunk.
        """
        read_similarity(self.folder, self.similarities)
        array = isinstance(documents, np.ndarray) and documents.dtype.kind != "U"
        if not (array or dataclasses.is_dataclass(documents)):  # vectors
            check_list(documents, "documents")
            documents = self.encode_documents(documents, verbose)
        return ranked(self.similarity(self.encode([query], "query", 0), documents)[0], top_k)
