"""LlamaIndex: `BaseEmbedding` for its indices, and a retriever of passages."""

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import NodeWithScore, TextNode
except ImportError:
    raise ImportError("This adapter needs LlamaIndex: pip install llama-index-core") from None

from pydantic import PrivateAttr  # LlamaIndex depends on it

from keras_posenc.adapters.sides import Retriever, Sides


class LlamaIndexEmbedding(BaseEmbedding):
    """An embedder as LlamaIndex calls it.

    `to_dict` states everything that decides the vectors, by which LlamaIndex's caches know them
    again.

    Args:
        model, **opening: as in `Sides`. Also the fields of `BaseEmbedding`, such as
            `embed_batch_size`.

    Example:

        index = VectorStoreIndex(nodes, embed_model=LlamaIndexEmbedding("all-MiniLM-L6-v2"))
    """

    _sides: Sides = PrivateAttr()

    def __init__(self, model, *, model_name=None, **opening):
        fields = {name: opening.pop(name) for name in BaseEmbedding.model_fields if name in opening}
        sides = Sides(model, **opening)
        super().__init__(model_name=sides.name if model_name is None else model_name, **fields)
        self._sides = sides

    @classmethod
    def class_name(cls):
        """The name under which LlamaIndex stores settings."""
        return "LlamaIndexEmbedding"

    def to_dict(self, **kwargs):
        """The settings, from which `from_dict` makes the same."""
        return {**super().to_dict(**kwargs), **self._sides.stored()}

    def _get_query_embedding(self, query):
        return self._sides.encode_queries([query])[0].tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts):
        return self._sides.encode_documents(texts).tolist()


class LlamaIndexRetriever(BaseRetriever):
    """A retriever of passages, late chunks included, by vectors, by words or by both.

    A node has an id of its text and the place of a chunk; `metadata` has these and the title.

    Args:
        model, vectors, **options: as in `Retriever`. Also the `callback_manager` of LlamaIndex.

    Example:

        retriever = LlamaIndexRetriever("all-MiniLM-L6-v2", "chunks.npz", scoring="both", top_k=5)
        engine = RetrieverQueryEngine.from_args(retriever)
    """

    def __init__(self, model, vectors, callback_manager=None, **options):
        super().__init__(callback_manager)
        self._retriever = Retriever(model, vectors, **options)

    def _retrieve(self, query_bundle):
        return [
            NodeWithScore(node=TextNode(id_=_id(found), text=text, metadata=found), score=score)
            for text, score, found in self._retriever.find(query_bundle.query_str)
        ]


def _id(found):
    """The same in every search, so that an evaluation knows a passage again: "7", or "7:120"."""
    return ":".join(str(found[key]) for key in ("id", "start") if key in found)
