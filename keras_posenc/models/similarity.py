"""Several texts, or pairs, at a time through one model: what similarity is trained with."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.models.model import TransformerModel


@keras.saving.register_keras_serializable(package="keras_posenc")
class EachText(keras.layers.Wrapper):
    """Applies a model of texts to each of S texts apart: (B, S, T) -> (B, S, D).

    `layer`: a model from a dict of ids (B, T) to vectors (B, D). Returns (B, S, D).

    Call arguments:
        inputs: dict, name -> (B, S, T) ids.

    Example:

    >>> encoder = build_transformer_model("bert", hierarchical_position=True)
    >>> embedder = keras.Model(encoder.inputs, MaskedPooling()(encoder.output))
    >>> ids = np.ones((4, 2, 9), "int32")
    >>> EachText(embedder)({"token_ids": ids, "segment_ids": 0 * ids}).shape
    (4, 2, 16)
    """

    def build(self, inputs_shape=None):
        self.built = True

    def call(self, inputs, training=None):
        shape = ops.shape(next(iter(inputs.values())))
        flat = {name: ops.reshape(ids, (-1, shape[2])) for name, ids in inputs.items()}
        vectors = self.layer(flat, training=training)
        return ops.reshape(vectors, (-1, shape[1], vectors.shape[-1]))

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_spec(self, inputs, training=None):
        shape = next(iter(inputs.values())).shape
        vectors = self.layer.output
        return keras.KerasTensor((*shape[:2], vectors.shape[-1]), vectors.dtype)


def similarity(embedder, num_texts=2):
    """Builds a model that embeds pairs, or triples, of texts, to be trained on their cosines.

    `MultipleNegativesRanking` and `CosineRegression` are its losses, `TextBatches(apart=True)` its
    inputs. The embedder's weights are those that are trained: use it alone afterwards.

    Args:
        embedder: a model from token ids, and segment ids where it has them, (B, T), to vectors
            (B, D).
        num_texts: int, S. 2 for pairs, 3 for triples (anchor, positive, negative).

    Returns:
        A `keras.Model` with inputs of the embedder's names, (B, S, T), and vectors (B, S, D) as
        output.

    Example:

    >>> encoder = build_transformer_model("bert", hierarchical_position=True)
    >>> embedder = keras.Model(encoder.inputs, MaskedPooling()(encoder.output))
    >>> model = similarity(embedder)
    >>> model.compile("adamw", MultipleNegativesRanking(), metrics=[InBatchAccuracy()])
    >>> model.output_shape
    (None, 2, 16)
    """
    vectors = embedder.output
    if isinstance(vectors, (list, tuple)) or len(vectors.shape) != 2:
        raise ValueError(
            "A model of similarity needs an embedder, from a text to a vector (B, D): pool the "
            "features of an encoder."
        )
    num_texts = checks.whole("num_texts", num_texts, least=2)
    inputs, vectors = _each(embedder, num_texts)
    return TransformerModel(inputs, vectors, name="similarity")


def ranking(scorer, num_documents=2):
    """Builds a model that scores several documents for each query, to be trained on their order.

    Its losses are `MarginMSE`, `ListwiseKL` and Keras' `BinaryCrossentropy(from_logits=True)`. Its
    inputs are `TextBatches(apart=True)` of tuples of (query, document) pairs. The weights of
    `scorer` are those that are trained.

    Args:
        scorer: a model from the ids of a pair (B, T) to one logit (B, 1), such as
            `Reranker(directory).model`.
        num_documents: int, S.

    Returns:
        A `keras.Model` with inputs of the scorer's names, (B, S, T), and logits (B, S) as output.

    Example:

    >>> model = ranking(Reranker("bert", label_names=["score"]).model, num_documents=3)
    >>> model.compile("adamw", ListwiseKL())
    >>> model.output_shape
    (None, 3)
    """
    logits = scorer.output
    if isinstance(logits, (list, tuple)) or len(logits.shape) != 2 or logits.shape[1] != 1:
        raise ValueError(
            "A model of ranking needs a scorer, from a pair of texts to one logit (B, 1), such as "
            f"Reranker(directory).model. Received: {scorer!r}"
        )
    num_documents = checks.whole("num_documents", num_documents, least=2)
    inputs, logits = _each(scorer, num_documents)
    logits = keras.layers.Reshape((num_documents,), dtype=logits.dtype, name="Scores")(logits)
    return TransformerModel(inputs, logits, name="ranking")


def _each(model, count):
    """Inputs of a model for `count` texts, and its outputs for each."""
    inputs = {
        each.name: keras.Input((count, None), dtype=each.dtype, name=each.name)
        for each in model.inputs
    }
    return inputs, EachText(model, name="Texts")(inputs)
