"""`Vectors`: what `embed` makes, as it is written, read and searched."""

import dataclasses
import functools
import os
import pathlib

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.retrieval.dense.codes import CodedVectors
from keras_posenc.retrieval.dense.late_chunking import ChunkVectors
from keras_posenc.retrieval.embedders import Opening, opening_for
from keras_posenc.retrieval.embedding_record import read_record, recorded_lengths
from keras_posenc.retrieval.late_interaction.vectors import MultiVectors, maxsim
from keras_posenc.retrieval.nearest import (
    check_scores,
    check_width,
    largest,
    lengths_of,
    nearest,
    products_of,
)
from keras_posenc.retrieval.sparse.vectors import SparseVectors
from keras_posenc.retrieval.vector_files import check_output, read_vectors, write_vectors

# How many vectors are found by their codes: times as many as are asked for, and at least so many.
CANDIDATES, FEWEST = 10, 100


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Vectors of texts, where each comes from, and how they were made.

    `embed` writes a file of them and `search` searches it. To search several times, load the file
    once: what the search needs of each vector is computed once.

    Attributes:
        values: float32 array (N, D), `MultiVectors` or `SparseVectors`, which have no size where a
            file does not record it.
        ids: sequence of N ids, or of numbers of texts from 1. Those of chunks are of their texts.
        name: str. What the ids are: a column of the texts, or "row".
        places: list of two int arrays (N,), starts and ends of chunks in characters, or None.
        record: dict or None. What `embed` wrote beside the file: the model, its settings, the
            texts.
        path: `pathlib.Path` or None. The file.
        exact: float array (N, D) or None. The vectors that `values` encodes.

    Example:

    >>> found = embed("all-MiniLM-L6-v2", ["One. Two.", "Three."], "v.npy", verbose=0)
    >>> vectors = Vectors.load("v.npy")
    >>> [(numbers, scores)] = vectors.search(found[:1], top_k=1)
    >>> [vectors.ids[number] for number in numbers]
    [1]
    """

    values: object
    ids: object
    name: str = "row"
    places: list | None = None
    record: dict | None = None
    path: pathlib.Path | None = None
    exact: np.ndarray | None = None

    @classmethod
    def load(cls, path):
        """Reads a file that `embed` wrote. An .npy file stays on disk, mapped into memory.

        Args:
            path: str or path of a .npy, .npz, .jsonl or .parquet file.

        Raises:
            FileNotFoundError: if there is no such file.
            ImportError: if it is a .parquet file and pyarrow is not installed.
        """
        path = pathlib.Path(path)
        record = read_record(path) if path.is_file() else None
        found, table = read_vectors(path)
        if table is not None:
            return cls(found, *table, record, path)
        return cls._numbered(found, path, record["first"] if record else 0, record, path)

    @classmethod
    def of(cls, found):
        """`Vectors` in memory, numbered from 1.

        Args:
            found: what `embed` returned, a path of a file, or `Vectors`.

        Raises:
            FileNotFoundError: if it is a path and there is no such file.
        """
        if isinstance(found, cls):
            return found
        if isinstance(found, (str, os.PathLike)):
            return cls.load(found)
        return cls._numbered(found, "`vectors`")

    @classmethod
    def _numbered(cls, found, where, first=0, record=None, path=None):
        """Vectors with the numbers of the texts, the first of which is `first` + 1."""
        if isinstance(found, ChunkVectors):
            _check_dense(found.vectors, where)
            ids = np.asarray(found.texts) + first + 1
            places = [found.starts, found.ends]
            return cls(found.vectors, ids, "row", places, record, path)
        if not isinstance(found, (MultiVectors, SparseVectors)):
            _check_dense(found, where)
        ids = range(first + 1, first + len(found) + 1)
        return cls(found, ids, "row", None, record, path)

    def __len__(self):
        return len(self.ids)

    @property
    def settings(self):
        """The arguments of `open_embedder` that open the model for queries to these vectors."""
        settings = dict(self.record["settings"]) if self.record else {}
        return {name: settings[name] for name in settings if name not in ("prompt", "reading")}

    def open_embedder(self, directory, **arguments):
        """Opens the `Embedder` that made the vectors, as it was then, for queries to them.

        Args:
            directory: str or path.
            **arguments: of `open_embedder`. They count before those of the record.

        Example:

        >>> _ = embed("all-MiniLM-L6-v2", ["One.", "Two."], "v.npy", verbose=0)
        >>> Vectors.load("v.npy").open_embedder("all-MiniLM-L6-v2", token_budget=64).token_budget
        64
        """
        return opening_for(self, Opening.of(directory, arguments)).open()

    @functools.cached_property
    def lengths(self):
        """float32 array (N,) of the lengths of dense vectors, or None if all are 1."""
        if self.record and self.record.get("unit"):
            return None
        recorded = recorded_lengths(self.record, len(self.values))
        if recorded is not None:
            return recorded
        return lengths_of(self.values if self.exact is None else self.exact)

    @functools.cached_property
    def kept(self):
        """dict: what one search makes and the next one takes, such as the index of words."""
        return {}

    def save(self, path):
        """Writes the vectors with their ids.

        Args:
            path: str or path of a .jsonl or .parquet file; or of a .npy or .npz file, for dense or
                other vectors, if the ids are numbers from 1.

        Raises:
            ImportError: if it is a .parquet file and pyarrow is not installed.

        Example:

        >>> Vectors.of(np.eye(2)).save("v.jsonl")
        >>> Vectors.load("v.jsonl").values.shape
        (2, 2)
        """
        found = self.values if self.exact is None else self.exact
        if self.places is not None:
            order = {each: number for number, each in enumerate(dict.fromkeys(list(self.ids)))}
            texts = np.array([order[each] for each in self.ids])
            found, ids = ChunkVectors(found, texts, *self.places), list(order)
        else:
            ids = list(self.ids)
        dense = isinstance(found, np.ndarray)
        check_output(path, ".npy" if dense else ".npz")
        ids = [each.item() if isinstance(each, np.integer) else each for each in ids]
        if pathlib.Path(path).suffix in (".npy", ".npz") and ids != list(range(1, len(ids) + 1)):
            raise ValueError(
                f"{path} holds no ids, and these are not the numbers from 1: give a .jsonl or "
                f".parquet file. Received: ids {ids[:3]}, ..."
            )
        write_vectors(path, found, (self.name, ids))

    def coded(self, kind):
        """The same `Vectors` in fewer bytes; a search then takes two passes.

        The codes find ten times as many vectors as you ask for, and at least 100. The exact
        vectors, which stay in their file if it is an .npy file, rank these. So scores are exact
        cosines.

        Args:
            kind: str. "int8", a quarter of the bytes, or "bits", a thirty-second.

        Example:

        >>> vectors = Vectors.of(np.eye(16, dtype="float32"))
        >>> [(numbers, scores)] = vectors.coded("int8").search(np.eye(16)[:1], top_k=1)
        >>> numbers.tolist(), scores.tolist()
        ([0], [1.0])
        """
        if not isinstance(self.values, np.ndarray):
            raise ValueError(
                "Only dense vectors, one per text or chunk, have codes: search these as they are. "
                f"Received: {type(self.values).__name__}"
            )
        return dataclasses.replace(
            self, values=CodedVectors.of(self.values, kind), exact=self.values
        )

    def search(self, queries, top_k=10, normalize=True, allowed=None):
        """Finds the vectors with the largest scores, exactly.

        Args:
            queries: what `encode_queries` returned of the model that made the vectors.
            top_k: int. Number of vectors to find per query.
            normalize: bool. For dense vectors, whether scores are cosines, not dot products.
            allowed: bool array (N,). Which vectors may be found. Default: all.

        Returns:
            list of (numbers, scores) per query, the best first and ties by their numbers, which
                count from 0.
        """
        checks.whole("top_k", top_k)
        if allowed is not None:
            allowed = np.asarray(allowed)
            if allowed.shape != (len(self),) or allowed.dtype != bool:
                raise ValueError(
                    f"`allowed` must be a bool per vector, {len(self)} in all; for numbers of "
                    "vectors give np.isin(np.arange(len(vectors)), numbers). Received: shape "
                    f"{allowed.shape}, {allowed.dtype}"
                )
        if isinstance(self.values, (MultiVectors, SparseVectors)):
            scores = self.scores(queries)
            if allowed is not None:
                scores[:, ~allowed] = -np.inf
            best = [largest(row, top_k) for row in scores]
            return [(numbers, row[numbers]) for numbers, row in zip(best, scores, strict=True)]
        if self.exact is not None:
            return self._in_two_passes(queries, top_k, normalize, allowed)
        queries, options = self._dense(queries, normalize)
        return nearest(queries, self.values, top_k, allowed=allowed, **options)

    def _in_two_passes(self, queries, top_k, normalize, allowed):
        if not normalize:
            raise ValueError(
                "Codes of vectors find the nearest by cosine, and the directory names dot products "
                "as its similarity: search the vectors themselves. Received: coded vectors"
            )
        queries, _ = self._dense(queries, normalize)
        found = []
        options = {"allowed": allowed, "where": self._where}
        most = max(FEWEST, top_k * CANDIDATES)
        candidates = nearest(queries, self.values, most, **options)
        for query, (numbers, _) in zip(queries, candidates, strict=True):
            wanted = most  # of different codes: copies of a text would take the places of others
            while len(numbers) == wanted and self.values.kinds(numbers) < most // 2:
                wanted *= 4
                ((numbers, _),) = nearest(query[None], self.values, wanted, **options)
            numbers = np.sort(numbers)
            rows = unit_rows(np.asarray(self.exact[numbers], query.dtype))  # float16 overflows
            scores = rows @ query
            best = largest(scores, top_k)
            found.append((numbers[best], scores[best]))
        return found

    def scores(self, queries, normalize=True):
        """Scores all vectors for each query: an array (Q, N).

        Args:
            queries, normalize: as in `search`.
        """
        vectors = self.values
        if isinstance(vectors, MultiVectors):
            scores = maxsim(queries, vectors)
        elif isinstance(vectors, SparseVectors):
            if vectors.size is None and vectors.indices.max(initial=0) < queries.size:
                vectors = dataclasses.replace(vectors, size=queries.size)
            scores = queries.products(vectors)
        else:
            queries, options = self._dense(queries, normalize)
            if self.exact is not None:
                vectors, options["lengths"] = self.exact, self.lengths if normalize else None
            blocks = products_of(queries, vectors, **options)
            return np.concatenate([products for _, products in blocks], axis=1)
        check_scores(scores, self._where)
        return scores

    @property
    def _where(self):
        return "`vectors`" if self.path is None else str(self.path)

    def _dense(self, queries, normalize):
        """Queries and options of products with dense vectors."""
        check_width(queries, self.values)
        lengths = self.lengths if normalize and self.exact is None else None
        if lengths is not None:
            check_scores(lengths[None], self._where)
        queries = unit_rows(queries) if normalize else queries
        return queries, {"lengths": lengths, "where": self._where}


def _check_dense(found, where):
    shape, kind = getattr(found, "shape", ()), getattr(found, "dtype", np.dtype(object)).kind
    if len(shape) != 2 or not len(found) or kind != "f":
        raise ValueError(
            f"{where} must be what `embed` returns or writes, such as floats (N, D). Received: "
            f"shape {shape}, {type(found).__name__}"
        )


def describe_vectors(found):
    """Returns a description of what `embed` returned in a few words.

    Args:
        found: array, `ChunkVectors`, `MultiVectors` or `SparseVectors`.

    Example:

    >>> describe_vectors(np.eye(3))
    '3 vectors of 3 numbers'
    """
    if isinstance(found, SparseVectors):
        return f"{len(found)} sparse vectors with {len(found.values)} weights"
    count, width = getattr(found, "vectors", found).shape
    return f"{count} vectors of {width} numbers"
