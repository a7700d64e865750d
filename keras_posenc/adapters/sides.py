"""What adapters share: a model for queries and documents, retrieval, columns of predictions."""

import functools
import pathlib

import numpy as np

from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, embed_spans
from keras_posenc.retrieval.embedders import open_embedder
from keras_posenc.retrieval.embedding_record import identity_of, plain
from keras_posenc.retrieval.readings import LateSpans
from keras_posenc.retrieval.search import search
from keras_posenc.retrieval.vectors import Vectors
from keras_posenc.text.documents import texts_of
from keras_posenc.text.same_texts import text_numbers
from keras_posenc.training.evaluate import predictor
from keras_posenc.training.finetuning.regress import NumberPrediction
from keras_posenc.training.saved_models import label_names_of, task_of
from keras_posenc.training.text_model import TextModel


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
        check_opening(model, opening)
        self.model = model if isinstance(model, TextModel) else open_embedder(model, **opening)
        if not isinstance(self.model, TextModel):
            raise ValueError(
                "`model` must give one vector per text, because these libraries take no others: "
                "give a dense embedder, or search with `keras_posenc.retrieval`. Received: "
                f"{self.name}, {self.model.title}"
            )
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
        return self._once(getattr(self.model, "encode_queries", self.model.predict), texts)

    def encode_documents(self, texts):
        """Vectors (N, D) of documents."""
        return self._once(getattr(self.model, "encode_documents", self.model.predict), texts)

    def no_vectors(self):
        """Vectors (0, D) of no texts."""
        return np.zeros((0, self.model.model.output_shape[-1]), "float32")

    def encode_texts(self, texts):
        """Vectors (N, D) of texts that are neither queries nor documents."""
        if not hasattr(self.model, "encode"):
            return self.encode_documents(texts)
        return self._once(functools.partial(self.model.encode, side=None), texts)

    def _once(self, encode, texts):
        """Vectors (N, D), those of texts with the same tokens the same to the last bit: rounding
        must not order copies, which these libraries rank."""
        texts = texts_of(texts)
        if len(texts) < 2:
            return one_per_text(encode(texts, verbose=0), len(texts))
        first, places = np.unique(text_numbers(texts, self.model.tokenizer), return_inverse=True)
        return one_per_text(encode([texts[n] for n in first], verbose=0), len(first))[places]

    def encode_chunks(self, texts, tokens, overlap=0):
        """`ChunkVectors` by late chunking, with at most `tokens` tokens per chunk."""
        if getattr(reading := getattr(self.model, "reading", None), "windows", None):
            raise ValueError(
                "`chunks` reads passages in their whole text, and the model also in windows: leave "
                f"out `windows`. Received: chunks={tokens}, reading={str(reading)!r}"
            )
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


def column_types(model):
    """{column: type} of the predictions of a directory, whose model is not loaded.

    The columns are those that the command line writes: `label` and `probability` of a classifier,
    `labels` of several classes per text, `value` or `value_1`, `value_2` ... of numbers.
    """
    task = task_of(model).name
    if task == "classify":
        return {"label": str, "probability": float}
    if task == "multilabel":
        return {"labels": list}
    if task == "regress":
        return dict.fromkeys(label_names_of(model), float)
    instead = "keras_posenc.training.predict(..., output=, part_size=, shard=)"
    instead = "RayEmbedder or spark_embedder" if task == "embed" else instead
    raise ValueError(
        "`model` must be of task classify, multilabel or regress, whose predictions are a row of "
        f"values per text. Received: {model}, of task {task!r}. Use {instead}."
    )


class PredictionColumns:
    """A model, opened as by `load_finetuned`, whose predictions are columns."""

    def __init__(self, model, **opening):
        self.types = column_types(model)
        self.predict = predictor(directory=model, **opening)

    def of(self, texts):
        """{column: list of values}, with a value for each text."""
        predictions = self.predict(texts, verbose=0) if texts else []
        rows = [_values(prediction) for prediction in predictions]
        return {name: [row[n] for row in rows] for n, name in enumerate(self.types)}


def _values(prediction):
    if isinstance(prediction, NumberPrediction):
        return prediction.values
    return [getattr(prediction, name) for name in prediction.columns()]


class Retriever:
    """Searches again and again in what `embed` wrote, chunks included.

    Args:
        model: str or path of the directory that made the vectors, or what `open_embedder` returned.
        vectors: as in `search`.
        **options: of `search`, such as `scoring`, `top_k`, `only`, `texts` and `per_document`.

    Example:

    >>> vectors = embed("all-MiniLM-L6-v2", ["A boat.", "A car."], verbose=0)
    >>> found = Retriever("all-MiniLM-L6-v2", vectors, texts=["A boat.", "A car."], top_k=1)
    >>> [text for text, _, _ in found.find("ship")]
    ['A boat.']
    """

    def __init__(self, model, vectors, **options):
        self._vectors, self._options = Vectors.of(vectors), {"verbose": 0, **options}
        is_open = hasattr(model, "encode_queries")
        self._model = model if is_open else self._vectors.open_embedder(model)

    def find(self, query, **options):
        """Searches for one query.

        Args:
            query: str.
            **options: of `search`, in place of those that the retriever has; None is left out.

        Returns:
            list of (text, score, metadata): the id, the place of a chunk and its title. What
                changes with the query is left out, since fusion takes it for another passage.

        Raises:
            ValueError: if the texts are neither given nor found.
        """
        given = {name: value for name, value in options.items() if value is not None}
        rows = search(self._model, self._vectors, query, **{**self._options, **given})
        if rows and "text" not in rows[0]:
            raise ValueError(
                "A retriever needs the texts of its vectors: give them as `texts`, or keep the "
                "file that was embedded unchanged beside the vectors. Received: texts=None"
            )
        left_out = ("query", "rank", "score", "vector_score", "word_score", "text", "matches")
        return [
            (row["text"], row["score"], {k: row[k] for k in row if k not in left_out})
            for row in rows
        ]
