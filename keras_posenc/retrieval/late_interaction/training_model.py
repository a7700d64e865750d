"""The model that late interaction is trained with: vectors of several texts, and their mask."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.models.model import TransformerModel
from keras_posenc.models.similarity import inputs_of_texts


@keras.saving.register_keras_serializable(package="keras_posenc")
class EachToken(keras.layers.Wrapper):
    """Applies a model of tokens to each of S texts, and marks the vectors that are scored.

    The first text is a query, the others are documents. `skipped` are ids of tokens of documents
    that are not scored, `expand` the first tokens of a query that are scored even if they are
    `pad_id`. The row of a query is not computed beyond `query_length`. The result (B, S, T, D + 1)
    has vectors, and 1 for those that are scored, 0 for others.

    Call arguments:
        inputs: dict, name -> (B, S, T) ids.

    Example:

    >>> encoder = build_transformer_model("bert")
    >>> ids = np.array([[[7, 8, 0], [7, 9, 0]]])
    >>> found = EachToken(encoder, skipped=[9])({"token_ids": ids, "segment_ids": 0 * ids})
    >>> keras.ops.convert_to_numpy(found)[0, :, :, -1].tolist()
    [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, layer, pad_id=0, skipped=(), expand=0, query_length=None, **kwargs):
        super().__init__(layer, **kwargs)
        self.pad_id, self.skipped, self.expand = pad_id, list(skipped), expand
        self.query_length = query_length

    def build(self, inputs_shape=None):
        self.built = True

    def call(self, inputs, training=None):
        ids = inputs["token_ids"]
        shape = ops.shape(ids)
        length = ids.shape[2]
        if self.query_length is None or (length is not None and length <= self.query_length):
            vectors = self._vectors(inputs, training)
        else:
            queries = {name: x[:, :1, : self.query_length] for name, x in inputs.items()}
            documents = {name: x[:, 1:] for name, x in inputs.items()}
            queries, documents = (self._vectors(x, training) for x in (queries, documents))
            missing = shape[2] - ops.shape(queries)[2]
            queries = ops.pad(queries, [(0, 0), (0, 0), (0, missing), (0, 0)])
            vectors = ops.concatenate([queries, documents], axis=1)
        real = ops.not_equal(ids, self.pad_id)
        expanded = ops.less(ops.arange(shape[2], dtype="int32"), self.expand)
        scored = ops.logical_or(real[:, :1], expanded)
        documents = real[:, 1:]
        for token in self.skipped:
            documents = ops.logical_and(documents, ops.not_equal(ids[:, 1:], token))
        scored = ops.cast(ops.concatenate([scored, documents], axis=1), "float32")
        return ops.concatenate([vectors, scored[..., None]], axis=-1)

    def _vectors(self, inputs, training):
        """Vectors (B, S, T, D) of the tokens of ids (B, S, T)."""
        _, texts, length = ops.shape(inputs["token_ids"])
        flat = {name: ops.reshape(x, (-1, length)) for name, x in inputs.items()}
        vectors = ops.cast(self.layer(flat, training=training), "float32")
        return ops.reshape(vectors, (-1, texts, length, vectors.shape[-1]))

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_spec(self, inputs, training=None):
        vectors = self.layer.output
        return keras.KerasTensor((*inputs["token_ids"].shape, vectors.shape[-1] + 1), "float32")

    def get_config(self):
        names = ("pad_id", "skipped", "expand", "query_length")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def late_interaction(model, pad_id, skipped, expand, query_length, num_texts):
    """Builds a model of the vectors of a query's and its documents' tokens, `num_texts` together:
    ids (B, S, T) to (B, S, T, D + 1), by `EachToken`."""
    num_texts = checks.whole("num_texts", num_texts, least=2)
    inputs = inputs_of_texts(model, num_texts)
    vectors = EachToken(model, pad_id, skipped, expand, query_length, name="Tokens")(inputs)
    return TransformerModel(inputs, vectors, name="late_interaction_training")
