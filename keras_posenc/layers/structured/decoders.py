"""Reads the potentials of a chain: the best tags, and how probable each tag is."""

import keras

from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.structured.chain import best_tags, check_potentials, tag_probabilities


class Decoder(Configured, keras.layers.Layer):
    """Base of the layers on potentials (B, T, N, N), which have no weights and pass no mask on."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True

    def build(self, inputs_shape):
        check_potentials(inputs_shape)
        self.built = True

    def compute_mask(self, inputs, mask=None):
        """None: the output marks what is outside the chain."""
        return None


@keras.saving.register_keras_serializable(package="keras_posenc")
class ViterbiDecoder(Decoder):
    """The tags of the most probable path through a chain, found by the Viterbi algorithm.

    Call arguments:
        inputs: (B, T, N, N), the potentials of a `ConditionalRandomField` or of a
            `MaximumEntropyMarkovModel`.

    Returns:
        int32 (B, T): the tags; -1 outside of the chain.

    Example:

    >>> scores = np.array([[[2.0, 0.0], [0.0, 3.0], [0.5, 0.0]]])
    >>> potentials = ConditionalRandomField(initializer="zeros")(scores)
    >>> ops.convert_to_numpy(ViterbiDecoder()(potentials)).tolist()
    [[0, 1, 0]]
    """

    def call(self, inputs):
        return best_tags(inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape[:2], dtype="int32")

    def compute_output_shape(self, inputs_shape):
        return inputs_shape[:2]


@keras.saving.register_keras_serializable(package="keras_posenc")
class ChainMarginals(Decoder):
    """How probable each tag of each token is in a conditional random field, over all paths.

    p(y_t = j) = sum of p(y) over all y with y_t = j, by the forward-backward algorithm.

    Call arguments:
        inputs: (B, T, N, N), the potentials of a `ConditionalRandomField`.

    Returns:
        float32 (B, T, N), which adds up to 1 over the tags; 0 outside of the chain.

    Example:

    >>> scores = np.log([[[1.0, 3.0], [1.0, 1.0]]])
    >>> potentials = ConditionalRandomField(initializer="zeros")(scores)
    >>> ops.convert_to_numpy(ChainMarginals()(potentials)).round(2).tolist()
    [[[0.25, 0.75], [0.5, 0.5]]]
    """

    def call(self, inputs):
        return tag_probabilities(inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape[:3], dtype="float32")

    def compute_output_shape(self, inputs_shape):
        return inputs_shape[:3]
