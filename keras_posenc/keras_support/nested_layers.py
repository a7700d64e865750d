"""Initial values and dtype policies of the layers inside a layer.

`model.quantize` gives each innermost layer a dtype policy of its own, which the config of the layer
around it lacks, since that layer creates it. So the outer layer's config stores all of them, in a
`DTypePolicyMap`.
"""

import contextlib
import contextvars

import keras

from keras_posenc import backend
from keras_posenc.backend.keras_names import kernel_of, save_zero_points, track

_LATER = contextvars.ContextVar("_LATER", default=False)


@keras.saving.register_keras_serializable(package="keras_posenc")
class Stored(keras.initializers.TruncatedNormal):
    """Initializes a weight with the numbers of a checkpoint, or at random where it lacks them.

    No numbers are drawn only to be overwritten. A layer that is made again from its config (a
    clone, a reloaded model) is initialized at random. `read` is a function (name, shape) -> array,
    or None where nothing fits; `name` is that of the weight, or of the layer whose weights
    `initializer_of_part` names.
    """

    def __init__(self, stddev, read, name):
        super().__init__(stddev=stddev)
        self.read = read
        self.name = name

    def __call__(self, shape, dtype=None):
        stored = self.read(self.name, tuple(shape))
        if stored is None:
            return super().__call__(shape, dtype)
        return keras.ops.convert_to_tensor(stored, dtype or keras.config.floatx())

    def clone(self):
        return Stored(self.stddev, self.read, self.name)

    @classmethod
    def from_config(cls, config):
        if _LATER.get():
            return Stored(config["stddev"], _zeros, "")
        return keras.initializers.TruncatedNormal(**config)


@contextlib.contextmanager
def numbers_come_later():
    """While a file is read: layers are made before their numbers come, so none are drawn."""
    token = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(token)


def _zeros(name, shape):
    return keras.ops.zeros(shape)


def initializer_of_part(initializer, name):
    """The initializer of one weight of a layer, by its path such as "query/kernel": draws of its
    own, or its own stored numbers."""
    if isinstance(initializer, Stored):
        return Stored(initializer.stddev, initializer.read, f"{initializer.name}/{name}")
    # An unseeded instance draws the same values every time.
    return initializer.clone()


def policy_of_part(layer, name):
    """The dtype policy of a layer that `layer` creates under a name.

    With the whole map as its policy, it would be saved as if it were not quantized.
    """
    policy = layer.dtype_policy
    if not _is_map(policy):
        return policy
    # Files from before have paths as keys, which are others in another model.
    return policy[name if name in tuple(policy) else f"{layer.path}/{name}"]


def built(layer, part, *shapes):
    """Builds a layer that `layer` makes when it is itself built, and returns it; a part of a frozen
    layer is frozen: Keras asks each weight, not the layers around it."""
    part.trainable = part.trainable and layer.trainable
    part.build(*shapes)
    save_zero_points(part)
    track(layer, part)
    return part


def dense_part(layer, name, units, input_shape, kernel_initializer=None, **options):
    """Makes and builds a dense layer inside `layer`, by default with its `kernel_initializer`."""
    if kernel_initializer is None:
        kernel_initializer = initializer_of_part(layer.kernel_initializer, f"{name}/kernel")
    options |= {"kernel_initializer": kernel_initializer, "dtype": policy_of_part(layer, name)}
    return built(layer, keras.layers.Dense(units, name=name, **options), input_shape)


def applied(dense, x, axes=1):
    """dense(x), without what Keras does around a call where that costs as much as the product.

    The layer sums over the last `axes` of x and the first ones of its kernel.
    """
    if not backend.is_plain(dense, x, casts=True):
        return dense(x)
    y = backend.linear(x, kernel_of(dense), dense.bias, axes)
    return y if dense.activation is None else dense.activation(y)


def called(layer, x):
    """layer(x), without what Keras does around a call where that costs as much as the layer."""
    casts = getattr(layer, "casts_weights", False)
    return layer.call(x) if casts and backend.is_plain(layer, x, casts) else layer(x)


def with_quantized_parts(config, layer, parts):
    """The config of a layer, with the dtype policies of its parts, made with `policy_of_part`."""
    policy = layer.dtype_policy
    if not (_is_map(policy) or any(part.quantization_mode for part in parts)):
        return config
    policies = {part.name: part.dtype_policy for part in parts}
    default = policy.default_policy if _is_map(policy) else policy
    policy = keras.dtype_policies.DTypePolicyMap(default, policies) if parts else policy
    return {**config, "dtype": keras.dtype_policies.serialize(policy)}


def _is_map(policy):
    return isinstance(policy, keras.dtype_policies.DTypePolicyMap)
