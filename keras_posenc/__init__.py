"""Position encodings and length extrapolation for Keras 3: train short, test long."""

import pathlib
import sys

__version__ = "0.1.0"


def _is_command():
    """Whether this process is `keras-posenc`, which answers --help before Keras is imported."""
    as_module = sys.orig_argv[1:3] == ["-m", "keras_posenc"]
    return as_module or pathlib.PurePath(sys.argv[0]).stem == "keras-posenc"


if not _is_command():
    from keras_posenc.installed import import_keras

    import_keras()

# Everything at once, for importing a module is what lets Keras load a saved model of its layers.
if not _is_command():
    from keras_posenc import tasks
    from keras_posenc.attention.gau import GatedAttentionUnit
    from keras_posenc.attention.layer import PositionalAttention
    from keras_posenc.attention.log_n import LogNAttention
    from keras_posenc.attention.shared_table import SharedTable
    from keras_posenc.checkpoints.export import save_checkpoint
    from keras_posenc.checkpoints.load import load_checkpoint
    from keras_posenc.checkpoints.reader import open_checkpoint
    from keras_posenc.encodings.base import Encoding
    from keras_posenc.encodings.bias import FIRE, KERPLE, T5Bias
    from keras_posenc.encodings.contextual import ContextualPositionEmbedding
    from keras_posenc.encodings.deberta import DeBERTaRelative
    from keras_posenc.encodings.forgetting import ForgetGate, SelectiveAttention
    from keras_posenc.encodings.masks import Window
    from keras_posenc.encodings.normalizers import SquaredReLU, StickBreaking
    from keras_posenc.encodings.patterns import alternate
    from keras_posenc.encodings.relative import NEZHA, ShawRelative
    from keras_posenc.encodings.rerope import ReRoPE
    from keras_posenc.encodings.rotary import RotaryEmbedding
    from keras_posenc.encodings.scale import LogN, ScalableSoftmax, Temperature
    from keras_posenc.encodings.separable import ALiBi, RotaryBias, Sandwich
    from keras_posenc.encodings.transformer_xl import TransformerXLRelative
    from keras_posenc.encodings.xpos import XPos
    from keras_posenc.layers.norm import ConditionalLayerNormalization, RMSNormalization
    from keras_posenc.layers.structured.crf import ConditionalRandomField
    from keras_posenc.layers.structured.decoders import ChainMarginals, ViterbiDecoder
    from keras_posenc.layers.structured.memm import MaximumEntropyMarkovModel
    from keras_posenc.layers.structured.pointer import EfficientGlobalPointer, GlobalPointer
    from keras_posenc.maps.grid import Grid
    from keras_posenc.models.config import Config, read_config
    from keras_posenc.models.embedding import embedder
    from keras_posenc.models.export import export_model
    from keras_posenc.models.factory import build_transformer_model
    from keras_posenc.models.families import Family, register_family
    from keras_posenc.models.generation import Generator
    from keras_posenc.models.heads import MaskedPooling, classifier, regressor
    from keras_posenc.models.layouts import layout_map
    from keras_posenc.models.model import TransformerModel
    from keras_posenc.models.seq2seq import build_encoder_decoder
    from keras_posenc.models.similarity import similarity
    from keras_posenc.models.token_heads import SpanLogits, span_head, token_classifier
    from keras_posenc.models.transformer import Transformer
    from keras_posenc.positions import PaddedPositionIds, RandomPositionIds
    from keras_posenc.positions.learned import LearnedPositionEmbedding
    from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding
    from keras_posenc.positions.stretched import (
        FreshPositionEmbedding,
        HierarchicalPositionEmbedding,
        InterpolatedPositionEmbedding,
        TiledPositionEmbedding,
        position_embedding,
    )
    from keras_posenc.text import (
        CausalBatches,
        ClassLabels,
        FloatLabels,
        MaskedLanguageModelBatches,
        MultiLabels,
        NextTokenLabels,
        SpanLabels,
        TagLabels,
        TextBatches,
        Tokenizer,
        read_texts,
    )
    from keras_posenc.text.simplified import simplified_vocabulary
    from keras_posenc.training.adamw import FusedAdamW
    from keras_posenc.training.chains import (
        ConditionalRandomFieldLoss,
        MaximumEntropyMarkovLoss,
        ViterbiAccuracy,
    )
    from keras_posenc.training.curricula import CurriculumBatches
    from keras_posenc.training.embed import embed, open_embedder
    from keras_posenc.training.evaluate import evaluate, predict
    from keras_posenc.training.finetune import finetune
    from keras_posenc.training.gradients import gradient
    from keras_posenc.training.losses import SmoothedSparseCategoricalCrossentropy
    from keras_posenc.training.multilabel import (
        MultilabelCategoricalCrossentropy,
        SpanF1,
        SparseMultilabelCategoricalCrossentropy,
    )
    from keras_posenc.training.optimizer import LayerwiseAdamW
    from keras_posenc.training.pretrain import pretrain
    from keras_posenc.training.saved import load_finetuned
    from keras_posenc.training.schedules import LinearWarmup, Noam, cosine_warmup
    from keras_posenc.training.similarity import (
        CosineRegression,
        InBatchAccuracy,
        MultipleNegativesRanking,
    )
    from keras_posenc.training.spans import SpanAccuracy, SpanCrossentropy
    from keras_posenc.training.stretching import stretch
    from keras_posenc.training.text_model import TextModel, load_text_model

__all__ = [
    "ALiBi",
    "CausalBatches",
    "ChainMarginals",
    "ClassLabels",
    "ConditionalLayerNormalization",
    "ConditionalRandomField",
    "ConditionalRandomFieldLoss",
    "Config",
    "ContextualPositionEmbedding",
    "CosineRegression",
    "CurriculumBatches",
    "DeBERTaRelative",
    "EfficientGlobalPointer",
    "Encoding",
    "FIRE",
    "Family",
    "FloatLabels",
    "ForgetGate",
    "FreshPositionEmbedding",
    "FusedAdamW",
    "GatedAttentionUnit",
    "Generator",
    "GlobalPointer",
    "Grid",
    "HierarchicalPositionEmbedding",
    "InBatchAccuracy",
    "InterpolatedPositionEmbedding",
    "KERPLE",
    "LayerwiseAdamW",
    "LearnedPositionEmbedding",
    "LinearWarmup",
    "LogN",
    "LogNAttention",
    "MaskedLanguageModelBatches",
    "MaskedPooling",
    "MaximumEntropyMarkovLoss",
    "MaximumEntropyMarkovModel",
    "MultilabelCategoricalCrossentropy",
    "MultiLabels",
    "MultipleNegativesRanking",
    "NEZHA",
    "NextTokenLabels",
    "Noam",
    "PaddedPositionIds",
    "PositionalAttention",
    "RMSNormalization",
    "RandomPositionIds",
    "ReRoPE",
    "RotaryBias",
    "RotaryEmbedding",
    "Sandwich",
    "ScalableSoftmax",
    "SelectiveAttention",
    "SharedTable",
    "ShawRelative",
    "SinusoidalPositionEmbedding",
    "SmoothedSparseCategoricalCrossentropy",
    "SpanF1",
    "SparseMultilabelCategoricalCrossentropy",
    "SpanAccuracy",
    "SpanCrossentropy",
    "SpanLabels",
    "SpanLogits",
    "SquaredReLU",
    "StickBreaking",
    "T5Bias",
    "TagLabels",
    "Temperature",
    "TextBatches",
    "TextModel",
    "TiledPositionEmbedding",
    "Tokenizer",
    "Transformer",
    "TransformerModel",
    "TransformerXLRelative",
    "ViterbiAccuracy",
    "ViterbiDecoder",
    "Window",
    "XPos",
    "alternate",
    "build_encoder_decoder",
    "build_transformer_model",
    "classifier",
    "cosine_warmup",
    "embed",
    "embedder",
    "evaluate",
    "export_model",
    "finetune",
    "gradient",
    "layout_map",
    "load_checkpoint",
    "load_finetuned",
    "load_text_model",
    "open_checkpoint",
    "open_embedder",
    "position_embedding",
    "predict",
    "pretrain",
    "read_config",
    "read_texts",
    "register_family",
    "regressor",
    "save_checkpoint",
    "similarity",
    "simplified_vocabulary",
    "span_head",
    "stretch",
    "tasks",
    "token_classifier",
]
