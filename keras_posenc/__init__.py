"""Position encodings and length extrapolation for Keras 3: train short, test long.

Layers and models are here. Other names are in modules called as those of Keras: `layers`,
`models`, `losses`, `metrics`, `encodings`, `heads`, `text`, `training` and `retrieval`.
"""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import import_keras as _import_keras

__version__ = "0.6.0"

_import_keras()

# Keras loads a saved model only if its classes are registered. All other names are imported when
# they are first used.
from keras_posenc import registered as _registered  # noqa: F401
from keras_posenc.keras_support.lazy import names_on_request as _names_on_request

if TYPE_CHECKING:
    from keras_posenc import (
        analysis,
        checkpoints,
        encodings,
        heads,
        layers,
        losses,
        metrics,
        models,
        retrieval,
        tasks,
        text,
        training,
    )
    from keras_posenc.attention.gau import GatedAttentionUnit
    from keras_posenc.attention.layer import PositionalAttention
    from keras_posenc.attention.log_n import LogNAttention
    from keras_posenc.attention.shared_table import SharedTable
    from keras_posenc.checkpoints.export import save_checkpoint
    from keras_posenc.checkpoints.load import load_checkpoint
    from keras_posenc.encodings.base import Encoding
    from keras_posenc.encodings.contextual import ContextualPositionEmbedding
    from keras_posenc.encodings.rotary import RotaryEmbedding
    from keras_posenc.folders.folder import open_folder
    from keras_posenc.layers.norm import ConditionalLayerNormalization, RMSNormalization
    from keras_posenc.layers.structured.crf import ConditionalRandomField
    from keras_posenc.layers.structured.decoders import ChainMarginals, ViterbiDecoder
    from keras_posenc.layers.structured.memm import MaximumEntropyMarkovModel
    from keras_posenc.layers.structured.pointer import EfficientGlobalPointer, GlobalPointer
    from keras_posenc.models.config import Config
    from keras_posenc.models.config_file import read_config
    from keras_posenc.models.extension import Extension
    from keras_posenc.models.factory import build_transformer_model
    from keras_posenc.models.families import Family, register_family
    from keras_posenc.models.generation import Generator
    from keras_posenc.models.layouts import layout_map
    from keras_posenc.models.model import TransformerModel
    from keras_posenc.models.sentence_embedding import embedder
    from keras_posenc.models.seq2seq import build_encoder_decoder
    from keras_posenc.models.serving_export import export_model
    from keras_posenc.models.transformer import Transformer
    from keras_posenc.positions import (
        AbacusPositionIds,
        CoupledPositionIds,
        PaddedPositionIds,
        RandomPositionIds,
        SegmentPositionIds,
    )
    from keras_posenc.positions.learned import LearnedPositionEmbedding
    from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding
    from keras_posenc.positions.stretched import (
        FreshPositionEmbedding,
        HierarchicalPositionEmbedding,
        InterpolatedPositionEmbedding,
        TiledPositionEmbedding,
        position_embedding,
    )
    from keras_posenc.retrieval.embed import embed
    from keras_posenc.retrieval.rerank import rerank
    from keras_posenc.retrieval.search import search
    from keras_posenc.text import TextBatches, Tokenizer, read_texts
    from keras_posenc.training.contextual.contextualize import contextualize
    from keras_posenc.training.evaluate import evaluate, predict
    from keras_posenc.training.finetuning.finetune import finetune
    from keras_posenc.training.pretrain import pretrain
    from keras_posenc.training.saved_models import load_finetuned, load_text_model
    from keras_posenc.training.stretching.stretch import stretch
    from keras_posenc.training.text_model import TextModel

__all__ = [
    # Attention
    "PositionalAttention", "LogNAttention", "GatedAttentionUnit", "SharedTable", "Encoding",
    "RotaryEmbedding", "ContextualPositionEmbedding",
    # Positions before attention
    "RandomPositionIds", "PaddedPositionIds", "AbacusPositionIds", "CoupledPositionIds",
    "SegmentPositionIds", "HierarchicalPositionEmbedding", "TiledPositionEmbedding",
    "InterpolatedPositionEmbedding", "FreshPositionEmbedding", "LearnedPositionEmbedding",
    "SinusoidalPositionEmbedding", "position_embedding",
    # Other layers
    "ConditionalLayerNormalization", "RMSNormalization", "ConditionalRandomField",
    "MaximumEntropyMarkovModel", "ViterbiDecoder", "ChainMarginals", "GlobalPointer",
    "EfficientGlobalPointer",
    # Models
    "build_transformer_model", "open_folder", "build_encoder_decoder", "embedder", "Transformer",
    "TransformerModel", "TextModel", "Generator", "Config", "Extension", "read_config", "Family",
    "register_family", "layout_map", "load_checkpoint", "save_checkpoint", "export_model",
    # Text
    "Tokenizer", "TextBatches", "read_texts",
    # In one call
    "finetune", "evaluate", "predict", "pretrain", "stretch", "contextualize", "embed", "search",
    "rerank", "load_text_model", "load_finetuned",
    # Modules
    "analysis", "checkpoints", "encodings", "heads", "layers", "losses", "metrics", "models",
    "retrieval", "tasks", "text", "training",
]  # fmt: skip

_names_on_request(__name__)
