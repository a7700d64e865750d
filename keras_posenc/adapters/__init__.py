"""Our models as parts of other libraries: a class for each, imported when it is first used."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.adapters.haystack import (
        HaystackDocumentEmbedder,
        HaystackRetriever,
        HaystackTextEmbedder,
    )
    from keras_posenc.adapters.keras_hub import EncoderBackbone, as_backbone
    from keras_posenc.adapters.langchain import LangChainEmbeddings, LangChainRetriever
    from keras_posenc.adapters.llama_index import LlamaIndexEmbedding, LlamaIndexRetriever
    from keras_posenc.adapters.mteb import MTEBEncoder
    from keras_posenc.adapters.ray import RayEmbedder, RayPredictor
    from keras_posenc.adapters.scikit_learn import TextClassifier
    from keras_posenc.adapters.sides import Retriever, Sides
    from keras_posenc.adapters.spark import spark_embedder, spark_predictor

__all__ = [
    "EncoderBackbone", "HaystackDocumentEmbedder", "HaystackRetriever", "HaystackTextEmbedder",
    "LangChainEmbeddings", "LangChainRetriever", "LlamaIndexEmbedding", "LlamaIndexRetriever",
    "MTEBEncoder", "RayEmbedder", "RayPredictor", "Retriever", "Sides", "TextClassifier",
    "as_backbone", "spark_embedder", "spark_predictor",
]  # fmt: skip

names_on_request(__name__)
