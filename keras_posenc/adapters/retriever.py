"""A search in the vectors of a file, opened once, as retrievers of other libraries need it."""

from keras_posenc.retrieval.search import search
from keras_posenc.retrieval.vectors import Vectors


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
            list of (text, score, metadata): the id, the place of a chunk, its title and the scores
                by vectors and by words.

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
        left_out = ("query", "rank", "score", "text", "matches")
        return [
            (row["text"], row["score"], {k: row[k] for k in row if k not in left_out})
            for row in rows
        ]
