"""Heads that predict per token: tags, and the two ends of an answer."""

import keras
from keras import ops

from keras_posenc.models.heads import features_of
from keras_posenc.models.model import model_on

# A logit of what cannot be chosen: its probability is 0, and its loss a finite number.
CLOSED = -1e9


def token_classifier(encoder, num_tags, dropout_rate=0.1):
    """Builds a tagger on an encoder: dropout and a dense layer on every token.

    The output keeps the mask, so that padding counts neither in Keras' losses nor in its metrics.
    Weights from `TagLabels` leave out what is no beginning of a word: they act on the loss and on
    `weighted_metrics`.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        num_tags: int.
        dropout_rate: float. Before the last layer.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 logits (B, T, num_tags) as output.

    Raises:
        ValueError: if the encoder has heads, or on fewer than two tags.

    Example:

    >>> encoder = build_transformer_model("bert", hierarchical_position=True)
    >>> model = token_classifier(encoder, num_tags=5)
    >>> loss = keras.losses.SparseCategoricalCrossentropy(
    ...     from_logits=True, reduction="mean_with_sample_weight"
    ... )
    >>> model.compile("adamw", loss, weighted_metrics=["accuracy"])
    >>> model.output_shape
    (None, None, 5)
    """
    features = features_of(encoder, "A token classifier", of_tokens=True)
    if num_tags < 2:
        raise ValueError(f"`num_tags` must be at least 2. Received: {num_tags}")
    x = keras.layers.Dropout(dropout_rate, name="Tagger-Dropout")(features)
    x = keras.layers.Dense(num_tags, dtype="float32", name="Tagger")(x)
    return model_on(encoder, x, "token_classifier")


def span_head(encoder, dropout_rate=0.1):
    """Builds a question-answering head on an encoder: a start and an end logit for every token.

    Padding, and the question of a pair (question, passage), are closed by `SpanLogits`. Families
    without segment ids do not distinguish question and passage: there only padding is.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        dropout_rate: float. Before the last layer.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 logits (B, T, 2) as output.

    Raises:
        ValueError: if the encoder has heads.

    Example:

    >>> model = span_head(build_transformer_model("bert", hierarchical_position=True))
    >>> model.compile("adamw", SpanCrossentropy(), metrics=[SpanAccuracy()])
    >>> model.output_shape
    (None, None, 2)
    """
    features = features_of(encoder, "A span head")
    x = keras.layers.Dropout(dropout_rate, name="Span-Dropout")(features)
    segments = [each for each in encoder.inputs if each.name == "segment_ids"]
    x = SpanLogits(dtype="float32", name="Span")(x, *segments)
    return model_on(encoder, x, "span_head")


@keras.saving.register_keras_serializable(package="keras_posenc")
class SpanLogits(keras.layers.Layer):
    """A start and an end logit of each token, -1e9 where no answer can be.

    Closed are padding and, in a row with tokens of segment 1, all of segment 0 but the first token,
    [CLS], which stands for "no answer". The mask ends here: there is no token left for Keras to
    leave out of a loss of one number per row.

    Call arguments:
        inputs: (B, T, D).
        segment_ids: (B, T) ints, or None.
        inputs_mask: (B, T) bool, False on padding. Set by Keras, as `mask` without segment ids.

    Returns:
        (B, T, 2).

    Example:

    >>> layer = SpanLogits()
    >>> logits = layer(np.ones((1, 4, 8)), np.array([[0, 0, 1, 1]]))
    >>> (ops.convert_to_numpy(logits)[0, :, 0] > -1e9).tolist()
    [True, False, True, True]
    """

    reads_whole_row = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.ends = keras.layers.Dense(2, dtype=self.dtype_policy, name="ends")

    def build(self, inputs_shape, segment_ids_shape=None):
        self.ends.build(inputs_shape)
        self.built = True

    def call(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        mask = inputs_mask if mask is None else mask
        logits = ops.cast(self.ends(inputs), "float32")
        if segment_ids is not None:
            second = ops.equal(segment_ids, 1)
            first = ops.equal(ops.arange(ops.shape(inputs)[1]), 0)
            # The mask of a closed row would leave nothing: a text alone is all open.
            passage = second | first[None] | ops.logical_not(ops.any(second, 1, keepdims=True))
            mask = passage if mask is None else ops.logical_and(mask, passage)
        return logits if mask is None else ops.where(mask[..., None], logits, CLOSED)

    def compute_mask(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        return None

    def compute_output_spec(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        return keras.KerasTensor((*inputs.shape[:2], 2), "float32")
