"""Rotary embeddings: position as a rotation of pairs of features of queries and keys."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.backend.shared_pass import shared
from keras_posenc.encodings.base import Encoding
from keras_posenc.encodings.ladder import BY_LENGTH, Ladder, checked_sections, checked_size, one_of
from keras_posenc.encodings.rope_scaling import arguments_in, read_scaling
from keras_posenc.maps.grid import Grid
from keras_posenc.positions import consecutive
from keras_posenc.positions.angles import angles

LAYOUTS = ("interleaved", "half")
SECTION_ORDERS = ("contiguous", "round_robin", "axial")


@keras.saving.register_keras_serializable(package="keras_posenc")
class RotaryEmbedding(Encoding):
    """Rotary position embedding (RoPE): rotates queries and keys by their positions.

        q_i -> R_i (q_i + a),    k_j -> R_j (k_j + b),    theta_k = base^(-2k / rotary size).

    `R_p` rotates pair k of the features by the angle p theta_k. The inner product depends on i - j
    only. The biases a, b are off by default. With them the logits gain a term a' R_(j-i) b that can
    decay with distance (Su Jianlin, https://kexue.fm/archives/9577). A bias of the projection is
    equivalent; `use_bias` is for projections without one, and for the shared and scalar forms.

    Angles are exact to about 3e-5 up to a million positions, because whole turns are removed before
    anything is rounded. As in Hugging Face, a `scaling` with a factor m (YaRN, LongRoPE) multiplies
    the rotated features of queries and keys, and so their products by m^2. Unrotated features stay
    as they are.

    Args:
        layout: str. Which features form a pair: "interleaved" (2k, 2k + 1; the paper, RoFormer,
            GPT-J, Meta's Llama) or "half" (k, k + half; GPT-NeoX, Hugging Face).
        base: float. Longest wavelength, in units of 2 pi positions. Default: the "rope_theta" of
            `scaling`, else 10000.
        rotary_dim: int, float or None. Number of rotated features, from the first on: an even int,
            or a float for a fraction of the features. None rotates all.
        use_bias: bool or str. True: a and b, one vector per head each. "shared": a = b. "scalar":
            one number s per head, a = b = s (1, ..., 1).
        bias_initializer: A Keras initializer, or "sandwich". The latter starts at a = b = (1, 0, 1,
            0, ...). Then the term is sum_k cos((i - j) theta_k), as in Sandwich. With "scalar" it
            starts at s = sqrt(1/2), which gives the same term.
        scaling: dict or None. As Hugging Face's `rope_scaling` or `rope_parameters`: the type under
            "rope_type" or "type", and its fields. Types: "linear", "proportional" (p-RoPE), "ntk",
            "dynamic", "ntk_by_parts", "yarn", "longrope", "llama3", "su_fixed" and "su_mixed".
            "dynamic" and "longrope" read the length of each text: the largest id of an unpadded
            key, plus 1. With them keys are cached unrotated, so the length may grow. If config.json
            gives the original length outside the dict, add it: `{**rope_scaling,
            "max_position_embeddings": 4096}`.
        sections: list of int or None. How many pairs each axis of the position ids rotates, such as
            [16, 24, 24]. The ids are then (B, T, axes), or (B, T) for one id on all axes.
        section_order: str. How the axes share the frequencies. "contiguous": one axis after another
            along one series (M-RoPE of Qwen2-VL). "round_robin": alternating along the series
            (Qwen3-VL). "axial": a separate series for each axis (2-D rotary of images). Default:
            the "mrope_interleaved" of `scaling`, else "contiguous".
        learned: bool. Train the frequencies theta_k exp(alpha_k), where alpha_k starts at 0 and is
            the same in all heads (LeRoPE of Mistral Large 4).

    Call arguments:
        inputs: (B, T, H, D), rotated as queries are, or a pair (q, k) of those.
        positions: optional (T,), (B, T) or (B, T, axes) ids, which may be fractional. Default:
            `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor.

    Returns:
        The rotated inputs, of the same shape, in the compute dtype.

    Example:

    >>> q, k = np.random.normal(size=(2, 1, 10, 4, 64))
    >>> q, k = RotaryEmbedding(scaling={"rope_type": "linear", "factor": 4.0})((q, k))
    >>> q.shape
    (1, 10, 4, 64)
    >>> layer = PositionalAttention(4, 64, encodings=["rotary"])

    Reference: [RoFormer](https://arxiv.org/abs/2104.09864).
    """

    paper = "https://arxiv.org/abs/2104.09864"
    # Whether the class needs position ids on one axis.
    one_axis = False

    def __init__(
        self,
        layout: str = "interleaved",
        base: float | None = None,
        rotary_dim: int | float | None = None,
        use_bias: bool | str = False,
        bias_initializer: Initializer = "zeros",
        scaling: dict | None = None,
        sections: Sequence[int] | None = None,
        section_order: str | None = None,
        learned: bool = False,
        **kwargs,
    ):
        # Position ids must not be cast to the compute dtype: in bfloat16, 257 equals 256.
        super().__init__(autocast=False, **kwargs)
        checks.choice("layout", layout, LAYOUTS)
        if section_order is not None:
            checks.choice("section_order", section_order, SECTION_ORDERS)
        checks.choice("use_bias", use_bias, (False, True, "shared", "scalar"))
        self.kind, self.fields = read_scaling(scaling)
        given = arguments_in(scaling)
        self.layout = layout
        base = one_of("base", base, given, 10000.0)
        self.base = float(checks.number("base", base, above=1))
        self.rotary_dim = checked_size(one_of("rotary_dim", rotary_dim, given, None))
        self.use_bias = use_bias
        self.bias_initializer = bias_initializer
        if bias_initializer != "sandwich":
            self.bias_initializer = keras.initializers.get(bias_initializer)
        self.scaling = scaling
        self.sections = checked_sections(one_of("sections", sections, given, None))
        if self.sections and self.one_axis:
            raise ValueError(
                f"{type(self).__name__} needs one distance between two positions, so it takes no "
                f"`sections`. Received: {list(self.sections)}"
            )
        self.section_order = one_of("section_order", section_order, given, "contiguous")
        if self.section_order != "contiguous" and not self.sections:
            raise ValueError(
                f"section_order={self.section_order!r} orders `sections`: give those too."
            )
        self.learned = bool(learned)
        self.supports_masking = True

    def build(self, heads_shape):
        q_shape = k_shape = heads_shape
        if isinstance(heads_shape[0], (list, tuple)):
            q_shape, k_shape = heads_shape
        if len(q_shape) != 4:
            raise ValueError(
                f"{type(self).__name__} takes heads (B, T, H, D). Received: {tuple(q_shape)}. "
                "Split the features into heads, or use PositionalAttention(encodings=['rotary'])."
            )
        super().build(q_shape)
        self.rotary_size = self._rotary_size(self.head_size)
        self.ladder = Ladder(
            self.rotary_size, self.base, self.kind, self.fields, self.sections, self.section_order
        )
        if self.learned:
            shape = (self.rotary_size // 2,)
            self.log_factors = self._add_uncast("log_factors", shape, "zeros")
        if not self.use_bias:
            return
        if self.use_bias is True:
            self.query_bias = self._add_bias("query_bias", q_shape[2:])
            self.key_bias = self._add_bias("key_bias", k_shape[2:])
            return
        if q_shape[2] != k_shape[2]:
            raise ValueError(
                f"use_bias={self.use_bias!r} needs as many heads of keys as of queries. "
                f"Received: {q_shape[2]} and {k_shape[2]}; use_bias=True takes both."
            )
        features = 1 if self.use_bias == "scalar" else self.head_size
        self.query_bias = self.key_bias = self._add_bias("bias", (self.num_heads, features))

    def check_head_size(self, head_size):
        """Refuses a size of which no even number of features can be rotated."""
        self._rotary_size(head_size)

    def _rotary_size(self, head_size):
        share = isinstance(self.rotary_dim, float)
        size = int(head_size * self.rotary_dim) if share else self.rotary_dim or head_size
        if size % 2 or not 0 < size <= head_size:
            asked = "" if self.rotary_dim is None else f" and rotary_dim={self.rotary_dim!r}"
            least = f"use rotary_dim={head_size // 2 * 2}" if head_size > 1 else "use more"
            even = " or an even head size" if self.rotary_dim is None else ""
            raise ValueError(
                "Rotary positions need an even number of features per head; this head has "
                f"{head_size}{asked}: {least}{even}."
            )
        if self.sections and sum(self.sections) != size // 2:
            raise ValueError(
                f"`sections` must add up to the {size // 2} pairs of features that are rotated. "
                f"Received: {list(self.sections)}"
            )
        return size

    def _add_bias(self, name, shape):
        initializer = self.bias_initializer
        if initializer == "sandwich":
            initializer = keras.initializers.Constant(self._sandwich(shape))
        else:
            # An unseeded instance draws the same values every time.
            initializer = initializer.clone()
        return self._add_uncast(name, shape, initializer)

    def _sandwich(self, shape):
        if shape[1] == 1:
            return math.sqrt(0.5)
        value = np.zeros(shape, "float32")
        step = 2 if self.layout == "interleaved" else 1
        value[:, : self.rotary_size * step // 2 : step] = 1.0
        return value

    @property
    def reads_length(self):
        """Whether the frequencies depend on the length of the text."""
        return self.kind in BY_LENGTH

    @property
    def by_position(self):
        """Whether a rotation depends on the id of its token alone: not on the text's length."""
        return not self.reads_length

    @property
    def reads_keys(self):
        """Whether it adds to keys what differs between the query heads that they serve."""
        return bool(self.use_bias)

    def _turns(self, grid):
        """Turns per position: NumPy (pairs,), or a tensor (B or 1, 1, pairs) if they are learned or
        depend on the length."""
        turns = self.ladder.turns_of(grid)
        if not self.learned:
            return turns
        factors = ops.exp(ops.cast(self.log_factors, "float32"))
        return ops.cast(turns, "float32") * factors[None, None]

    def rotated(self, x, ids, grid, magnitude=1.0):
        """Rotates heads by position ids, in float32.

        Args:
            x: (B, T, H, D or more).
            ids: (B, T) or (B, T, axes).
            grid: `Grid`. The length of the text is read from it.
            magnitude: Factor of the rotated features.

        Returns:
            float32, of the shape of x.
        """
        x = ops.cast(x, "float32")
        return backend.rotate(x, *self._waves(ids, grid, magnitude), self.layout)

    def _waves(self, ids, grid, magnitude):
        """Cosine and sine of the angles of position ids, (B or 1, T, 1, pairs) each."""
        if self.learned or self.reads_length:
            return self._new_waves(ids, grid, magnitude)
        key = *self.ladder.identity, magnitude
        return shared(key, (ids,), lambda: self._new_waves(ids, grid, magnitude))

    def _new_waves(self, ids, grid, magnitude):
        ids = self.ladder.ids_of_pairs(ids, type(self).__name__)
        by = angles(ids, self._turns(grid))[:, :, None]
        cos, sin = ops.cos(by), ops.sin(by)
        return (cos, sin) if magnitude == 1 else (cos * magnitude, sin * magnitude)

    @property
    def adds_to_heads(self):
        """Whether it has biases."""
        return bool(self.use_bias)

    def add_bias(self, x, bias):
        """x with the learned bias on the features of the head, in float32."""
        x = ops.cast(x, "float32")
        bias = ops.cast(bias, "float32") + ops.zeros((1, self.head_size), "float32")
        return x + backend.pad(bias, [(0, 0), (0, x.shape[-1] - self.head_size)])

    def heads(self, q, k, grid):
        """R_i (q_i + a) and R_j (k_j + b), (B, T, H, D) each; a, b are 0 without biases."""
        dtypes = q.dtype, k.dtype
        if self.use_bias:
            q, k = self.add_bias(q, self.query_bias), self.add_bias(k, self.key_bias)
        of_queries = of_keys = self._waves(grid.query_positions, grid, self.ladder.factor)
        if grid.key_positions is not grid.query_positions:
            of_keys = self._waves(grid.key_positions, grid, self.ladder.factor)
        q = backend.rotate(q, *of_queries, self.layout)
        k = backend.rotate(k, *of_keys, self.layout)
        return tuple(map(ops.cast, (q, k), dtypes)) if self.use_bias else (q, k)

    def call(self, inputs, positions=None, offset=0):
        pair = isinstance(inputs, (list, tuple))
        heads, grid = self._heads_and_grid(inputs if pair else (inputs,), positions, offset)
        if pair:
            return self.heads(*heads, grid)
        x = self.add_bias(heads[0], self.query_bias) if self.use_bias else heads[0]
        return ops.cast(
            self.rotated(x, grid.query_positions, grid, self.ladder.factor), self.compute_dtype
        )

    def _heads_and_grid(self, heads, positions, offset):
        """The heads (B, T, H, D) of a direct call in the compute dtype, and their `Grid`."""
        heads = [ops.cast(x, self.compute_dtype) for x in heads]
        if positions is None:
            ids = consecutive(ops.shape(heads[0])[1], offset)[None]
        else:
            ids = _ids(positions, heads)
        return heads, Grid(query_positions=ids, key_positions=ids)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

    def get_config(self):
        return {**super().get_config(), "scaling": self.scaling and _plain(self.scaling)}


def _ids(positions, heads):
    """Position ids (B or 1, T[, axes]), checked against the number of tokens."""
    ids = ops.convert_to_tensor(positions)
    ids = ids[None] if len(ids.shape) == 1 else ids
    lengths = {n for n in (ids.shape[1], *(x.shape[1] for x in heads)) if n is not None}
    if len(ids.shape) not in (2, 3) or len(lengths) > 1:
        raise ValueError(
            "`positions` must have shape (T,), (B, T) or (B, T, axes), one id a token, with "
            f"T = {heads[0].shape[1]}. Received: {tuple(positions.shape)}"
        )
    return ids


def _plain(fields):
    return {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in fields.items()}
