"""Haystack: components for queries and for documents, which late chunking cuts.

A stored pipeline is loaded with `allowed_modules=["keras_posenc.adapters.haystack"]`.
"""

import dataclasses
import os

try:
    from haystack import Document, component, default_to_dict
except ImportError:
    raise ImportError("This adapter needs Haystack: pip install haystack-ai") from None

from keras_posenc.adapters.sides import Retriever, Sides, check_opening, stored_opening


@component
class HaystackTextEmbedder:
    """The vector of a query, as a component of a pipeline.

    Args:
        model, **opening: as in `Sides`.
    """

    def __init__(self, model, **opening):
        check_opening(model, opening)
        self.model, self.opening, self._sides = model, opening, None

    def warm_up(self):
        """Opens the model."""
        self._sides = self._sides or Sides(self.model, **self.opening)

    def to_dict(self):
        """The settings, as a pipeline stores them."""
        return default_to_dict(self, **stored(self))

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        """Returns {"embedding": list of float}."""
        self.warm_up()
        return {"embedding": self._sides.encode_queries([text])[0].tolist()}


@component
class HaystackDocumentEmbedder:
    """Vectors of documents, or of their chunks with the whole document as context.

    Args:
        model: as in `Sides`.
        chunks: int or None. Tokens per chunk. Each becomes a document, with the places of its first
            character and behind its last in `meta`, as `split_idx_start` and `split_idx_end`.
        **opening: as in `Sides`.
    """

    def __init__(self, model, chunks=None, **opening):
        check_opening(model, opening)
        self.model, self.chunks, self.opening, self._sides = model, chunks, opening, None

    def warm_up(self):
        """Opens the model."""
        self._sides = self._sides or Sides(self.model, **self.opening)

    def to_dict(self):
        """The settings, as a pipeline stores them."""
        return default_to_dict(self, chunks=self.chunks, **stored(self))

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]):
        """Returns {"documents": list of `Document` with embeddings}."""
        self.warm_up()
        texts = [document.content or "" for document in documents]
        if not texts:
            return {"documents": []}
        if self.chunks is None:
            vectors = self._sides.encode_documents(texts).tolist()
            pairs = zip(documents, vectors, strict=True)
            return {"documents": [dataclasses.replace(d, embedding=v) for d, v in pairs]}
        found = self._sides.encode_chunks(texts, self.chunks)
        rows = zip(found.vectors.tolist(), found.texts, found.starts, found.ends, strict=True)
        chunks = [
            Document(
                content=texts[text][start:end],
                embedding=vector,
                meta={
                    **documents[text].meta,
                    "source_id": documents[text].id,
                    "split_idx_start": int(start),
                    "split_idx_end": int(end),
                },
            )
            for vector, text, start, end in rows
        ]
        return {"documents": chunks}


def stored(embedder):
    """The settings of a component. An open model may have changed since it was opened, so that its
    fingerprint is stored, which is compared when the pipeline runs."""
    if hasattr(embedder.model, "predict"):
        return Sides(embedder.model).stored()
    return stored_opening(embedder.model, embedder.opening)


@component
class HaystackRetriever:
    """Passages of a file of vectors, late chunks included, by vectors, by words or by both.

    `meta` of a document has the id of its text, the place of a chunk, its title and its scores.

    Args:
        model, vectors, **options: as in `Retriever`.
    """

    def __init__(self, model, vectors, **options):
        self.model, self.vectors, self.options, self._retriever = model, vectors, options, None

    def warm_up(self):
        """Opens the model and the vectors."""
        self._retriever = self._retriever or Retriever(self.model, self.vectors, **self.options)

    def to_dict(self):
        """The settings, as a pipeline stores them."""
        given = {"model": self.model, "vectors": self.vectors, **self.options}
        for name in ("model", "vectors"):
            if not isinstance(given[name], (str, os.PathLike)):
                raise ValueError(
                    f"`{name}` must be a path for the pipeline to be stored: save it and give its "
                    f"path. Received: {type(given[name]).__name__}"
                )
        paths = {name: str(each) for name, each in given.items() if isinstance(each, os.PathLike)}
        return default_to_dict(self, **{**given, **paths})

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None):
        """Returns {"documents": list of `Document` with scores}."""
        self.warm_up()
        found = self._retriever.find(query, top_k=top_k)
        return {
            "documents": [
                Document(content=text, score=score, meta=metadata)
                for text, score, metadata in found
            ]
        }
