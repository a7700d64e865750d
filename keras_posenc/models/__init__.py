"""Models: the factory, the graph from a config, families, and models that are loaded or saved."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.models.config import Config
    from keras_posenc.models.config_file import read_config
    from keras_posenc.models.extension import Extension
    from keras_posenc.models.factory import build_transformer_model
    from keras_posenc.models.families import FAMILIES, Family, register_family
    from keras_posenc.models.generation import Generator
    from keras_posenc.models.layouts import layout_map
    from keras_posenc.models.model import TransformerModel
    from keras_posenc.models.sentence_embedding import embedder
    from keras_posenc.models.seq2seq import build_encoder_decoder
    from keras_posenc.models.serving_export import export_model
    from keras_posenc.models.transformer import Transformer
    from keras_posenc.training.saved_models import load_finetuned, load_text_model
    from keras_posenc.training.text_model import TextModel

__all__ = [
    "build_encoder_decoder", "build_transformer_model", "Config", "Extension", "embedder",
    "export_model", "FAMILIES", "Family", "Generator", "layout_map", "load_finetuned",
    "load_text_model", "read_config", "register_family", "TextModel", "Transformer",
    "TransformerModel",
]  # fmt: skip

names_on_request(__name__)
