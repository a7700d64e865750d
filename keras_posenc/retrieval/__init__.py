"""Embeddings for search: one vector per text, or per chunk with its document as context."""

from keras_posenc.retrieval.chunks import chunk_spans
from keras_posenc.retrieval.embed import embed, open_embedder
from keras_posenc.retrieval.late_chunking import ChunkVectors, embed_spans

__all__ = ["ChunkVectors", "chunk_spans", "embed", "embed_spans", "open_embedder"]
