"""Several texts, or pairs, at a time through one model: what similarity is trained with."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.models.model import TransformerModel


@keras.saving.register_keras_serializable(package="keras_posenc")
class EachText(keras.layers.Wrapper):
    """Applies a model of texts to each of S texts apart: (B, S, T) -> (B, S, D).

    `layer`: a model from a dict of ids (B, T) to vectors (B, D). `sub_batches`: as in `similarity`.
    Its inputs are a dict, name -> (B, S, T) ids.
    """

    def __init__(self, layer, sub_batches=1, **kwargs):
        super().__init__(layer, **kwargs)
        self.sub_batches = checks.whole("sub_batches", sub_batches)

    def build(self, inputs_shape=None):
        self.built = True

    def call(self, inputs, training=None):
        shape = ops.shape(next(iter(inputs.values())))
        flat = {name: ops.reshape(ids, (-1, shape[2])) for name, ids in inputs.items()}
        if training and self.sub_batches > 1:
            vectors = _in_sub_batches(self.layer, flat, self.sub_batches)
        else:
            vectors = self.layer(flat, training=training)
        return ops.reshape(vectors, (-1, shape[1], vectors.shape[-1]))

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_spec(self, inputs, training=None):
        shape = next(iter(inputs.values())).shape
        vectors = self.layer.output
        return keras.KerasTensor((*shape[:2], vectors.shape[-1]), vectors.dtype)

    def get_config(self):
        return {**super().get_config(), "sub_batches": self.sub_batches}


def _in_sub_batches(model, inputs, count):
    """The output (N, D) of a model for rows (N, T), of which each part is computed once more in the
    backward pass, with the same seeds."""
    trainable = [weight.value for weight in model.trainable_variables]
    weights = {id(weight) for weight in model.weights}
    seeds = [x for x in model.non_trainable_variables if id(x) not in weights]

    def moved(numbers):
        before = [ops.copy(x.value) for x in seeds]  # PyTorch assigns in place
        for seed, value in zip(seeds, numbers, strict=True):
            seed.assign(value)
        return before

    def step(numbers, ids):
        rows = dict(zip(inputs, ops.unstack(ids), strict=True))

        @backend.recomputed  # of floats alone: TensorFlow warns of integers
        def compute(trainable):
            if backend.TRAITS.eager:  # where a call without the state keeps features longer
                before = moved(numbers)
                try:
                    vectors = model(rows, training=True)
                finally:
                    after = moved(before)
                return vectors, after
            known = dict(zip(map(id, seeds), numbers, strict=True))
            others = [known.get(id(x), x.value) for x in model.non_trainable_variables]
            vectors, others = model.stateless_call(trainable, others, rows, training=True)
            states = zip(model.non_trainable_variables, others, strict=True)
            return vectors, [state for x, state in states if id(x) in known]

        vectors, after = compute(trainable)
        return after, vectors

    number = ops.shape(next(iter(inputs.values())))[0]
    # Copies of the last row fill up the last part. Each part has rows of every device.
    index = ops.minimum(ops.arange(-(-number // count) * count), number - 1)
    parts = [ops.take(ids, index, axis=0) for ids in inputs.values()]
    parts = [ops.moveaxis(ops.reshape(x, (-1, count, x.shape[1])), 1, 0) for x in parts]
    start = [ops.copy(x.value) for x in seeds]
    numbers, vectors = backend.scan(step, start, ops.stack(parts, axis=1))
    moved(numbers)
    return ops.reshape(ops.moveaxis(vectors, 0, 1), (-1, vectors.shape[-1]))[:number]


def similarity(embedder, num_texts=2, sub_batches=1):
    """Builds a model that embeds pairs, or triples, of texts, to be trained on their cosines.

    `MultipleNegativesRanking` and `CosineRegression` are its losses, `TextBatches(apart=True)` its
    inputs. The embedder's weights are those that are trained: use it alone afterwards.

    Args:
        embedder: a model from token ids, and segment ids where it has them, (B, T), to vectors
            (B, D).
        num_texts: int, S. 2 for pairs, 3 for triples (anchor, positive, negative).
        sub_batches: int. In how many parts the texts of a batch are computed in training. Only
            their vectors are kept, and the backward pass computes each part once more. So the
            memory is that of one part, and the negatives are those of the whole batch (GradCache).

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

    Reference: [GradCache](https://arxiv.org/abs/2101.06983) (`sub_batches`).
    """
    vectors = embedder.output
    if isinstance(vectors, (list, tuple)) or len(vectors.shape) != 2:
        raise ValueError(
            "A model of similarity needs an embedder, from a text to a vector (B, D): pool the "
            "features of an encoder."
        )
    num_texts = checks.whole("num_texts", num_texts, least=2)
    inputs = inputs_of_texts(embedder, num_texts)
    vectors = EachText(embedder, sub_batches, name="Texts")(inputs)
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
    inputs = inputs_of_texts(scorer, num_documents)
    logits = EachText(scorer, name="Texts")(inputs)
    logits = keras.layers.Reshape((num_documents,), dtype=logits.dtype, name="Scores")(logits)
    return TransformerModel(inputs, logits, name="ranking")


def inputs_of_texts(model, count):
    """The inputs of a model of one text as those of `count` texts: {name: (B, count, T)}."""
    return {
        each.name: keras.Input((count, None), dtype=each.dtype, name=each.name)
        for each in model.inputs
    }
