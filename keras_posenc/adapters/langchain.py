"""LangChain: `Embeddings` for its vector stores, and a retriever of passages."""

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables.config import run_in_executor
except ImportError:
    raise ImportError("This adapter needs LangChain: pip install langchain-core") from None

from pydantic import PrivateAttr  # LangChain depends on it

from keras_posenc.adapters.sides import Retriever, Sides


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


class LangChainRetriever(BaseRetriever):
    """A retriever of passages, late chunks included, by vectors, by words or by both.

    `metadata` of a document has its id, the place of a chunk, its title and its scores.

    Args:
        model, vectors, **options: as in `Retriever`. Also the fields of `BaseRetriever`, such as
            `tags`.

    Example:

        retriever = LangChainRetriever("all-MiniLM-L6-v2", "chunks.npz", scoring="both", top_k=5)
        documents = retriever.invoke("Where does Ada live?")
    """

    _retriever: Retriever = PrivateAttr()

    def __init__(self, model, vectors, **options):
        fields = {name: options.pop(name) for name in BaseRetriever.model_fields if name in options}
        super().__init__(**fields)
        self._retriever = Retriever(model, vectors, **options)

    def _get_relevant_documents(self, query, *, run_manager=None, **options):
        return [
            Document(page_content=text, metadata={**metadata, "score": score})
            for text, score, metadata in self._retriever.find(query, **options)
        ]

    async def _aget_relevant_documents(self, query, *, run_manager=None, **options):
        return await run_in_executor(None, self._get_relevant_documents, query, **options)
