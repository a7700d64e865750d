"""Search: vectors of texts and of chunks, and cross-encoders that order what they find."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.retrieval.cross_encoder.reranker import Reranker
    from keras_posenc.retrieval.dense.chunks import chunk_spans
    from keras_posenc.retrieval.dense.embedder import DenseEmbedder
    from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, embed_spans
    from keras_posenc.retrieval.embed import embed
    from keras_posenc.retrieval.embedder import Embedder
    from keras_posenc.retrieval.embedders import open_embedder
    from keras_posenc.retrieval.hard_negatives import mine_hard_negatives
    from keras_posenc.retrieval.late_interaction.embedder import LateInteraction
    from keras_posenc.retrieval.late_interaction.vectors import MultiVectors, maxsim
    from keras_posenc.retrieval.readings import Chunks, LateChunks, LateSpans, Passages
    from keras_posenc.retrieval.rerank import rerank
    from keras_posenc.retrieval.search import search, search_table
    from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
    from keras_posenc.retrieval.sparse.vectors import SparseVectors
    from keras_posenc.retrieval.vectors import Vectors, describe_vectors

__all__ = [
    "ChunkVectors", "Chunks", "DenseEmbedder", "Embedder", "LateChunks", "LateInteraction",
    "LateSpans", "MultiVectors", "Passages", "Reranker", "SparseEmbedder", "SparseVectors",
    "Vectors", "chunk_spans", "describe_vectors", "embed", "embed_spans", "maxsim",
    "mine_hard_negatives", "open_embedder", "rerank", "search", "search_table",
]  # fmt: skip

names_on_request(__name__)
