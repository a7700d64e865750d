"""What all kinds of retrieval have in common: the same verbs."""

import abc
import dataclasses
import functools
import pathlib

import numpy as np

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.sentence_transformers import read_similarity
from keras_posenc.models.inputs import inputs_of
from keras_posenc.models.precision import lower_precision
from keras_posenc.text import TextBatches
from keras_posenc.text.documents import check_list
from keras_posenc.text.shapes import longest_length, prepare_predictions, shape_options
from keras_posenc.training.finetuning.task import check_encoded
from keras_posenc.training.progress import BatchProgress


def remembered(init):
    """Decorates an `__init__` that opens a directory: its keywords are kept in `opened_with`.

    The directory itself is kept in `folder`, as a `Folder`.
    """

    @functools.wraps(init)
    def call(self, directory, **arguments):
        self.folder = Folder.of(directory)
        self.folder.opened  # noqa: B018  # before the weights are read
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
        """Computes the vectors of texts of a side, as `encode_documents`.

        Args:
            texts: list of str.
            side: str, "query" or "document".
            verbose: as in `TextModel.predict`.
        """

    @abc.abstractmethod
    def similarity(self, queries, documents):
        """Scores every document for every query: (Q, N), in float32.

        Args:
            queries, documents: what `encode_queries` and `encode_documents` return.
        """

    @abc.abstractmethod
    def save(self, directory):
        """Writes the model as it was read, an extended table as plain rows; returns the paths.

        Args:
            directory: str or path; created if missing.
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


def predicted(model, texts, verbose="auto", **options):
    """Yields (output, number of the text), as soon as its batch has been computed.

    Outputs of several lengths, or too large for memory together, cannot come from `predict`.
    """
    numbers = list(range(len(texts)))
    batches = TextBatches(
        texts,
        numbers,
        classes=numbers,
        shuffle=False,
        fixed_shapes=longest_length(model, options.get("max_length")),
        **shape_options(model),
        **options,
    )
    prepare_predictions(model, batches, on_batch=True)
    progress = BatchProgress(batches, verbose)
    for step in range(len(batches)):
        inputs, numbers, *weights = batches[step]
        with lower_precision(model):
            outputs = model.predict_on_batch(inputs_of(model, inputs))
        if weights:  # 0 for rows that fill up the batch
            real = weights[0] > 0
            outputs, numbers = outputs[real], numbers[real]
        check_encoded(outputs)
        for part in backend.gather((outputs, numbers.tolist())):  # of each process
            yield from zip(*part, strict=True)
        progress.step()


def ranked(scores, top_k=None):
    """Orders documents by their scores, the best first, as dicts of `corpus_id` and `score`."""
    if top_k is not None:
        checks.whole("top_k", top_k)
    order = np.argsort(-check_encoded(scores), kind="stable")[:top_k]
    return [{"corpus_id": int(n), "score": float(scores[n])} for n in order]
