import keras
import numpy as np
import oracles_contextual as oracles
import pytest
from backend_gradients import GRADIENTS
from keras import ops

from keras_posenc import ContextualPositionEmbedding, Encoding, PositionalAttention, backend
from keras_posenc.encodings import ForgetGate, Grid, StickBreaking

B, T, H, D, E = 2, 9, 3, 5, 8
X = np.random.default_rng(0).normal(size=(B, T, E)).astype("float32")
LEFT = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9], bool)
GAPS = np.array([[1, 1, 0, 1, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1, 0]], bool)
CAUSAL = np.tril(np.ones((T, T), bool))


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(spec, seed=1, **arguments):
    """Attention over `spec`, all weights of it random, those of the encoding too."""
    layer = PositionalAttention(H, D, encodings=[spec], **arguments)
    layer.build(X.shape, X.shape)
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape) * 0.7 for w in layer.weights])
    return layer


def copy_projections(source, target):
    for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
        getattr(target, name).set_weights(getattr(source, name).get_weights())


def heads_of(layer, x=X):
    """(q, k, v), each (B, T, H, D), in float64."""
    kernels = (layer.query_dense, layer.key_dense, layer.value_dense)
    pairs = [[np.asarray(numpy(w), "float64") for w in dense.weights] for dense in kernels]
    return [np.einsum("btd,dhe->bthe", x, kernel) + bias for kernel, bias in pairs]


def products(q, k):
    return np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(D)


def expected_gates(layer, gate):
    q, k, v = heads_of(layer)
    if gate == "separate_keys":
        kernel = np.asarray(numpy(layer.encodings[0].gate_dense.kernel), "float64")
        k = np.einsum("bte,ehd->bthd", X, kernel)
    return oracles.sigmoid(products(q, v if gate == "values" else k))


def logits_of(layer, x=X, **arguments):
    _, logits = layer(x, x, return_attention_logits=True, **arguments)
    return numpy(logits)


@pytest.mark.once
@pytest.mark.parametrize("scaling", ["after", "before"])
@pytest.mark.parametrize("gate", ["query_key", "separate_keys", "values"])
def test_cope_is_the_papers_with_left_padding(gate, scaling):
    layer = make({"name": "cope", "npos_max": 3, "gate": gate, "scaling": scaling})
    q, k, _ = heads_of(layer)
    cells = (CAUSAL & LEFT[:, None, None]) | np.zeros((B, H, T, T), bool)
    positions = oracles.cope_positions(expected_gates(layer, gate) * cells)
    assert (positions > 2).mean() > 0.1  # the cap is reached
    table = numpy(layer.encodings[0].embeddings)
    bias = oracles.cope_bias(q, table, positions)
    expected = products(q, k) + (bias if scaling == "after" else bias / np.sqrt(D))
    found = logits_of(layer, use_causal_mask=True, key_mask=LEFT)
    np.testing.assert_allclose(found[cells], expected[cells], atol=1e-5)


@pytest.mark.once
def test_cope_both_ways_sums_between_query_and_key():
    spec = {"name": "cope", "npos_max": 4, "bidirectional": True}
    layer = make(spec)
    q, k, _ = heads_of(layer)
    cells = np.broadcast_to(LEFT[:, None, None], (B, H, T, T))
    positions = oracles.two_sided_positions(expected_gates(layer, "query_key") * cells)
    table = numpy(layer.encodings[0].embeddings)
    assert table.shape == (D, 7)
    expected = products(q, k) + oracles.cope_bias(q, table, positions, first=-3)
    np.testing.assert_allclose(logits_of(layer, key_mask=LEFT)[cells], expected[cells], atol=1e-5)
    # Under a causal mask it is the causal form, with the right half of the table.
    causal = make({"name": "cope", "npos_max": 4})
    copy_projections(layer, causal)
    causal.encodings[0].embeddings.assign(table[:, 3:])
    arguments = {"use_causal_mask": True, "key_mask": LEFT}
    one, other = (logits_of(each, **arguments) for each in (layer, causal))
    cells = cells & CAUSAL
    np.testing.assert_allclose(one[cells], other[cells], atol=1e-5)


@pytest.mark.once
def test_cope_with_all_gates_open_counts_tokens():
    cope = ContextualPositionEmbedding(npos_max=T + 1)
    cope.build((B, T, H, D))
    ids = ops.arange(T)[None]
    grid = Grid(query_positions=ids, key_positions=ids, query_order=ids, key_order=ids)
    gates = cope.gates(ops.ones((B, H, T, T)) * 1e3, None, grid)
    i, j = np.indices((T, T))
    expected = np.where(j <= i, i - j + 1, 0)
    np.testing.assert_array_equal(numpy(cope.positions(gates, grid))[0, 0], expected)
    both = ContextualPositionEmbedding(npos_max=T + 1, bidirectional=True)
    open_grid = Grid(query_positions=ids, key_positions=ids)
    gates = both.gates(ops.ones((B, H, T, T)) * 1e3, None, open_grid)
    expected = np.where(j <= i, i - j + 1, -(j - i + 1))
    np.testing.assert_array_equal(numpy(both.positions(gates, open_grid))[0, 0], expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_position_that_is_no_number_stays_none(compiled):
    positions = np.array([[np.nan, 0.0, 0.5, 1.5, 2.0, 9.0]], "float32")
    table = ops.array([[0.0, 2.0, 6.0]])
    found = numpy(backend.interpolate(table, ops.array(positions), compiled))
    np.testing.assert_array_equal(found, [[np.nan, 0.0, 1.0, 4.0, 6.0, 6.0]])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow with XLA")
def test_interpolation_as_one_program_has_the_gradients_of_its_operations():
    import tensorflow as tf

    rng = np.random.default_rng(0)
    table = tf.constant(rng.normal(size=(2, 3, 8)), tf.float32)
    position = rng.uniform(0, 9, size=(2, 3, 40)).astype("float32")
    position[0, 0, :4] = [0.0, 3.0, 7.0, 8.0]
    weights = rng.normal(size=position.shape).astype("float32")

    @tf.function
    def gradients(compiled):
        inputs = [table, tf.constant(position)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(backend.interpolate(*inputs, compiled) * weights)
        return [total, *tape.gradient(total, inputs)]

    assert "_gradients" in str(gradients.get_concrete_function(True).graph.as_graph_def())
    for found, expected in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.once
def test_cope_with_its_first_table_changes_nothing():
    plain = PositionalAttention(H, D)
    cope = PositionalAttention(H, D, encodings=["cope"])
    arguments = {"use_causal_mask": True, "key_mask": LEFT}
    plain(X, X), cope(X, X, **arguments)
    copy_projections(plain, cope)
    expected = logits_of(plain, **arguments)
    np.testing.assert_array_equal(expected, logits_of(cope, **arguments))
    (encoding,) = cope.encodings
    encoding.set_weights([w + np.arange(w.size).reshape(w.shape) for w in encoding.get_weights()])
    seen = cells_of(LEFT)
    assert np.abs(logits_of(cope, **arguments) - expected)[seen].max() > 1e-2


@pytest.mark.once
@pytest.mark.parametrize("gate", ["query_key", "separate_keys", "values"])
def test_cope_counts_no_future_and_no_padding(gate):
    """Gates closed after the sum count keys that the query may not see (DAPE's first version)."""
    layer = make({"name": "cope", "npos_max": 16, "gate": gate})
    before = numpy(layer(X, X, use_causal_mask=True, key_mask=LEFT))
    other = X.copy()
    other[:, 6:] += 3.0
    other[0, :3] += 3.0
    after = numpy(layer(other, other, use_causal_mask=True, key_mask=LEFT))
    np.testing.assert_allclose(after[0, 3:6], before[0, 3:6], atol=1e-5)
    np.testing.assert_allclose(after[1, :6], before[1, :6], atol=1e-5)
    assert np.abs(after[1, 6:] - before[1, 6:]).max() > 1e-2


@pytest.mark.once
def test_cope_after_rotation_sees_the_content_query():
    """The table meets the query as it was before other encodings turned it."""

    @keras.saving.register_keras_serializable(package="keras_posenc_tests")
    class Doubled(Encoding):
        def heads(self, q, k, grid):
            return 2 * q, k

    layer = PositionalAttention(H, D, encodings=[Doubled(), "cope"])
    plain = make("cope")
    layer.build(X.shape, X.shape)
    copy_projections(plain, layer)
    layer.encodings[1].embeddings.assign(plain.encodings[0].embeddings)
    q, k, _ = heads_of(layer)
    positions = oracles.cope_positions(oracles.sigmoid(2 * products(q, k)) * CAUSAL)
    bias = oracles.cope_bias(q, numpy(layer.encodings[1].embeddings), positions)
    found = logits_of(layer, use_causal_mask=True)
    cells = np.broadcast_to(CAUSAL, found.shape)
    np.testing.assert_allclose(found[cells], (2 * products(q, k) + bias)[cells], atol=1e-5)


def test_cope_counts_past_256_in_bfloat16():
    spec = {"name": "cope", "npos_max": 400}
    layer = PositionalAttention(1, 2, encodings=[spec], dtype="mixed_bfloat16")
    x = np.zeros((1, 300, 2), "float32")
    layer.build(x.shape, x.shape)
    # Queries and keys of 10: all gates are 1. The embedding of a position is the position.
    cope = layer.encodings[0]
    for dense in (layer.query_dense, layer.key_dense):
        dense.bias.assign(np.full((1, 2), 10.0))
    cope.embeddings.assign(np.arange(400.0) * np.ones((2, 1)) / 20)
    logits = logits_of(layer, x, use_causal_mask=True)[0, 0, -1]
    np.testing.assert_allclose(logits - logits[-1], np.arange(299.0, -1, -1), atol=1e-3)


def test_cope_gradients_are_those_of_the_formula():
    """Also through the gates, whose only way to the output is the place between two integers."""
    layer = make({"name": "cope", "npos_max": 4, "gate": "separate_keys"})
    q, k, v = heads_of(layer)
    kernel, offset = (np.asarray(numpy(w), "float64") for w in layer.output_dense.weights)

    def loss(table, gate_kernel):
        gates = oracles.sigmoid(products(q, np.einsum("bte,ehd->bthd", X, gate_kernel)))
        bias = oracles.cope_bias(q, table, oracles.cope_positions(gates * CAUSAL))
        logits = np.where(CAUSAL, products(q, k) + bias, -1e30)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        output = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)
        return np.mean((np.einsum("bthd,hde->bte", output, kernel) + offset) ** 2)

    cope = layer.encodings[0]
    weights = [cope.embeddings, cope.gate_dense.kernel]
    before = [np.asarray(numpy(w), "float64") for w in weights]
    x = keras.Input((None, E))
    model = keras.Model(x, layer(x, x, use_causal_mask=True))
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse")
    assert model.train_on_batch(X, np.zeros_like(X)) == pytest.approx(loss(*before), rel=1e-5)
    for place, cell in ((0, (2, 1)), (0, (4, 3)), (1, (0, 0, 1)), (1, (5, 2, 3))):
        sides = [[w.copy() for w in before] for _ in range(2)]
        sides[0][place][cell] += 1e-5
        sides[1][place][cell] -= 1e-5
        slope = (loss(*sides[0]) - loss(*sides[1])) / 2e-5
        step = numpy(weights[place])[cell] - before[place][cell]
        assert -step == pytest.approx(slope, rel=2e-3) and abs(slope) > 1e-4


def few_rows(far, near):
    """Logits of 4 rows and 80 keys, of which the last 32 are read first; q.e is 4, 6, 8, 10."""
    cope = ContextualPositionEmbedding(4, gate="separate_keys")
    cope.build((1, 80, 1, 2), (1, 80, E))
    cope.embeddings.assign(np.arange(8.0).reshape(2, 4))
    rows, columns = ops.arange(76, 80)[None], ops.arange(80)[None]
    grid = Grid(query_positions=rows, key_positions=columns, query_order=rows, key_order=columns)
    keys = np.where(np.arange(80) < 48, far, near)[None, :, None, None] * np.ones(2)
    grid = grid.replace(features={cope: ops.convert_to_tensor(keys.astype("float32"))})
    return numpy(cope.score(ops.zeros((1, 1, 4, 80)), ops.ones((1, 4, 1, 2)), grid))[0, 0]


@pytest.mark.once
def test_cope_reads_no_gate_behind_the_last_position():
    """Unless the nearest gates are too small to reach it."""
    logits = few_rows(far=np.nan, near=0.0)
    np.testing.assert_array_equal(logits[:, :48], 10.0)
    assert logits[-1, -1] == pytest.approx(5.0)
    logits = few_rows(far=0.0, near=-100.0)
    np.testing.assert_allclose(logits[:, 42:48], 4 + np.arange(6, 0, -1) * np.ones((4, 1)))
    np.testing.assert_allclose(logits[:, 48:], 4.0)


@pytest.mark.parametrize("shift", [2.0, -2.0], ids=["near", "far"])
def test_cope_of_a_few_rows_is_that_of_the_whole_map(shift):
    """With gates that are 0.5 and 1, or tiny, and with padding: values and gradients."""
    length, rows = 72, slice(56, 68)
    layer = make({"name": "cope", "npos_max": 3})
    layer.query_dense.bias.assign(np.full((H, D), 1.0))
    layer.key_dense.bias.assign(np.full((H, D), shift))
    x = np.random.default_rng(2).normal(size=(B, length, E)).astype("float32") * 0.5
    keep = np.arange(length) >= np.array([[0], [9]])
    cells = np.tril(np.ones((length, length), bool))
    weight = np.random.default_rng(3).normal(size=(B, 12, E)).astype("float32")

    def part(x, call):
        arguments = {"attention_mask": cells[rows], "key_mask": keep, "training": True}
        out = call(x[:, rows], x, **arguments)
        return ops.sum(out * ops.convert_to_tensor(weight)), out

    def whole(x, call):
        out = call(x, x, attention_mask=cells, key_mask=keep, training=True)[:, rows]
        return ops.sum(out * ops.convert_to_tensor(weight)), out

    gradients = GRADIENTS[keras.backend.backend()]
    x = ops.convert_to_tensor(x)
    for one, other in zip(*(gradients(layer, x, f, False) for f in (part, whole)), strict=True):
        one, other = numpy(one), numpy(other)
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1.0, np.abs(other).max()))


@pytest.mark.once
def test_cope_of_a_row_with_nothing_open_is_finite():
    layer = make("cope")
    mask = np.broadcast_to(CAUSAL, (B, T, T)) & (np.arange(T) > 2)
    assert np.isfinite(numpy(layer(X, X, attention_mask=mask))).all()


@pytest.mark.once
def test_cope_config_comes_back():
    cope = ContextualPositionEmbedding(5, "values", "before", bidirectional=True, name="c")
    clone = ContextualPositionEmbedding.from_config(cope.get_config())
    assert clone.get_config() == cope.get_config()
    assert (clone.npos_max, clone.gate, clone.scaling) == (5, "values", "before")
    assert clone.bidirectional and not clone.causal_only
    assert ContextualPositionEmbedding().causal_only


@pytest.mark.once
def test_cope_says_what_it_cannot_do():
    with pytest.raises(
        ValueError, match="`npos_max` must be an integer of at least 2: .* Received: 1"
    ):
        ContextualPositionEmbedding(1)
    with pytest.raises(ValueError, match="`gate` must be one of .'query_key', .* Received: 'key'"):
        ContextualPositionEmbedding(gate="key")
    with pytest.raises(ValueError, match="`scaling` must be one of .* Received: 'none'"):
        ContextualPositionEmbedding(scaling="none")
    layer = PositionalAttention(H, D, value_dim=4, encodings=[{"name": "cope", "gate": "values"}])
    with pytest.raises(ValueError, match="`value_dim` must be `key_dim`, 5. Received: 4"):
        layer(X, X, use_causal_mask=True)
    with pytest.raises(ValueError, match="ContextualPositionEmbedding is for causal attention"):
        PositionalAttention(H, D, encodings=["cope"])(X, X)


def cells_of(keep):
    return np.broadcast_to(CAUSAL & keep[:, None, None], (B, H, T, T))


@pytest.mark.once
@pytest.mark.parametrize("keep", [LEFT, GAPS], ids=["left", "gaps"])
def test_forget_gate_is_the_papers_and_padding_forgets_nothing(keep):
    layer = make("forget_gate")
    q, k, _ = heads_of(layer)
    kernel, bias = (np.asarray(numpy(w), "float64") for w in layer.encodings[0].weights)
    expected = products(q, k) + oracles.forgotten(oracles.sigmoid(X @ kernel + bias), keep)
    found = logits_of(layer, use_causal_mask=True, key_mask=keep)
    cells = cells_of(keep)
    np.testing.assert_allclose(found[cells], expected[cells], atol=2e-5)
    # The same without `use_causal_mask`: the queries are the keys, one by one.
    found = logits_of(layer, attention_mask=CAUSAL, key_mask=keep)
    np.testing.assert_allclose(found[cells], expected[cells], atol=2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_forget_gate_tells_far_neighbours_apart_in_low_precision(dtype):
    """c runs to -1400 here, where bfloat16 has steps of 8."""
    gate = ForgetGate()
    gate.build((1, 2800, 1, 8), (1, 2800, 4))
    gate.gate_bias.assign([0.4328])  # ln f = -0.5
    ids = ops.arange(2800)[None]
    grid = Grid(
        query_positions=ids, key_positions=ids, query_order=ids, key_order=ids, order_is_index=True
    )
    grid = grid.replace(features={gate: ops.zeros((1, 2800, 1, 1), dtype)})
    q, k = gate.heads(*[ops.zeros((1, 2800, 1, 8), dtype)] * 2, grid)
    q, k = (np.asarray(numpy(x), "float64")[0, :, 0] for x in (q, k))
    # The constants of q are rounded, by one factor for the whole row.
    factor = q[0, -1] / np.sqrt(8)
    steps = np.diff(q[2000] @ k.T) / np.sqrt(8) / factor
    np.testing.assert_allclose(steps, 0.5, atol=4e-3)
    assert abs(q[2000] @ k[2000]) / np.sqrt(8) < 8


@pytest.mark.once
def test_forget_gate_needs_its_queries_among_the_keys():
    layer = make("forget_gate")
    with pytest.raises(ValueError, match="queries among the keys: .* Received: 4 queries and 9"):
        layer(X[:, :4], X, attention_mask=np.ones((4, T), bool))


@pytest.mark.once
@pytest.mark.parametrize("keep", [LEFT, GAPS], ids=["left", "gaps"])
def test_selective_attention_is_the_papers(keep):
    layer = make("selective")
    q, k, _ = heads_of(layer)
    logits, cells = products(q, k), cells_of(keep)
    masked = oracles.selected(logits, cells)
    assert masked.max() > 1
    # Ids that padding shares with the token before it do not make it one.
    by_mask = dict(attention_mask=CAUSAL, query_positions=np.maximum(keep.cumsum(1) - 1, 0))
    for arguments in (dict(use_causal_mask=True), by_mask):
        found = logits_of(layer, key_mask=keep, **arguments)
        np.testing.assert_allclose(found[cells], (logits - masked[:, None])[cells], atol=2e-5)


@pytest.mark.once
def test_selective_attention_cannot_decode_and_says_so():
    layer = make("selective")
    match = "needs the whole sequence in one call, without a cache. Received: 4 queries and 9 keys"
    for training in (False, True):
        with pytest.raises(ValueError, match=match):
            layer(X[:, :4], X[:, :4], cache=layer.make_cache(B, T), training=training)
    with pytest.raises(ValueError, match="SelectiveAttention is for causal attention"):
        layer(X, X)


def weights_of(layer, **arguments):
    _, weights = layer(X, X, return_attention_scores=True, **arguments)
    return numpy(weights)


@pytest.mark.once
@pytest.mark.parametrize("keep", [LEFT, GAPS], ids=["left", "gaps"])
def test_stick_breaking_is_the_papers(keep):
    layer = make("stick_breaking")
    q, k, _ = heads_of(layer)
    expected = oracles.broken_stick(products(q, k), cells_of(keep))
    found = weights_of(layer, use_causal_mask=True, key_mask=keep)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (found[..., 0, :] == 0).all() and found.sum(-1).max() < 1 + 1e-6
    # Without an order, a query's own key is the one at its position.
    ids = {"query_positions": np.arange(T) * 0.3, "attention_mask": CAUSAL, "key_mask": keep}
    np.testing.assert_allclose(weights_of(layer, **ids), expected, atol=1e-5)


@pytest.mark.once
def test_stick_breaking_with_sure_keys_takes_the_nearest():
    stick = StickBreaking()
    ids = ops.arange(5)[None]
    grid = Grid(
        query_positions=ids, key_positions=ids, query_order=ids, key_order=ids, order_is_index=True
    )
    sure = np.where(np.tril(np.ones((5, 5), bool)), 60.0, -1e9).astype("float32")[None, None]
    weights = numpy(stick.normalize(ops.convert_to_tensor(sure), grid))
    np.testing.assert_allclose(weights[0, 0], np.eye(5, k=-1), atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("causal", [True, False])
def test_squared_relu_is_divided_by_the_keys_seen(causal):
    layer = make("squared_relu")
    q, k, _ = heads_of(layer)
    cells = cells_of(LEFT) if causal else np.broadcast_to(LEFT[:, None, None], (B, H, T, T))
    found = weights_of(layer, use_causal_mask=causal, key_mask=LEFT)
    np.testing.assert_allclose(found, oracles.squared_relu(products(q, k), cells), atol=1e-5)


@pytest.mark.once
def test_the_biases_of_others_reach_the_weights_whole():
    """A constant of the row cancels in a softmax only: the forget gate must not leave it out."""
    layer = PositionalAttention(H, D, encodings=["forget_gate", "stick_breaking"])
    layer.build(X.shape, X.shape)
    layer.encodings[0].gate_bias.assign([0.0, 1.0, 2.0])
    q, k, _ = heads_of(layer)
    kernel, bias = (np.asarray(numpy(w), "float64") for w in layer.encodings[0].weights)
    everything = np.ones((B, T), bool)
    logits = products(q, k) + oracles.forgotten(oracles.sigmoid(X @ kernel + bias), everything)
    expected = oracles.broken_stick(logits, cells_of(everything))
    np.testing.assert_allclose(weights_of(layer, use_causal_mask=True), expected, atol=1e-5)


@pytest.mark.once
def test_forget_gate_decodes_from_a_cache_with_gaps():
    layer = make("forget_gate")
    full = numpy(layer(X, X, use_causal_mask=True, key_mask=GAPS))
    cache, parts = layer.make_cache(B, T + 2), []
    for part in (slice(0, 4), slice(4, 5), slice(5, T)):
        x = X[:, part]
        output, cache = layer(x, x, cache=cache, key_mask=GAPS[:, part])
        parts.append(numpy(output))
    np.testing.assert_allclose(np.concatenate(parts, 1)[GAPS], full[GAPS], 2e-6, 1e-5)


@pytest.mark.once
@pytest.mark.parametrize("name", ["forget_gate", "selective", "stick_breaking", "squared_relu"])
def test_a_row_with_nothing_open_is_finite(name):
    layer = make(name)
    mask = CAUSAL & (np.arange(T) > 2)
    assert np.isfinite(numpy(layer(X, X, attention_mask=mask))).all()


@pytest.mark.once
def test_forget_gate_config_comes_back():
    gate = ForgetGate(2, kernel_initializer="zeros", name="f")
    clone = ForgetGate.from_config(gate.get_config())
    assert clone.get_config() == gate.get_config()
    assert clone.initial_bias == 2.0
    clone.build((B, T, H, D), (B, T, E))
    np.testing.assert_array_equal(numpy(clone.gate_bias), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(numpy(clone.kernel), np.zeros((E, H)))


@pytest.mark.parametrize("spec", ["forget_gate", {"name": "cope", "gate": "separate_keys"}])
def test_weights_in_bfloat16_are_read_too(spec):
    exact = numpy(make(spec)(X, X, use_causal_mask=True))
    keras.config.set_dtype_policy("bfloat16")
    try:
        rounded = numpy(make(spec)(X, X, use_causal_mask=True))
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(rounded, exact, atol=0.03 * np.abs(exact).max())
