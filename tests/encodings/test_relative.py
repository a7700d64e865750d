"""Shaw, NEZHA, Transformer-XL and DeBERTa against sums over explicit T x T x D tensors."""

import functools
import math

import keras
import numpy as np
import oracles_relative as oracles
import pytest
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.attention.choose import attend
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import Grid
from keras_posenc.encodings.deberta import DeBERTaRelative, log_bucket
from keras_posenc.encodings.relative import NEZHA, ShawRelative, summed_by_class
from keras_posenc.encodings.transformer_xl import TransformerXLRelative

B, T, H, D = 2, 9, 3, 5
Q, K, V = np.random.default_rng(0).normal(size=(3, B, T, H, D)).astype("float32")
WIDE_V = np.random.default_rng(1).normal(size=(B, T, H, 7)).astype("float32")
CAUSAL = np.tril(np.ones((T, T), bool))
POSITIONS = {
    "consecutive": np.tile(np.arange(T, dtype="int32"), (B, 1)),
    "gaps": np.array([[0, 1, 4, 5, 9, 30, 31, 99, 400], [3, 4, 5, 6, 7, 8, 9, 10, 11]], "int32"),
    "floats": np.array([np.linspace(0, 20.3, T), np.linspace(1, 5.7, T)], "float32"),
    "from afar": np.tile(np.arange(100_000, 100_000 + T, dtype="int32"), (B, 1)),
}


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def built(encoding, seed=2):
    """The encoding with weights that are nowhere zero."""
    for name in vars(encoding):
        if name.endswith("_initializer"):
            setattr(encoding, name, keras.initializers.Zeros())  # quicker than random ones on JAX
    encoding.build((B, T, H, D))
    rng = np.random.default_rng(seed)
    encoding.set_weights([rng.normal(size=w.shape) * 0.5 for w in encoding.weights])
    return encoding


def weights_of(encoding):
    return {w.name: numpy(w) for w in encoding.weights}


def run(encoding, q=Q, k=K, v=V, rows=None, columns=None, mask=None, **how):
    """The output of attention with this one encoding, `explicitly` by the map, or in `training`."""
    rows = POSITIONS["consecutive"] if rows is None else rows
    columns = rows if columns is None else columns
    q, k, v, rows, columns = (ops.convert_to_tensor(x) for x in (q, k, v, rows, columns))
    mask = None if mask is None else ops.convert_to_tensor(mask)
    grid = Grid(rows, columns, attention_mask=mask, training=how.get("training", False))
    rules = Rules(Hooks((encoding,)), 1 / math.sqrt(D))
    return numpy(attend(q, k, v, grid, rules, with_map=how.get("explicitly", False))[0])


def distances(rows, columns=None):
    columns = rows if columns is None else columns
    r = rows[:, :, None].astype("float64") - columns[:, None]
    return np.broadcast_to(r, (B, *r.shape[1:]))


def expected(encoding, q=Q, k=K, v=V, rows=None, columns=None, allowed=True):
    rows = POSITIONS["consecutive"] if rows is None else rows
    r, w = distances(rows, columns), weights_of(encoding)
    if isinstance(encoding, ShawRelative):
        tables = (w["key_table"], w.get("value_table"))
        return oracles.shaw(q, k, v, r, *tables, allowed=allowed)
    if isinstance(encoding, NEZHA):
        n = encoding.max_distance
        first = 0 if encoding.released else -n
        values = oracles.nezha_table(n, v.shape[-1], first) if encoding.values else None
        return oracles.shaw(q, k, v, r, oracles.nezha_table(n, D, first), values, allowed)
    if isinstance(encoding, TransformerXLRelative):
        learned = (w["content_bias"], w["position_bias"], w["kernel"])
        return oracles.transformer_xl(q, k, v, r, *learned, allowed=allowed)
    bucket = int
    if encoding.buckets:
        bucket = functools.partial(
            oracles.deberta_bucket, buckets=encoding.buckets, farthest=encoding.max_distance
        )
    tables = (w.get("key_table"), w.get("query_table"))
    return oracles.deberta(q, k, v, r, *tables, bucket, encoding.released, allowed)


CASES = {
    "shaw": lambda: ShawRelative(max_distance=2),
    "shaw without values": lambda: ShawRelative(values=False),
    "nezha": lambda: NEZHA(max_distance=3),
    "transformer_xl": lambda: TransformerXLRelative(size=6),
    "deberta": lambda: DeBERTaRelative(max_distance=3),
    "deberta buckets": lambda: DeBERTaRelative(max_distance=12, buckets=6),
    "deberta p2c": lambda: DeBERTaRelative(max_distance=4, terms=["p2c"]),
}
every_case = pytest.mark.parametrize("make", CASES.values(), ids=CASES)
one_of_each = pytest.mark.parametrize(
    "make", [CASES[name] for name in ("shaw", "nezha", "transformer_xl", "deberta buckets")]
)


@every_case
def test_it_is_the_papers_sum(make):
    encoding = built(make())
    for rows in POSITIONS.values():
        # Sines of angles of many turns are exact to 3e-5.
        far = isinstance(encoding, TransformerXLRelative) and rows.max() > 200
        output = run(encoding, rows=rows)
        tolerance = 1e-4 if far else 1e-5
        np.testing.assert_allclose(output, expected(encoding, rows=rows), atol=tolerance)


@one_of_each
def test_under_a_causal_mask_and_while_training(make):
    encoding = built(make())
    output = run(encoding, mask=CAUSAL, training=True)
    np.testing.assert_allclose(output, expected(encoding, allowed=CAUSAL), atol=1e-5)


@pytest.mark.once
@one_of_each
def test_only_the_distance_counts(make):
    encoding, rows = built(make()), POSITIONS["gaps"]
    near, far = run(encoding, rows=rows), run(encoding, rows=rows + 1000)
    np.testing.assert_allclose(near, far, atol=1e-4)


@pytest.mark.once
@one_of_each
def test_left_and_right_differ(make):
    encoding = built(make())
    ahead = run(encoding, rows=POSITIONS["consecutive"])
    back = run(encoding, rows=-POSITIONS["consecutive"])
    assert np.abs(ahead - back).max() > 1e-2


@pytest.mark.once
@one_of_each
def test_ids_on_several_axes_are_refused(make):
    encoding = built(make())
    with pytest.raises(ValueError, match="Position ids on 2 axes have no single distance"):
        run(encoding, rows=np.zeros((1, T, 2), "int32"))


@pytest.mark.once
@one_of_each
def test_a_row_without_open_cells_is_finite(make):
    mask = CAUSAL.copy()
    mask[3] = False
    assert np.isfinite(run(built(make()), mask=mask)).all()


@one_of_each
def test_bfloat16_heads(make):
    encoding, rows = built(make()), POSITIONS["from afar"]
    half = [ops.cast(x, "bfloat16") for x in (Q, K, V)]
    exact = run(encoding, *(numpy(x) for x in half), rows=rows)
    np.testing.assert_allclose(run(encoding, *half, rows=rows), exact, atol=6e-2)


# ---------------------------------------------------------------- Shaw and NEZHA
@pytest.mark.parametrize("make", [lambda n: ShawRelative(value_dim=n), lambda n: NEZHA()])
def test_values_of_another_size(make):
    encoding = built(make(7))
    output = run(encoding, v=WIDE_V)
    np.testing.assert_allclose(output, expected(encoding, v=WIDE_V), atol=1e-5)


@pytest.mark.once
def test_a_table_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match="rows of 5 numbers, the values have 7: .*value_dim=7"):
        run(built(ShawRelative()), v=WIDE_V)


def test_without_values_a_fused_kernel_may_run():
    assert ShawRelative().overrides("value") and NEZHA().overrides("value")
    for encoding in (ShawRelative(values=False), NEZHA(values=False)):
        assert encoding.overrides("bias") and not encoding.overrides("value")


def test_sums_by_class_are_the_one_hot_product():
    rng = np.random.default_rng(0)
    weights = rng.random((B, H, 4, 6)).astype("float32")
    index = rng.integers(0, 5, (B, 4, 6), dtype="int32")
    sums = summed_by_class(ops.convert_to_tensor(weights), ops.convert_to_tensor(index), 5)
    one_hot = np.eye(5)[index]
    np.testing.assert_allclose(
        numpy(sums), np.einsum("bhij,bijc->bihc", weights, one_hot), atol=1e-6
    )


@pytest.mark.once
def test_zero_tables_change_nothing():
    encoding = ShawRelative(embeddings_initializer="zeros")
    encoding.build((B, T, H, D))
    np.testing.assert_allclose(run(encoding), run(NoPosition()), atol=1e-6)
    encoding.set_weights([w + np.arange(w.size).reshape(w.shape) for w in encoding.get_weights()])
    assert np.abs(run(encoding) - run(NoPosition())).max() > 1e-2


class NoPosition(ShawRelative):
    def overrides(self, hook):
        return False


@pytest.mark.once
def test_nezha_sinusoid_and_what_was_released():
    table = NEZHA(max_distance=2, released=True).rows_for_values(4)
    # As bert4keras' `Sinusoidal` initializer fills its 2k + 1 rows: sin, cos, from 0.
    np.testing.assert_allclose(table[0], [0, 1, 0, 1], atol=1e-7)
    np.testing.assert_allclose(
        table[3], [np.sin(3), np.cos(3), np.sin(0.03), np.cos(0.03)], atol=1e-7
    )
    paper = NEZHA(max_distance=2).rows_for_values(4)
    np.testing.assert_allclose(paper[2], [0, 1, 0, 1], atol=1e-7)
    np.testing.assert_allclose(paper[0, :2], [-np.sin(2), np.cos(2)], atol=1e-7)
    assert NEZHA().weights == []


@pytest.mark.once
@pytest.mark.parametrize("number", [0, -1, 2.5, True, None])
def test_a_bad_distance_is_refused(number):
    for encoding in (ShawRelative, NEZHA, DeBERTaRelative):
        with pytest.raises(ValueError, match="`max_distance` must be a positive integer. Received"):
            encoding(max_distance=number)
    with pytest.raises(ValueError, match="`value_dim` must be a positive integer"):
        ShawRelative(value_dim=0)


# ---------------------------------------------------------------- Transformer-XL
@pytest.mark.once
def test_given_ids_are_met_in_wider_heads():
    """So that nothing of size T x T is formed."""
    encoding = built(TransformerXLRelative(size=6))
    grid = encoding.restrict(Grid(np.arange(T)[None], np.arange(T)[None]))
    q, k = encoding.heads(ops.convert_to_tensor(Q), ops.convert_to_tensor(K), grid)
    assert tuple(q.shape) == tuple(k.shape) == (B, T, H, D + 6)
    assert encoding.bias(ops.convert_to_tensor(Q), grid) is None


@pytest.mark.once
def test_the_sinusoid_is_as_wide_as_the_model():
    assert built(TransformerXLRelative()).kernel.shape == (16, 3, 5)  # the even number above 15
    encoding = TransformerXLRelative(bias_initializer="zeros", kernel_initializer="zeros")
    encoding.build((B, T, 2, 4))
    assert encoding.kernel.shape == (8, 2, 4)


@pytest.mark.once
@pytest.mark.parametrize("given", [True, False], ids=["ids", "no ids"])
def test_transformer_xl_is_that_of_xlnet(given):
    """transformers' XLNet has the same four terms, with its u and v as r_w_bias and r_r_bias."""
    modeling = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    torch = pytest.importorskip("torch")
    config = modeling.XLNetConfig(d_model=8, n_head=2, n_layer=1, d_inner=8, dropout=0.0)
    reference = modeling.XLNetRelativeAttention(config).to("cpu").eval()
    rng = np.random.default_rng(0)
    encoding = TransformerXLRelative()
    encoding.build((1, T, 2, 4))
    u, v, kernel = (rng.normal(size=w.shape).astype("float32") for w in encoding.weights)
    encoding.set_weights([u, v, kernel])
    q, k, values = rng.normal(size=(3, 1, T, 2, 4)).astype("float32")
    positions = torch.arange(T, -T, -1.0)
    angles = positions[:, None] * 10000 ** (-torch.arange(0, 8, 2.0) / 8)
    sinusoid = torch.cat([angles.sin(), angles.cos()], -1)
    with torch.no_grad():
        reference.r_w_bias.copy_(torch.tensor(u)), reference.r_r_bias.copy_(torch.tensor(v))
        relative = torch.einsum("ts,shd->thd", sinusoid, torch.tensor(kernel))[:, None]
        heads = [torch.tensor(x).permute(1, 0, 2, 3) for x in (q, k, values)]
        output = reference.rel_attn_core(*heads, relative).permute(1, 0, 2, 3).numpy()
    q, k, values = (ops.convert_to_tensor(x) for x in (q, k, values))
    rows = ops.arange(T)[None]
    grid = Grid(rows, rows, ids_are_indices=not given)
    ours = attend(q, k, values, grid, Rules(Hooks((encoding,)), 0.5))[0]
    np.testing.assert_allclose(numpy(ours), output, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("size", [0, 7, -2, 4.0, True])
def test_an_odd_sinusoid_is_refused(size):
    with pytest.raises(ValueError, match="`size` must be a positive even integer: .*Received"):
        TransformerXLRelative(size=size)


# ---------------------------------------------------------------- DeBERTa
def their_attention(version, config):
    modeling = pytest.importorskip(f"transformers.models.{version}.modeling_{version}")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    reference = modeling.DisentangledSelfAttention(config).to("cpu").eval()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.copy_(torch.randn(weight.shape, device="cpu") * 0.5)
    return reference, modeling, torch


def with_weights(encoding, q, k, v, tables):
    """Our attention with kernels (E, E) and biases of theirs, and no merging projection."""
    layer = PositionalAttention(2, 4, encodings=[encoding])
    layer.build((B, T, 8), (B, T, 8))
    for dense, (kernel, bias) in zip(
        (layer.query_dense, layer.key_dense, layer.value_dense), (q, k, v), strict=True
    ):
        dense.set_weights([kernel.reshape(8, 2, 4), bias.reshape(2, 4)])
    layer.output_dense.set_weights([np.eye(8).reshape(2, 4, 8), np.zeros(8)])
    layer.encodings[0].set_weights([table.reshape(-1, 2, 4) for table in tables])
    return layer


# Distances beyond the clip too: T = 9 is above 4.
@pytest.mark.once
def test_it_is_the_released_deberta():
    transformers = pytest.importorskip("transformers")
    config = transformers.DebertaConfig(
        hidden_size=8,
        num_attention_heads=2,
        relative_attention=True,
        max_relative_positions=4,
        pos_att_type=["c2p", "p2c"],
    )
    reference, modeling, torch = their_attention("deberta", config)
    x, table = torch.randn(B, T, 8, device="cpu"), torch.randn(8, 8, device="cpu")
    with torch.no_grad():
        r = modeling.build_relative_position(x, x).to("cpu")
        output = reference(x, torch.ones(B, 1, T, T, device="cpu"), None, None, r, table)[0].numpy()
        # Their projection holds q, k, v of head 0, then of head 1.
        kernel = reference.in_proj.weight.reshape(2, 3, 4, 8).permute(1, 3, 0, 2).numpy()
        tables = [reference.pos_proj(table).numpy(), reference.pos_q_proj(table).numpy()]
        biases = [reference.q_bias.numpy(), np.zeros(8), reference.v_bias.numpy()]
    pairs = [(kernel[n], biases[n]) for n in range(3)]
    encoding = DeBERTaRelative(max_distance=4, released=True)
    ours = with_weights(encoding, *pairs, tables)
    np.testing.assert_allclose(numpy(ours(x.numpy(), x.numpy())), output, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("shared", [True, False])
def test_it_is_the_released_deberta_v2(shared):
    transformers = pytest.importorskip("transformers")
    config = transformers.DebertaV2Config(
        hidden_size=8,
        num_attention_heads=2,
        relative_attention=True,
        max_relative_positions=7,
        position_buckets=4,
        share_att_key=shared,
        pos_att_type=["c2p", "p2c"],
    )
    reference, _, torch = their_attention("deberta_v2", config)
    x, table = torch.randn(B, T, 8, device="cpu"), torch.randn(8, 8, device="cpu")
    with torch.no_grad():
        mask = torch.ones(B, 1, T, T, device="cpu")
        output = reference(x, mask, rel_embeddings=table)[0].numpy()
        dense = [reference.query_proj, reference.key_proj, reference.value_proj]
        pairs = [(d.weight.T.numpy(), d.bias.numpy()) for d in dense]
        on_keys = reference.key_proj if shared else reference.pos_key_proj
        on_queries = reference.query_proj if shared else reference.pos_query_proj
        tables = [on_keys(table).numpy(), on_queries(table).numpy()]
    encoding = DeBERTaRelative(max_distance=7, buckets=4, released=True)
    ours = with_weights(encoding, *pairs, tables)
    np.testing.assert_allclose(numpy(ours(x.numpy(), x.numpy())), output, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(("buckets", "farthest"), [(256, 512), (8, 12), (64, 1000)])
def test_buckets_are_those_of_the_released_code(buckets, farthest):
    modeling = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    torch = pytest.importorskip("torch")
    r = np.arange(-2 * farthest, 2 * farthest + 1)
    reference = modeling.make_log_bucket_position(torch.tensor(r), buckets, farthest)
    np.testing.assert_array_equal(log_bucket(r, buckets, farthest), reference.numpy().astype(int))
    assert log_bucket(np.array([farthest - 1]), buckets, farthest) == buckets - 1
    assert log_bucket(np.array([farthest]), buckets, farthest) == buckets


@pytest.mark.once
@pytest.mark.parametrize("buckets", [2, 7, 22, 24])
def test_bad_buckets_are_refused(buckets):
    words = r"`buckets` must be even, at least 4 and below 2 \(max_distance - 1\) = 22"
    with pytest.raises(ValueError, match=words):
        DeBERTaRelative(max_distance=12, buckets=buckets)


@pytest.mark.once
@pytest.mark.parametrize("terms", [[], "p2p", ["c2p", "c2p"], ["c2p", "p2p"]])
def test_bad_terms_are_refused(terms):
    with pytest.raises(ValueError, match="`terms` must be one or both of .*Received"):
        DeBERTaRelative(terms=terms)
