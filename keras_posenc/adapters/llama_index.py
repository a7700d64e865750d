"""LlamaIndex: `BaseEmbedding` for its indices."""

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
except ImportError:
    raise ImportError("This adapter needs LlamaIndex: pip install llama-index-core") from None

from pydantic import PrivateAttr  # LlamaIndex depends on it

from keras_posenc.adapters.sides import Sides


class LlamaIndexEmbedding(BaseEmbedding):
    """An embedder as LlamaIndex calls it.

    Args:
        model, **opening: as in `Sides`.

    Example:

        index = VectorStoreIndex(nodes, embed_model=LlamaIndexEmbedding("all-MiniLM-L6-v2"))
    """

    _sides: Sides = PrivateAttr()

    def __init__(self, model, **opening):
        super().__init__(model_name=str(model))
        self._sides = Sides(model, **opening)

    @classmethod
    def class_name(cls):
        """The name under which LlamaIndex stores settings."""
        return "LlamaIndexEmbedding"

    def _get_query_embedding(self, query):
        return self._sides.encode_queries([query])[0].tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts):
        return self._sides.encode_documents(texts).tolist()
