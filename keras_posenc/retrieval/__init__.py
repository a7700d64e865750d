"""Embeddings for search: one vector per chunk, with the rest of its document as context."""

from keras_posenc.retrieval.chunks import chunk_spans
from keras_posenc.retrieval.late_chunking import ChunkVectors, embed_spans

__all__ = ["ChunkVectors", "chunk_spans", "embed_spans"]
