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

    Attributes:
        model: str. The name of the directory with a hash of all that decides its vectors: the
            namespace of a cache.

    Example:

        embeddings = LangChainEmbeddings("all-MiniLM-L6-v2", max_length=2048)
        store = InMemoryVectorStore(embeddings)
        cached = CacheBackedEmbeddings.from_bytes_store(
            embeddings, LocalFileStore("cache"), namespace=embeddings.model,
            query_embedding_cache=True)
    """

    def __init__(self, model, **opening):
        self.sides = Sides(model, **opening)

    @property
    def model(self):
        return f"{self.sides.name}@{self.sides.fingerprint}"

    def embed_documents(self, texts):
        """Lists of floats, one per document."""
        return self.sides.encode_documents(texts).tolist() if texts else []

    def embed_query(self, text):
        """The floats of a query."""
        return self.sides.encode_queries([text])[0].tolist()
