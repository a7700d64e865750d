"""Task heads: logits or numbers on the features of an encoder."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.layers import activations
from keras_posenc.layers.dropout import Dropout
from keras_posenc.models.direct import calls_in
from keras_posenc.models.families.task_heads import TaskHead
from keras_posenc.models.model import model_on
from keras_posenc.models.pooling import POOLINGS, MaskedPooling
from keras_posenc.models.span_logits import SpanLogits

# The last layers of heads whose output is (B, T, ...), as features are.
OF_HEADS = (
    "MLM-Activation", "Discriminator-Proba", "Token-Output", "Span-Output", "Head-Output", "Tagger",
    "Span",
)  # fmt: skip

FIRST_OF_HEADS = ("Head-Pooling", "Head-Dropout", "Sequence-Dense")


def add_head(head, x, outputs, parts, segments=()):
    """Puts a head on the features of an encoder.

    `head`: `TaskHead`. `x`: (B, T, D). `outputs`: int. Number of logits. `parts`: what makes the
    layers, a `Transformer` or `NewLayers`. `segments`: list of the segment ids, if there are some.
    Returns the logits (B, outputs), or (B, T, outputs) where each token has some, in float32.
    """

    def pool(x):
        return parts.layer(MaskedPooling, "Head-Pooling", pooling=head.pooling)(x)

    if head.pooling is not None and not head.late:
        x = pool(x)
    if head.dense is not None:
        activation = activations.get(head.activation)
        x = parts.dense(head.dense, x.shape[-1], activation, head.dense_bias)(x)
    if head.norm is not None:
        x = parts.normalize(x, head.norm)
    if head.late:
        x = pool(x)
    x = parts.drop(x, "Head-Dropout", head.dropout)
    if head.closes:
        return parts.layer(SpanLogits, head.output, dtype="float32")(x, *segments)
    return parts.layer(
        keras.layers.Dense,
        head.output,
        units=outputs,
        use_bias=head.output_bias,
        dtype="float32",
        kernel_initializer=parts.initializer(f"{head.output}/kernel"),
    )(x)


class NewLayers:
    """Makes the layers of a head for an encoder of any kind, with Keras' defaults."""

    def layer(self, make, name, **arguments):
        """Returns a new layer."""
        return make(name=name, **arguments)

    def drop(self, x, name, rate):
        """Applies dropout."""
        return Dropout(rate, name=name)(x)

    def initializer(self, name):
        """Returns the initializer of a kernel."""
        return "glorot_uniform"


def _with_head(encoder, head, outputs, name):
    of_tokens = head.pooling is None and not head.closes
    features = features_of(encoder, f"A {name.replace('_', ' ')}", of_tokens)
    segments = [each for each in encoder.inputs if each.name == "segment_ids"]
    return model_on(encoder, add_head(head, features, outputs, NewLayers(), segments), name)


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

    Example:

    >>> encoder = build_transformer_model("bert", hierarchical_position=True)
    >>> model = classifier(encoder, num_classes=2)
    >>> model.compile("adamw", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> model.output_shape
    (None, 2)
    """
    num_classes = checks.whole("num_classes", num_classes, least=2)
    head = TaskHead("Classifier", checks.choice("pooling", pooling, POOLINGS), dropout=dropout_rate)
    return _with_head(encoder, head, num_classes, "classifier")


def regressor(encoder, num_values=1, pooling="mean", dropout_rate=0.1):
    """Builds a model of numbers on an encoder: pooling, dropout and a dense layer.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        num_values: int. Numbers per text.
        pooling: "mean", "cls", "max" or "last".
        dropout_rate: float. Before the last layer. It makes numbers noisy in training: 0 is usual.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 numbers (B, num_values) as output.

    Example:

    >>> model = regressor(build_transformer_model("bert", hierarchical_position=True))
    >>> model.compile("adamw", "mse")
    >>> model.output_shape
    (None, 1)
    """
    num_values = checks.whole("num_values", num_values)
    head = TaskHead("Regressor", checks.choice("pooling", pooling, POOLINGS), dropout=dropout_rate)
    return _with_head(encoder, head, num_values, "regressor")


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
    num_tags = checks.whole("num_tags", num_tags, least=2)
    head = TaskHead("Tagger", dropout=dropout_rate)
    return _with_head(encoder, head, num_tags, "token_classifier")


def span_head(encoder, dropout_rate=0.1):
    """Builds a question-answering head on an encoder: a start and an end logit for every token.

    Padding, and the question of a pair (question, passage), are closed by `SpanLogits`. Families
    without segment ids do not distinguish question and passage: there only padding is.

    Args:
        encoder: a model from `build_transformer_model` with features (B, T, D) as output.
        dropout_rate: float. Before the last layer.

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 logits (B, T, 2) as output.

    Example:

    >>> model = span_head(build_transformer_model("bert", hierarchical_position=True))
    >>> model.compile("adamw", SpanCrossentropy(), metrics=[SpanAccuracy()])
    >>> model.output_shape
    (None, None, 2)
    """
    head = TaskHead("Span", dropout=dropout_rate, closes=True)
    return _with_head(encoder, head, 2, "span_head")


def features_before_head(model):
    """The features (B, T, D) that the head of a model reads.

    `model`: `keras.Model` with a head of `classifier`, `regressor`, `token_classifier` or
    `span_head`, or with a family's own for whole texts.
    """
    first = next(layer for layer in model.layers if layer.name in FIRST_OF_HEADS)
    return keras.tree.flatten(first.input)[0]


def features_of(encoder, head, of_tokens=False):
    """The features (B, T, D) of an encoder.

    `head`: str, what the new head is called. `of_tokens`: bool. Whether the head predicts per
    token, and not per row.
    """
    features = encoder.output
    single = not isinstance(features, (list, tuple)) and len(features.shape) == 3
    if not single or encoder.layers[-1].name.endswith(OF_HEADS):
        raise ValueError(
            f"{head} needs the features (B, T, D) of an encoder without heads: build it "
            "without with_pool, with_nsp, with_mlm, with_discriminator and head."
        )
    # By the arguments of attention, which a clone has too.
    packed = any(node.arguments.kwargs.get("packed") for node in calls_in(encoder))
    if packed and not of_tokens:
        raise ValueError(
            f"{head} needs one text per row, and the rows of this encoder hold several: build it "
            "without `packed`, with the same `layers`."
        )
    return features
