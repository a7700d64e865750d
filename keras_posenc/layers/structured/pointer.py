"""Global pointers: a score for each span of a text, in full or with few weights."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.backend.weighing import CLOSED
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import dense_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class GlobalPointer(Configured, keras.layers.Layer):
    """Scores every span of a text for every kind of span: nested and overlapping ones too.

    s_a(i, j) = (R_i q_(a,i)) . (R_j k_(a,j)) / sqrt(head size), where q_a and k_a are projections
    for the kind a and R is the rotary embedding, which lets the score see how long a span is. A
    span from i to j, both included, is of the kind a where s_a(i, j) > 0. Train it with
    `MultilabelCategoricalCrossentropy` or `SparseMultilabelCategoricalCrossentropy`, axis=(-2, -1).

    Args:
        heads: int. Kinds of spans H (entity types).
        head_size: int. Size of a query and of a key.
        rotary: bool, or a dict of the arguments of `RotaryEmbedding`.
        use_bias: bool. Of the projections.
        tril_mask: bool. Whether to mask the lower triangle, because no span ends before it begins.
        kernel_initializer: initializer of the projections.

    Call arguments:
        inputs: (B, T, D), the features of an encoder.
        mask: (B, T) bool, False on padding. Set by Keras.

    Returns:
        float32 (B, H, T, T), [b, a, i, j] for the span from i to j; -1e9 where it is closed:
            padding, and the lower triangle.

    Example:

    >>> features = np.random.normal(size=(2, 6, 16))
    >>> GlobalPointer(heads=3, head_size=8)(features).shape
    (2, 3, 6, 6)

    Reference: Su Jianlin, [GlobalPointer](https://kexue.fm/archives/8373), 2021; Su et al., [Global
    Pointer](https://arxiv.org/abs/2208.03054), 2022.
    """

    def __init__(
        self,
        heads: int,
        head_size: int,
        rotary: bool | dict = True,
        use_bias: bool = True,
        tril_mask: bool = True,
        kernel_initializer: Initializer = "lecun_normal",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.heads = checks.whole("heads", heads)
        self.head_size = checks.whole("head_size", head_size)
        self.rotary, self.use_bias, self.tril_mask = rotary, use_bias, tril_mask
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, inputs_shape):
        self._check(inputs_shape)
        units = 2 * self.heads * self.head_size
        self.dense = self.part("dense", units, inputs_shape)
        self.rotation = self.build_rotation(inputs_shape, self.heads)
        self.built = True

    def _check(self, inputs_shape):
        if len(inputs_shape) != 3:
            raise ValueError(
                f"{type(self).__name__} takes features (B, T, D). Received: {tuple(inputs_shape)}"
            )

    def part(self, name, units, input_shape):
        """Builds a projection."""
        return dense_part(self, name, units, input_shape, use_bias=self.use_bias)

    def build_rotation(self, inputs_shape, heads):
        """Builds the rotary embedding of queries and keys, or returns None."""
        if self.rotary is False:
            return None
        arguments = {} if self.rotary is True else dict(self.rotary)
        # Products of queries and keys are to be float32, so they are rotated as float32.
        rotation = RotaryEmbedding(**arguments, dtype="float32", name="rotation")
        rotation.build((*inputs_shape[:2], heads, self.head_size))
        return rotation

    def turned(self, q, k):
        """Queries and keys (B, T, H, head size) as float32, rotated by their positions."""
        q, k = ops.cast(q, "float32"), ops.cast(k, "float32")
        return (q, k) if self.rotation is None else self.rotation((q, k))

    def call(self, inputs, mask=None):
        shape = ops.shape(inputs)
        both = ops.reshape(self.dense(inputs), (*shape[:2], self.heads, 2 * self.head_size))
        q, k = self.turned(*ops.split(both, 2, axis=-1))
        return self.closed(ops.einsum("bmhd,bnhd->bhmn", q, k) / self.head_size**0.5, mask)

    def closed(self, scores, mask):
        """Closes the spans that are none."""
        place = ops.arange(ops.shape(scores)[-1], dtype="int32")
        is_span = place[:, None] <= place if self.tril_mask else place[:, None] >= 0
        is_span = is_span[None, None]
        if mask is not None:
            mask = ops.cast(mask, "bool")
            is_span = is_span & mask[:, None, :, None] & mask[:, None, None]
        return ops.where(is_span, scores, CLOSED)

    def compute_mask(self, inputs, mask=None):
        """None, because masked spans are already marked by their scores."""
        return None

    def compute_output_spec(self, inputs, mask=None):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="float32")

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], self.heads, inputs_shape[1], inputs_shape[1])

    def get_config(self):
        return with_quantized_parts(super().get_config(), self, self.parts() if self.built else [])

    def parts(self):
        """The projections."""
        return [self.dense]


@keras.saving.register_keras_serializable(package="keras_posenc")
class EfficientGlobalPointer(GlobalPointer):
    """A `GlobalPointer` whose kinds of spans share one pair of projections, with few weights more.

        s_a(i, j) = (R_i q_i) . (R_j k_j) / sqrt(head size) + (w_a . h_i + v_a . h_j) / 2

    `h` is [q, k] of a token. The first term scores once for all kinds whether the span is an
    entity. The second scores the kind from its two ends. With D features and H kinds there are
    2 D head_size + 4 H head_size weights instead of 2 D H head_size.

    Args:
        heads, head_size, rotary, use_bias, tril_mask, kernel_initializer: as in `GlobalPointer`.

    Call arguments:
        inputs: (B, T, D), the features of an encoder.
        mask: (B, T) bool, False on padding. Set by Keras.

    Returns:
        float32 (B, H, T, T), [b, a, i, j] for the span from i to j; -1e9 where it is closed:
            padding, and the lower triangle.

    Example:

    >>> features = np.random.normal(size=(2, 6, 16))
    >>> layer = EfficientGlobalPointer(heads=3, head_size=8)
    >>> layer(features).shape, layer.count_params()
    ((2, 3, 6, 6), 374)

    Reference: Su Jianlin, [Efficient GlobalPointer](https://kexue.fm/archives/8877), 2022.
    """

    def build(self, inputs_shape):
        self._check(inputs_shape)
        self.dense = self.part("dense", 2 * self.head_size, inputs_shape)
        shape = (*inputs_shape[:2], 2 * self.head_size)
        self.kinds = self.part("kinds", 2 * self.heads, shape)
        self.rotation = self.build_rotation(inputs_shape, 1)
        self.built = True

    def call(self, inputs, mask=None):
        both = self.dense(inputs)
        # Queries and keys alternate, as in bert4keras.
        q, k = ops.split(ops.reshape(both, (*ops.shape(both)[:2], 1, self.head_size, 2)), 2, -1)
        q, k = self.turned(q[..., 0], k[..., 0])
        scores = ops.einsum("bmhd,bnhd->bhmn", q, k) / self.head_size**0.5
        kinds = ops.transpose(ops.cast(self.kinds(both), "float32"), (0, 2, 1)) / 2
        kinds = ops.reshape(kinds, (ops.shape(kinds)[0], self.heads, 2, ops.shape(kinds)[2]))
        scores = scores + kinds[:, :, 0, None] + kinds[:, :, 1, :, None]
        return self.closed(scores, mask)

    def parts(self):
        return [self.dense, self.kinds]
