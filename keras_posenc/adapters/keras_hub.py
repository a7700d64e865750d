"""KerasHub: our encoder as a backbone of its tasks."""

import keras
from keras import ops

try:
    from keras_hub.models import Backbone
except ImportError:
    raise ImportError("This adapter needs KerasHub: pip install keras-hub") from None

from keras_posenc.backend.keras_names import maker_of
from keras_posenc.files.untrusted import quote
from keras_posenc.models.model import model_on


@keras.saving.register_keras_serializable(package="keras_posenc")
class TiedEmbedding(keras.layers.Layer):
    """The token table of a model, as KerasHub's masked-LM head uses it in reverse."""

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding
        self.input_dim, self.output_dim = embedding.embeddings.shape
        self.built = True

    def call(self, inputs, reverse=False):
        table = ops.cast(self.embedding.embeddings, self.compute_dtype)
        if reverse:
            return ops.matmul(ops.cast(inputs, self.compute_dtype), ops.transpose(table))
        return ops.take(table, inputs, axis=0)


@keras.saving.register_keras_serializable(package="keras_posenc")
class EncoderBackbone(Backbone):
    """An encoder of `build_transformer_model` as a `keras_hub.models.Backbone`.

    Its inputs are those of KerasHub: `token_ids`, `padding_mask`, and `segment_ids` where the model
    has segments. What the mask hides becomes the padding id. The output of a model with segments is
    a dict of `sequence_output` (B, T, D) and `pooled_output` (B, D), as a `BertBackbone` has it:
    without a pooler, the features of the first token. That of another is the sequence alone.

    Args:
        model: a model of `build_transformer_model`.
        **kwargs: of `keras_hub.models.Backbone`.
    """

    def __init__(self, model, **kwargs):
        transformer = getattr(model, "transformer", None)
        if transformer is None or transformer.config.pad_token_id is None:
            raise ValueError(
                "`as_backbone` needs a model of `build_transformer_model` with a padding token. "
                f"Received: {quote(model)}"
            )
        config = transformer.config
        encoder = model_on(model, features_of(model), "features")
        names = [each.name for each in encoder.inputs]
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in (*names, "padding_mask")
        }
        seen = ops.not_equal(inputs["padding_mask"], 0)
        ids = ops.where(seen, inputs["token_ids"], config.pad_token_id)
        features = encoder({**{name: inputs[name] for name in names}, "token_ids": ids})
        outputs = features
        if "segment_ids" in names:
            pooled = features[:, 0]
            if "Pooler-Dense" in transformer.layers:
                pooled = transformer.layers["Pooler-Dense"](pooled)
            outputs = {"sequence_output": features, "pooled_output": pooled}
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.model = model
        self.token_embedding = TiedEmbedding(transformer.layers["Embedding-Token"])
        self.vocabulary_size, self.hidden_dim = config.vocab_size, config.hidden_size
        self.num_layers, self.num_heads = config.num_hidden_layers, config.num_attention_heads

    def get_config(self):
        model = keras.saving.serialize_keras_object(self.model)
        return {"model": model, "name": self.name, "trainable": self.trainable}

    @classmethod
    def from_config(cls, config):
        model = keras.saving.deserialize_keras_object(config["model"])
        return cls(**{**config, "model": model})


def features_of(model):
    """The features (B, T, D) of a model without a head, or with a pooler alone."""
    pooler = model.transformer.layers.get("Pooler-Dense")
    if pooler is None:
        features = keras.tree.flatten(model.output)
    else:
        first_token = maker_of(pooler.input)
        features = keras.tree.flatten(first_token.input)
    if len(model.outputs) != 1 or len(features[0].shape) != 3:
        raise ValueError(
            "`as_backbone` needs a model without heads, or with_pool=True alone: KerasHub's tasks "
            f"add theirs. Received: {len(model.outputs)} outputs"
        )
    return features[0]


def as_backbone(model):
    """Returns an encoder, with its extended positions and encodings, as an `EncoderBackbone`.

    Args:
        model: a model of `build_transformer_model`. It shares its weights with the backbone.

    Raises:
        ImportError: without keras-hub.

    Example:

        model = build_transformer_model("path/to/bert", extension="hierarchical", max_position=2048)
        classifier = keras_hub.models.BertTextClassifier(as_backbone(model), num_classes=2)
    """
    return EncoderBackbone(model)
