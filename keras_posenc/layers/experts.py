"""A mixture of experts in place of a feed-forward layer."""

import dataclasses

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import initializer_of_part


@keras.saving.register_keras_serializable(package="keras_posenc")
class MixtureOfExperts(Configured, keras.layers.Layer):
    """Feed-forward layers of which each token uses the few that a router chooses.

        y = sum of softmax(r_e) FF_e(x) over the k experts e with the largest r = W_r x + b_r
        FF(x) = W_o (g sigmoid(slope g) (h + offset)) + b_o, with (g, h) = W_i x + b_i

    The softmax is over the k chosen logits, in float32. Each token costs k experts, whatever their
    number, on all backends except in an exported program, which computes all of them. Returns (B,
    T, D).

    Args:
        units: int. Inner size of an expert.
        num_experts: int.
        experts_per_token: int. k.
        slope: number. Of the sigmoid; 1 is SiLU.
        offset: number. Added to the half without activation.
        limit: number or None. Bounds g from above and h from both sides.
        kernel_initializer: initializer of all kernels.

    Call arguments:
        inputs: (B, T, D).

    Example:

    >>> layer = MixtureOfExperts(32, num_experts=8, experts_per_token=2)
    >>> layer(np.random.normal(size=(2, 5, 16))).shape
    (2, 5, 16)

    Reference: [Outrageously Large Neural Networks](https://arxiv.org/abs/1701.06538). Slope, offset
    and limit are those of the [gpt-oss Model Card](https://arxiv.org/abs/2508.10925).
    """

    def __init__(
        self,
        units: int,
        num_experts: int,
        experts_per_token: int,
        slope: float = 1.0,
        offset: float = 0.0,
        limit: float | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = checks.whole("units", units)
        self.num_experts = checks.whole("num_experts", num_experts)
        self.experts_per_token = checks.whole(
            "experts_per_token", experts_per_token, most=num_experts
        )
        self.slope = checks.number("slope", slope)
        self.offset = checks.number("offset", offset)
        self.limit = None if limit is None else checks.number("limit", limit, above=0)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True
        self.supports_jit = backend.TRAITS.splits_compiled

    def build(self, input_shape):
        size, count = input_shape[-1], self.num_experts
        # No layer inside: it would be quantized, and cast under a mixed policy.
        self.router_kernel = self.add_weight(
            name="router_kernel",
            shape=(size, count),
            initializer=initializer_of_part(self.kernel_initializer, "router_kernel"),
            autocast=False,
        )
        self.router_bias = self.add_weight(
            name="router_bias", shape=(count,), initializer="zeros", autocast=False
        )
        sizes = {"inner": (size, 2 * self.units), "outer": (self.units, size)}
        self.experts = []
        for name, (rows, columns) in sizes.items():
            kernel = self.add_weight(
                name=f"{name}_kernel",
                shape=(count, rows, columns),
                initializer=initializer_of_part(self.kernel_initializer, f"{name}_kernel"),
            )
            bias = self.add_weight(name=f"{name}_bias", shape=(count, columns), initializer="zeros")
            self.experts += [kernel, bias]
        for weight in self.experts:
            setattr(self, weight.name, weight)  # `tf.train.Checkpoint` reads no lists
        self.built = True

    def call(self, inputs):
        shape = ops.shape(inputs)
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        kernel, bias = (ops.cast(w, "float32") for w in (self.router_kernel, self.router_bias))
        logits = ops.matmul(ops.cast(rows, "float32"), kernel) + bias
        chosen = ops.top_k(logits, self.experts_per_token)[1]
        shares = ops.softmax(ops.take_along_axis(logits, chosen, axis=-1))
        weights = [ops.cast(weight, self.compute_dtype) for weight in self.experts]
        expert = Expert(self.slope, self.offset, self.limit)
        shares = ops.cast(shares, self.compute_dtype)
        # Runtimes have no loop over groups of rows, and ONNX no stable sort.
        with backend.exporting_free_sizes(rows):
            mixed = self._by_all if backend.is_exporting() else self._by_chosen
        return ops.reshape(mixed(expert, rows, chosen, shares, weights), shape)

    def _by_chosen(self, expert, rows, chosen, shares, weights):
        experts = ops.reshape(chosen, (-1,))
        order = ops.argsort(experts)
        counts = ops.sum(ops.one_hot(experts, self.num_experts, dtype="int32"), axis=0)
        sorted_rows = ops.take(rows, order // self.experts_per_token, axis=0)
        values = backend.by_group(expert, sorted_rows, counts, weights)
        values = ops.take(values, ops.argsort(order), axis=0)
        values = ops.reshape(values, (-1, self.experts_per_token, values.shape[-1]))
        return ops.sum(values * shares[..., None], axis=1)

    def _by_all(self, expert, rows, chosen, shares, weights):
        one_hot = ops.one_hot(chosen, self.num_experts, dtype=shares.dtype)
        shares = ops.sum(shares[..., None] * one_hot, axis=1)
        values = [expert(rows, [w[i] for w in weights]) for i in range(self.num_experts)]
        return sum(value * shares[:, i : i + 1] for i, value in enumerate(values))

    def compute_output_shape(self, input_shape):
        return input_shape


@dataclasses.dataclass(frozen=True)
class Expert:
    """One expert, as a function of its rows (n, D) and its weights."""

    slope: float
    offset: float
    limit: float | None

    def __call__(self, rows, weights):
        inner, inner_bias, outer, outer_bias = weights
        gate, x = ops.split(ops.matmul(rows, inner) + inner_bias, 2, axis=-1)
        if self.limit is not None:
            gate, x = ops.minimum(gate, self.limit), ops.clip(x, -self.limit, self.limit)
        gated = gate * ops.sigmoid(self.slope * gate) * (x + self.offset)
        return ops.matmul(gated, outer) + outer_bias
