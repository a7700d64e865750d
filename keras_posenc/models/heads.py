"""Task heads on the features of an encoder."""

import keras
from keras import ops

from keras_posenc.models.model import model_on

# The last layers of heads whose output is (B, T, ...), as features are.
OF_HEADS = (
    "MLM-Activation",
    "Discriminator-Proba",
    "Token-Output",
    "Span-Output",
    "Tagger",
    "Span",
)
POOLINGS = ("mean", "cls", "max", "last", "weighted_mean", "sqrt_mean")


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaskedPooling(keras.layers.Layer):
    """Pools the features of a sequence to one vector, ignoring padding.

    Args:
        pooling: "mean" of the tokens, "cls" (the first token), "max", "last" (the last real token,
            for causal models), "weighted_mean" (the n-th token counts n times) or "sqrt_mean" (the
            sum over the root of the number of tokens).

    Call arguments:
        inputs: (B, T, D).
        mask: (B, T) bool, False on padding. Set by Keras.

    Returns:
        (B, D).

    Raises:
        ValueError: on an unknown `pooling`.

    Example:

    >>> x = keras.layers.Masking()(np.array([[[1.0], [3.0], [0.0]]]))
    >>> float(MaskedPooling()(x)[0, 0])
    2.0
    """

    def __init__(self, pooling="mean", **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: {pooling!r}")
        self.pooling = pooling
        self.reads_whole_row = pooling != "cls"
        self.supports_masking = True
        self.built = True

    def call(self, inputs, mask=None):
        if self.pooling == "cls":
            return inputs[:, 0]
        if self.pooling == "last":
            if mask is None:
                return inputs[:, -1]
            steps = ops.arange(ops.shape(inputs)[1], dtype="int32")
            last = ops.max(ops.where(mask, steps, 0), axis=1)
            return ops.take_along_axis(inputs, last[:, None, None], axis=1)[:, 0]
        if self.pooling == "max":
            if mask is not None:
                inputs = ops.where(mask[..., None], inputs, -3e4)
            return ops.max(inputs, axis=1)
        if mask is None and self.pooling == "mean":
            return ops.mean(inputs, axis=1)
        # Sums over long texts are in float32: bfloat16 cannot count beyond 256.
        real = ops.ones(ops.shape(inputs)[:2]) if mask is None else ops.cast(mask, "float32")
        weights = ops.cumsum(real, axis=1) * real if self.pooling == "weighted_mean" else real
        total = ops.sum(ops.cast(inputs, "float32") * ops.expand_dims(weights, -1), axis=1)
        count = ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
        mean = total / (ops.sqrt(count) if self.pooling == "sqrt_mean" else count)
        return ops.cast(mean, self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[2])

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}


def classifier(encoder, num_classes, pooling="mean", dropout_rate=0.1):
    """Builds a classifier on an encoder: pooling, dropout and a dense layer.

    The loss decides what the logits are of: one class a text
    (`keras.losses.SparseCategoricalCrossentropy`), or any number of classes
    (`keras.losses.BinaryCrossentropy`), both with `from_logits=True`.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        num_classes: int.
        pooling: as in `MaskedPooling`. The mean uses the whole of a long text; [CLS] alone
            was trained on at most 512 tokens.
        dropout_rate: float. Before the last layer.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 logits (B, num_classes) as output.

    Raises:
        ValueError: if the encoder has heads, on fewer than two classes, or on an unknown `pooling`.

    Example:

    >>> encoder = build_transformer_model("bert", hierarchical_position=True)
    >>> model = classifier(encoder, num_classes=2)
    >>> model.compile("adamw", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> model.output_shape
    (None, 2)
    """
    features = features_of(encoder, "A classifier")
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be at least 2. Received: {num_classes}")
    x = _pooled(features, pooling, dropout_rate, "Classifier")
    x = keras.layers.Dense(num_classes, dtype="float32", name="Classifier")(x)
    return model_on(encoder, x, "classifier")


def regressor(encoder, num_values=1, pooling="mean", dropout_rate=0.1):
    """Builds a model of numbers on an encoder: pooling, dropout and a dense layer.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        num_values: int. Numbers per text.
        pooling: "mean", "cls", "max" or "last".
        dropout_rate: float. Before the last layer. It makes numbers noisy in training: 0 is usual.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 numbers (B, num_values) as output.

    Raises:
        ValueError: if the encoder has heads, on no value, or on an unknown `pooling`.

    Example:

    >>> model = regressor(build_transformer_model("bert", hierarchical_position=True))
    >>> model.compile("adamw", "mse")
    >>> model.output_shape
    (None, 1)
    """
    features = features_of(encoder, "A regressor")
    if num_values < 1:
        raise ValueError(f"`num_values` must be at least 1. Received: {num_values}")
    x = _pooled(features, pooling, dropout_rate, "Regressor")
    x = keras.layers.Dense(num_values, dtype="float32", name="Regressor")(x)
    return model_on(encoder, x, "regressor")


def _pooled(features, pooling, dropout_rate, name):
    x = MaskedPooling(pooling, name="Pooling")(features)
    return keras.layers.Dropout(dropout_rate, name=f"{name}-Dropout")(x)


def _is_packed(encoder):
    """Whether attention is called with `packed`, as it is in a clone too."""
    nodes = [node for depth in encoder._nodes_by_depth.values() for node in depth]
    return any(node.arguments.kwargs.get("packed") for node in nodes if not node.is_input)


def features_of(encoder, head, of_tokens=False):
    """The features (B, T, D) of an encoder.

    Args:
        encoder: a `keras.Model`.
        head: str, what the new head is called.
        of_tokens: bool. Whether the head predicts per token, and not per row.

    Raises:
        ValueError: if the encoder has heads, or its rows hold several texts.
    """
    features = encoder.output
    single = not isinstance(features, (list, tuple)) and len(features.shape) == 3
    if not single or encoder.layers[-1].name.endswith(OF_HEADS):
        raise ValueError(
            f"{head} needs the features (B, T, D) of an encoder without heads: build it "
            "without with_pool, with_nsp, with_mlm, with_discriminator and head."
        )
    if not of_tokens and _is_packed(encoder):
        raise ValueError(
            f"{head} is of one text a row, and this encoder's rows hold several: build it without "
            "`packed`, with the same `layers`."
        )
    return features
