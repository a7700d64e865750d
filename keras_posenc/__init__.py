"""Position encodings and length extrapolation for Keras 3: train short, test long."""

from keras_posenc.installed import import_keras as _import_keras

__version__ = "0.1.0"

_import_keras()

# All modules are imported here: Keras can load a saved model only if its layers are registered.
from keras_posenc import tasks as tasks
from keras_posenc.attention.gau import GatedAttentionUnit as GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention as PositionalAttention
from keras_posenc.attention.log_n import LogNAttention as LogNAttention
from keras_posenc.attention.shared_table import SharedTable as SharedTable
from keras_posenc.checkpoints.export import save_checkpoint as save_checkpoint
from keras_posenc.checkpoints.load import load_checkpoint as load_checkpoint
from keras_posenc.checkpoints.reader import open_checkpoint as open_checkpoint
from keras_posenc.encodings.base import Encoding as Encoding
from keras_posenc.encodings.bias import FIRE as FIRE
from keras_posenc.encodings.bias import KERPLE as KERPLE
from keras_posenc.encodings.bias import T5Bias as T5Bias
from keras_posenc.encodings.conditioned import ContentBias as ContentBias
from keras_posenc.encodings.contextual import (
    ContextualPositionEmbedding as ContextualPositionEmbedding,
)
from keras_posenc.encodings.deberta import DeBERTaRelative as DeBERTaRelative
from keras_posenc.encodings.forgetting import ForgetGate as ForgetGate
from keras_posenc.encodings.forgetting import SelectiveAttention as SelectiveAttention
from keras_posenc.encodings.masks import Window as Window
from keras_posenc.encodings.normalizers import SquaredReLU as SquaredReLU
from keras_posenc.encodings.normalizers import StickBreaking as StickBreaking
from keras_posenc.encodings.patterns import alternate as alternate
from keras_posenc.encodings.relative import NEZHA as NEZHA
from keras_posenc.encodings.relative import ShawRelative as ShawRelative
from keras_posenc.encodings.remapped import STRING as STRING
from keras_posenc.encodings.remapped import DualChunk as DualChunk
from keras_posenc.encodings.remapped import SelfExtend as SelfExtend
from keras_posenc.encodings.rerope import ReRoPE as ReRoPE
from keras_posenc.encodings.rotary import RotaryEmbedding as RotaryEmbedding
from keras_posenc.encodings.scale import LogN as LogN
from keras_posenc.encodings.scale import ScalableSoftmax as ScalableSoftmax
from keras_posenc.encodings.scale import Temperature as Temperature
from keras_posenc.encodings.separable import ALiBi as ALiBi
from keras_posenc.encodings.separable import RotaryBias as RotaryBias
from keras_posenc.encodings.separable import Sandwich as Sandwich
from keras_posenc.encodings.sinks import SinkLogits as SinkLogits
from keras_posenc.encodings.transformer_xl import TransformerXLRelative as TransformerXLRelative
from keras_posenc.encodings.xpos import XPos as XPos
from keras_posenc.layers.norm import ConditionalLayerNormalization as ConditionalLayerNormalization
from keras_posenc.layers.norm import RMSNormalization as RMSNormalization
from keras_posenc.layers.structured.crf import ConditionalRandomField as ConditionalRandomField
from keras_posenc.layers.structured.decoders import ChainMarginals as ChainMarginals
from keras_posenc.layers.structured.decoders import ViterbiDecoder as ViterbiDecoder
from keras_posenc.layers.structured.memm import (
    MaximumEntropyMarkovModel as MaximumEntropyMarkovModel,
)
from keras_posenc.layers.structured.pointer import EfficientGlobalPointer as EfficientGlobalPointer
from keras_posenc.layers.structured.pointer import GlobalPointer as GlobalPointer
from keras_posenc.maps.grid import Grid as Grid
from keras_posenc.models.config import Config as Config
from keras_posenc.models.config import read_config as read_config
from keras_posenc.models.factory import build_transformer_model as build_transformer_model
from keras_posenc.models.families import Family as Family
from keras_posenc.models.families import register_family as register_family
from keras_posenc.models.generation import Generator as Generator
from keras_posenc.models.head_layers import MaskedPooling as MaskedPooling
from keras_posenc.models.head_layers import SpanLogits as SpanLogits
from keras_posenc.models.heads import classifier as classifier
from keras_posenc.models.heads import regressor as regressor
from keras_posenc.models.heads import span_head as span_head
from keras_posenc.models.heads import token_classifier as token_classifier
from keras_posenc.models.layouts import layout_map as layout_map
from keras_posenc.models.model import TransformerModel as TransformerModel
from keras_posenc.models.sentence_embedding import embedder as embedder
from keras_posenc.models.seq2seq import build_encoder_decoder as build_encoder_decoder
from keras_posenc.models.serving_export import export_model as export_model
from keras_posenc.models.similarity import ranking as ranking
from keras_posenc.models.similarity import similarity as similarity
from keras_posenc.models.sparse_pooling import SparsePooling as SparsePooling
from keras_posenc.models.transformer import Transformer as Transformer
from keras_posenc.positions import PaddedPositionIds as PaddedPositionIds
from keras_posenc.positions import RandomPositionIds as RandomPositionIds
from keras_posenc.positions.learned import LearnedPositionEmbedding as LearnedPositionEmbedding
from keras_posenc.positions.sinusoidal import (
    SinusoidalPositionEmbedding as SinusoidalPositionEmbedding,
)
from keras_posenc.positions.stretched import FreshPositionEmbedding as FreshPositionEmbedding
from keras_posenc.positions.stretched import (
    HierarchicalPositionEmbedding as HierarchicalPositionEmbedding,
)
from keras_posenc.positions.stretched import (
    InterpolatedPositionEmbedding as InterpolatedPositionEmbedding,
)
from keras_posenc.positions.stretched import TiledPositionEmbedding as TiledPositionEmbedding
from keras_posenc.positions.stretched import position_embedding as position_embedding
from keras_posenc.retrieval.embed import embed as embed
from keras_posenc.retrieval.embed import open_embedder as open_embedder
from keras_posenc.retrieval.late_interaction import LateInteraction as LateInteraction
from keras_posenc.retrieval.multi_vectors import MultiVectors as MultiVectors
from keras_posenc.retrieval.multi_vectors import maxsim as maxsim
from keras_posenc.retrieval.reranker import Reranker as Reranker
from keras_posenc.retrieval.reranker import rerank as rerank
from keras_posenc.retrieval.sparse import SparseEmbedder as SparseEmbedder
from keras_posenc.retrieval.sparse import SparseVectors as SparseVectors
from keras_posenc.text import CausalBatches as CausalBatches
from keras_posenc.text import ClassLabels as ClassLabels
from keras_posenc.text import FloatLabels as FloatLabels
from keras_posenc.text import MaskedLanguageModelBatches as MaskedLanguageModelBatches
from keras_posenc.text import MultiLabels as MultiLabels
from keras_posenc.text import NextTokenLabels as NextTokenLabels
from keras_posenc.text import SpanLabels as SpanLabels
from keras_posenc.text import TagLabels as TagLabels
from keras_posenc.text import TextBatches as TextBatches
from keras_posenc.text import Tokenizer as Tokenizer
from keras_posenc.text import read_texts as read_texts
from keras_posenc.text.simplified import simplified_vocabulary as simplified_vocabulary
from keras_posenc.training.adamw import FusedAdamW as FusedAdamW
from keras_posenc.training.chains import ConditionalRandomFieldLoss as ConditionalRandomFieldLoss
from keras_posenc.training.chains import MaximumEntropyMarkovLoss as MaximumEntropyMarkovLoss
from keras_posenc.training.chains import ViterbiAccuracy as ViterbiAccuracy
from keras_posenc.training.curriculum_batches import CurriculumBatches as CurriculumBatches
from keras_posenc.training.evaluate import evaluate as evaluate
from keras_posenc.training.evaluate import predict as predict
from keras_posenc.training.finetune import finetune as finetune
from keras_posenc.training.gradients import gradient as gradient
from keras_posenc.training.losses import (
    SmoothedSparseCategoricalCrossentropy as SmoothedSparseCategoricalCrossentropy,
)
from keras_posenc.training.multilabel_losses import (
    MultilabelCategoricalCrossentropy as MultilabelCategoricalCrossentropy,
)
from keras_posenc.training.multilabel_losses import SpanF1 as SpanF1
from keras_posenc.training.multilabel_losses import (
    SparseMultilabelCategoricalCrossentropy as SparseMultilabelCategoricalCrossentropy,
)
from keras_posenc.training.optimizer import LayerwiseAdamW as LayerwiseAdamW
from keras_posenc.training.pretrain import pretrain as pretrain
from keras_posenc.training.ranking import ListwiseKL as ListwiseKL
from keras_posenc.training.ranking import MarginMSE as MarginMSE
from keras_posenc.training.ranking import MaxSimRanking as MaxSimRanking
from keras_posenc.training.saved_models import load_finetuned as load_finetuned
from keras_posenc.training.saved_models import load_text_model as load_text_model
from keras_posenc.training.schedules import LinearWarmup as LinearWarmup
from keras_posenc.training.schedules import Noam as Noam
from keras_posenc.training.schedules import cosine_warmup as cosine_warmup
from keras_posenc.training.similarity_losses import CosineRegression as CosineRegression
from keras_posenc.training.similarity_losses import InBatchAccuracy as InBatchAccuracy
from keras_posenc.training.similarity_losses import (
    MultipleNegativesRanking as MultipleNegativesRanking,
)
from keras_posenc.training.span_losses import SpanAccuracy as SpanAccuracy
from keras_posenc.training.span_losses import SpanCrossentropy as SpanCrossentropy
from keras_posenc.training.stretching import stretch as stretch
from keras_posenc.training.text_model import TextModel as TextModel

# The classes and functions above, and not the subpackages that importing them binds here.
__all__ = sorted(
    name
    for name, value in vars().items()
    if getattr(value, "__module__", "").startswith(f"{__name__}.") and not name.startswith("_")
)
__all__.append("tasks")
