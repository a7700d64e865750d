"""LangChain: `Embeddings` for its vector stores."""

try:
    from langchain_core.embeddings import Embeddings
except ImportError:
    raise ImportError("This adapter needs LangChain: pip install langchain-core") from None

from keras_posenc.adapters.sides import Sides


class LangChainEmbeddings(Embeddings):
    """An embedder as LangChain's vector stores call it.

    Args:
        model, **opening: as in `Sides`.

    Example:

        store = InMemoryVectorStore(LangChainEmbeddings("all-MiniLM-L6-v2", max_length=2048))
    """

    def __init__(self, model, **opening):
        self.sides = Sides(model, **opening)

    def embed_documents(self, texts):
        """Lists of floats, one per document."""
        return self.sides.encode_documents(texts).tolist() if texts else []

    def embed_query(self, text):
        """The floats of a query."""
        return self.sides.encode_queries([text])[0].tolist()
