"""Search: vectors of texts and of chunks, and cross-encoders that order what they find."""

from typing import TYPE_CHECKING

from keras_posenc.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.retrieval.cross_encoder.reranker import Reranker, rerank
    from keras_posenc.retrieval.dense.chunks import chunk_spans
    from keras_posenc.retrieval.dense.late_chunking import ChunkVectors, embed_spans
    from keras_posenc.retrieval.embed import embed, open_embedder
    from keras_posenc.retrieval.hard_negatives import mine_hard_negatives
    from keras_posenc.retrieval.late_interaction.embedder import LateInteraction
    from keras_posenc.retrieval.late_interaction.vectors import MultiVectors, maxsim
    from keras_posenc.retrieval.search import search, search_table
    from keras_posenc.retrieval.sparse.embedder import SparseEmbedder
    from keras_posenc.retrieval.sparse.vectors import SparseVectors

__all__ = [
    "ChunkVectors",
    "LateInteraction",
    "MultiVectors",
    "Reranker",
    "SparseEmbedder",
    "SparseVectors",
    "chunk_spans",
    "embed",
    "embed_spans",
    "maxsim",
    "mine_hard_negatives",
    "open_embedder",
    "rerank",
    "search",
    "search_table",
]

names_on_request(__name__)
