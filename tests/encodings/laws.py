"""What every encoding keeps inside attention, as functions of a `Case`; they raise AssertionError.

A law compares attention with itself: the same sequence alone and in a batch, in full and from a
cache, in float32 and in bfloat16. What an encoding computes is compared with oracles elsewhere.
"""

import dataclasses
import functools
import itertools
import json

import keras
import numpy as np
from backend_gradients import GRADIENTS
from keras import ops

from keras_posenc import PositionalAttention, backend
from keras_posenc import encodings as position_encodings

B, T, H, D, E = 2, 8, 3, 8, 12
HALF = 4  # of what is padded, packed or prefilled: few shapes, since JAX compiles for each


@dataclasses.dataclass(frozen=True)
class Case:
    """A list of encodings for attention, and what it claims.

    Attributes:
        encodings: names, dicts or instances.
        relative: ids + c change nothing; None: not always.
        fractional: ids may be floats.
        axes: int. Axes of the ids it takes.
        whole_sequence: it reads how long the sequence is, so a shorter one is not its beginning.
        decodes: it runs from a cache.
        odd: it takes heads of odd size.
        gaps: closed keys between open ones leave no trace.
        apart: a query may come without the others.
        flat: one id for every token leaves attention without positions.
        heads: int.
    """

    encodings: tuple
    relative: bool | None = True
    fractional: bool = True
    axes: int = 1
    whole_sequence: bool = False
    decodes: bool = True
    odd: bool = True
    gaps: bool = True
    apart: bool = True
    flat: bool = False
    heads: int = H

    def __str__(self):
        return "+".join(map(_words, self.encodings))

    @functools.cached_property
    def causal_only(self):
        return any(position_encodings.get(spec).causal_only for spec in self.encodings)

    @property
    def orders(self):
        """The values of `use_causal_mask` to run with."""
        return (True,) if self.causal_only else (False, True)


def _words(spec):
    if not isinstance(spec, dict):
        return str(spec)
    rest = "-".join(f"{k}={_brief(v)}" for k, v in spec.items() if k != "name")
    return f"{spec['name']}({rest})"


def _brief(value):
    text = str(value).replace(" ", "")
    return text if len(text) <= 24 else text[:24] + "..."


def attention(case, head_size=D, sequence=(None, T, E), **arguments):
    """Attention with the encodings of `case`, all weights drawn anew and the same every time."""
    key = repr((case, head_size, sequence, arguments))
    if key not in _BUILT:
        _BUILT[key] = _attention(case, head_size, sequence, **arguments)
    return _BUILT[key]


_BUILT = {}  # no law changes a layer


def _attention(case, head_size, sequence, **arguments):
    keras.utils.set_random_seed(0)
    layer = PositionalAttention(case.heads, head_size, encodings=list(case.encodings), **arguments)
    layer.build(sequence, sequence)
    rng = np.random.default_rng(7)
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.set_weights([0.4 * rng.normal(size=w.shape) for w in dense.weights])
    for encoding in layer.encodings:
        rng = np.random.default_rng(8)
        encoding.set_weights([w + 0.3 * rng.normal(size=w.shape) for w in encoding.get_weights()])
    return layer


def numbers(seed=0, batch=B, length=T, features=E):
    """(batch, length, features) float32."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, length, features)).astype("float32")


def run(layer, x, y=None, causal=False, **arguments):
    """The output for arrays, as float32 NumPy."""
    return to_numpy(call(layer, x, y, causal, **arguments))


def call(layer, x, y=None, causal=False, **arguments):
    x = ops.convert_to_tensor(x)
    y = x if y is None else ops.convert_to_tensor(y)
    tensors = {
        name: ops.convert_to_tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    if not COMPILED:
        return layer(x, y, use_causal_mask=causal, **tensors)
    fixed = {name: value for name, value in tensors.items() if isinstance(value, bool)}
    key = layer, causal, tuple(fixed.items())
    if key not in _PROGRAMS:
        _PROGRAMS[key] = _program(layer, use_causal_mask=causal, **fixed)
    # Self-attention is told by the tensor, which a program would have twice.
    y = None if y is x else y
    return _PROGRAMS[key](x, y, {n: value for n, value in tensors.items() if n not in fixed})


COMPILED = False  # where JAX would compile a program for each operation by itself
_PROGRAMS = {}


def _program(layer, **fixed):
    import jax

    return jax.jit(lambda x, y, tensors: layer(x, x if y is None else y, **fixed, **tensors))


def to_numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def close(one, other, tolerance=2e-5):
    assert np.isfinite(one).all() and np.isfinite(other).all(), "not finite"
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def ids_of(case, ids):
    """Ids, the same on every axis that the case takes."""
    ids = np.asarray(ids)
    return ids if case.axes == 1 else np.repeat(ids[..., None], case.axes, -1)


def padded(case):
    """Two sequences of HALF tokens, one padded with noise in front, one behind: x, mask, ids."""
    x, keep = numbers(), np.ones((B, T), bool)
    keep[0, : T - HALF], keep[1, HALF:] = False, False
    x[~keep] = 10 * numbers(1)[~keep]
    ids = np.maximum(np.cumsum(keep, 1) - 1, 0).astype("int32")
    return x, keep, ids_of(case, ids)


# --- Positions ---

# What reads content, counts or masks in place of ids, or no id within T tokens of the defaults.
WITHOUT_IDS = (
    ("cope", "forget_gate", "log_n", "path", "selective", "sink_logits", "squared_relu")
    + ("ssmax", "stick_breaking", "temperature", "window")
)  # fmt: skip
# Rounded ids change the output of these by less than bfloat16 does: oracles hold their precision.
FLAT_FAR_AWAY = ("fire", "log_cpb")


def ids_count(case, ids, changed, causal, least, without=WITHOUT_IDS):
    """Asserts that other ids change the output, or a law that some ids change nothing is empty.

    On torch alone, as the numbers of the law are the same everywhere.
    """
    names = [each["name"] if isinstance(each, dict) else each for each in case.encodings]
    if keras.backend.backend() != "torch" or not set(names) - set(without):
        return
    x, layer = numbers(), attention(case)
    one, other = (run(layer, x, causal=causal, query_positions=each) for each in (ids, changed))
    assert np.abs(one - other).max() > least, "the law would hold without ids, too"


def as_bfloat16(ids):
    rounded = keras.ops.cast(keras.ops.convert_to_tensor(ids, "float32"), "bfloat16")
    return to_numpy(rounded).astype(ids.dtype)


def consecutive_ids_are_the_default(case, causal):
    layer, x = attention(case), numbers()
    plain = run(layer, x, causal=causal)
    ids = ids_of(case, np.arange(T))
    if case.axes == 1:
        close(run(layer, x, causal=causal, query_positions=ids), plain)
    # int64 is cast, key positions may be given too.
    batch = np.repeat(ids[None].astype("int64"), B, 0)
    close(run(layer, x, causal=causal, query_positions=batch, key_positions=batch), plain)


def shifted_ids_change_nothing(case, causal):
    layer, x = attention(case), numbers()
    ids = ids_of(case, np.stack([np.arange(T) * 2, np.arange(T) + np.arange(T) // 3]))
    one = run(layer, x, causal=causal, query_positions=ids)
    other = run(layer, x, causal=causal, query_positions=ids + 41)
    if case.relative:
        close(one, other, 1e-4)
        ids_count(case, ids, 3 * ids, causal, 0.03)
    elif case.relative is False:
        assert np.abs(one - other).max() > 1e-5, "it is relative: say so"


def whole_floats_are_integers(case, causal):
    """Ids 0., 1., ... mean what 0, 1, ... mean, and others are taken, or all floats are refused."""
    layer, x = attention(case), numbers()
    whole = ids_of(case, np.repeat(np.arange(T)[None], B, 0))
    try:
        result = run(layer, x, causal=causal, query_positions=whole.astype("float32"))
    except (TypeError, ValueError) as error:
        assert not case.fractional and "whole" in str(error), error
        return
    assert case.fractional, "it takes float ids: say so"
    close(result, run(layer, x, causal=causal, query_positions=whole))
    ids = whole * np.float32(0.6)
    assert np.isfinite(run(layer, x, causal=causal, query_positions=ids)).all()


def float_ids_keep_their_precision_under_mixed_bfloat16(case, causal):
    """The ids 300.25, 301.25, ... are all 300 or 302 in bfloat16."""
    layer, low = attention(case), attention(case, dtype="mixed_bfloat16")
    x = numbers()
    ids = ids_of(case, np.repeat(np.arange(T, dtype="float32")[None] + 300.25, B, 0))
    near = run(layer, x, causal=causal, query_positions=ids)
    close(run(low, x, causal=causal, query_positions=ids), near, 0.1)
    ids_count(case, ids, as_bfloat16(ids), causal, 0.1, WITHOUT_IDS + FLAT_FAR_AWAY)


def two_axes_work_or_are_refused(case, causal):
    layer, x = attention(case), numbers()
    ids = np.stack([np.arange(T) // 4, np.arange(T) % 4], -1).astype("int32")
    ids = np.repeat(ids[None], B, 0)
    try:
        result = run(layer, x, causal=causal, query_positions=ids)
    except ValueError as error:
        assert "axes" in str(error), error
        return
    # Taken: then all that the encoding reads is not the ids, or it was made for two axes.
    assert np.isfinite(result).all()
    plain = run(layer, x, causal=causal)
    if case.axes == 1:
        close(result, plain)
    else:
        assert np.abs(result - plain).max() > 1e-4


def one_id_for_all_is_no_position(case, causal):
    """A bias of distance 0 is a constant, a rotation by equal angles is none."""
    layer, x = attention(case), numbers()
    plain = PositionalAttention(case.heads, D)
    plain.build(x.shape, x.shape)
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(plain, name).set_weights(getattr(layer, name).get_weights())
    ids = ids_of(case, np.full((B, T), 5))
    close(run(layer, x, causal=causal, query_positions=ids), run(plain, x, causal=causal), 1e-4)


# --- Blocks of rows, caches ---


def rows_may_be_asked_for_alone(case, causal):
    layer, x = attention(case), numbers()
    full = run(layer, x, causal=causal)
    some = np.array([1, 2, 5, T - 1])
    arguments = {"query_positions": ids_of(case, some[None]), "key_positions": None}
    arguments["key_positions"] = ids_of(case, np.arange(T)[None])
    if causal:
        arguments |= {"query_order": some[None], "key_order": np.arange(T)[None]}
    close(run(layer, x[:, some], x, **arguments), full[:, some], 5e-5)


def decoding_is_the_full_pass(case):
    """From a prompt of mixed lengths, padded on the left, then one token at a time."""
    layer, x = attention(case), numbers()
    keep = np.ones((B, T), bool)
    keep[0, :2] = False
    ids = np.maximum(np.cumsum(keep, 1) - 1, 0).astype("int32")
    room = T + 2
    later = np.concatenate([ids, ids[:, -1:] + 1, ids[:, -1:] + 2], 1)
    counted = {"query_positions": ids_of(case, ids)}
    free = bool(case.relative) and case.axes == 1  # to leave the ids out
    full = run(layer, x, causal=True, value_mask=keep, **({} if free else counted))
    for given in [False, True] if free else [True]:
        cache, steps = layer.make_cache(B, room), []
        for start, end in ((0, HALF), *((i, i + 1) for i in range(HALF, T))):
            arguments = {}
            if given:
                arguments["query_positions"] = ids_of(case, ids)[:, start:end]
                arguments["key_positions"] = ids_of(case, later)
            part, real = x[:, start:end], ops.convert_to_tensor(keep[:, start:end])
            out, cache = call(layer, part, value_mask=real, cache=cache, **arguments)
            steps.append(to_numpy(out))
        steps = np.concatenate(steps, 1)
        first = T - 1 if case.whole_sequence else 0
        close(steps[0, max(first, 2) :], full[0, max(first, 2) :], 5e-5)
        close(steps[1, first:], full[1, first:], 5e-5)


# --- Paths, precision, sizes ---


def every_path_is_the_same(case, causal, monkeypatch):
    """Values and gradients: the map in full, formed again in the backward pass, fused kernel."""
    layer, x = attention(case), numbers()
    keep = np.ones((B, T), bool)
    keep[0, T - 2 :] = False
    arguments = dict(causal=causal, value_mask=keep, counted=keep)
    explicit = gradients(layer, x, return_attention_scores=True, **arguments)
    again = gradients(layer, x, training=True, **arguments)
    # torch takes it anyway, but for a bias on a CPU.
    asked = "on_accelerator" if keras.backend.backend() == "torch" else "has_kernel"
    monkeypatch.setattr(backend, asked, lambda *_: True)
    by_kernel = gradients(layer, x, **arguments)
    monkeypatch.undo()
    for one, two, three in zip(explicit, again, by_kernel, strict=True):
        close(two, one, 1e-4)
        close(three, one, 1e-4)


def low_precision_is_near_float32(case, causal):
    layer, low = attention(case), attention(case, dtype="mixed_bfloat16")
    x = numbers()
    result = call(low, x, causal=causal)
    assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"
    close(to_numpy(result), run(layer, x, causal=causal), 0.1)
    half = run(attention(case, dtype="float16"), x, causal=causal)
    close(half, run(layer, x, causal=causal), 0.03)


def bfloat16_tells_large_positions_apart(case, causal):
    """Beside 0 the positions 254, 255, ... and 2045, 2046, ..., half of which bfloat16 lacks."""
    layer, low = attention(case), attention(case, dtype="mixed_bfloat16")
    x = numbers()
    for start in (254, 2045):
        ids = np.append(0, np.arange(start, start + T - 1))
        ids = ids_of(case, np.repeat(ids[None], B, 0))
        near = run(layer, x, causal=causal, query_positions=ids)
        close(run(low, x, causal=causal, query_positions=ids), near, 0.1)
        ids_count(case, ids, as_bfloat16(ids), causal, 0.1, WITHOUT_IDS + FLAT_FAR_AWAY)


def one_token_is_enough(case, causal):
    layer, x = attention(case), numbers(length=1)
    assert run(layer, x, causal=causal).shape == x.shape
    finite(layer, x, causal=causal, training=True)


def odd_heads_work_or_are_refused(case, causal):
    x = numbers()
    try:
        result = run(attention(case, head_size=5), x, causal=causal)
    except ValueError as error:
        assert not case.odd and "even" in str(error) and "5" in str(error), error
        return
    assert case.odd, "it takes odd heads: say so"
    assert result.shape == x.shape and np.isfinite(result).all()


def values_may_have_another_size(case, causal):
    x = numbers()
    try:
        finite(attention(case, value_dim=6), x, causal=causal)
    except ValueError as error:
        assert "value_dim" in str(error) and "6" in str(error), error


def queries_and_keys_may_differ_in_number(case):
    if case.causal_only:
        return
    layer = attention(case)
    x, y = numbers(), numbers(2, length=HALF)
    ids = ids_of(case, np.arange(T)), ids_of(case, np.arange(HALF))
    whole = run(layer, x, y, query_positions=ids[0][None], key_positions=ids[1][None])
    assert whole.shape == x.shape and np.isfinite(whole).all()
    some = run(
        layer, x[:, :HALF], y, query_positions=ids[0][None, :HALF], key_positions=ids[1][None]
    )
    close(some, whole[:, :HALF])


# --- Keras ---


def config_is_json_and_complete(case):
    for spec in case.encodings:
        encoding = position_encodings.get(spec)
        config = encoding.get_config()
        again = type(encoding).from_config(json.loads(json.dumps(config)))
        assert json.dumps(again.get_config()) == json.dumps(config)
        assert again.causal_only == encoding.causal_only
        assert encoding.paper.startswith("https://"), encoding.paper


def arguments_matter(cases):
    """Encodings that differ in their arguments alone give different outputs, in the same order."""
    results = [run(attention(case), numbers(), causal=case.orders[0]) for case in cases]
    pairs = itertools.combinations(zip(cases, results, strict=True), 2)
    for (one, first), (other, second) in pairs:
        if one.orders == other.orders:
            assert np.abs(first - second).max() > 1e-5, f"{one} is {other}"


def compiled_is_eager(case, causal):
    """Values and gradients of one training step under XLA."""
    layer, x = attention(case), numbers()
    if keras.backend.backend() == "jax":  # its gradients are compiled in every law
        import jax

        weights = [[v.value for v in layer.variables if v.trainable is on] for on in (True, False)]
        step = jax.jit(
            lambda x: layer.stateless_call(*weights, x, x, use_causal_mask=causal, training=True)
        )
        eager = layer(x, x, use_causal_mask=causal, training=True)
        close(to_numpy(step(x)[0]), to_numpy(eager), 1e-4)
        return
    arguments = dict(causal=causal, training=True)
    compiled = gradients(layer, x, compiled=True, **arguments)
    for one, other in zip(compiled, gradients(layer, x, **arguments), strict=True):
        close(one, other, 1e-4)


def saved_model_trains_on(cases, folder):
    """One model of several attentions: saved, loaded, the same; a step more is the same too."""
    x = inputs = keras.Input((None, E))
    for case in cases:
        layer = PositionalAttention(case.heads, D, encodings=list(case.encodings))
        x = keras.layers.add([x, layer(x, x, use_causal_mask=case.causal_only)])
        x = keras.layers.LayerNormalization()(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    assert model.output.shape == (None, None, 1)
    # Zero tables and the like would be saved as well as forgotten.
    rng = np.random.default_rng(0)
    for layer in model.layers:
        for encoding in getattr(layer, "encodings", ()):
            new = [w + 0.3 * rng.normal(size=w.shape) for w in encoding.get_weights()]
            encoding.set_weights(new)
    data, target = numbers(), numbers(1, features=1)
    # TensorFlow would trace for a minute; `compiled_is_eager` compiles each encoding by itself.
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
    model.fit(data, target, verbose=0)
    model.save(folder / "model.keras")
    again = keras.saving.load_model(folder / "model.keras")
    np.testing.assert_allclose(to_numpy(again(data)), to_numpy(model(data)), atol=1e-6)
    for one in (model, again):
        one.fit(data, target, verbose=0)
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        close(one, other)


def finite(layer, x, **arguments):
    """The output, which is finite, as the gradients are; JAX, slow to compile them, has none."""
    jax = keras.backend.backend() == "jax"
    found = [run(layer, x, **arguments)] if jax else gradients(layer, x, **arguments)
    assert all(np.isfinite(value).all() for value in found), "not finite"
    return found[0]


def gradients(layer, x, compiled=False, causal=False, counted=None, **arguments):
    """[output, gradient of x, gradients of the weights] of a weighted sum of the output.

    `counted` (B, T) leaves rows out of the sum: paths differ in the gradient of a row that may
    attend to nothing.
    """
    weights = numbers(9, len(x), x.shape[1])
    weights = weights if counted is None else weights * counted[..., None]
    weights = ops.convert_to_tensor(weights)
    arguments = {
        name: ops.convert_to_tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }

    def loss(x, forward):
        out = forward(x, x, use_causal_mask=causal, **arguments)
        out = out[0] if arguments.get("return_attention_scores") else out
        return ops.sum(ops.cast(out, "float32") * weights), out

    found = GRADIENTS[keras.backend.backend()](layer, ops.convert_to_tensor(x), loss, compiled)
    return [to_numpy(value) for value in found]
