"""xPos over hundreds of its scale bases, where one factor for all positions would leave float32."""

import laws
import numpy as np
import oracles
import oracles_rotary
import pytest
from keras import ops
from laws import B, D, H
from programs import one_program

from keras_posenc import Encoding, PositionalAttention
from keras_posenc.encodings import XPos

FAR = {"name": "xpos", "scale_base": 1.0}
T = 220  # as many scale bases
CASE = laws.Case((FAR,))
WINDOW = {"name": "window", "window": 9}
X = laws.numbers(length=T)
RIGHT, LEFT = np.arange(T) < [[T], [T - 30]], np.arange(T) >= [[0], [30]]


def by_formula(layer, x, keep=True, window=T, ids=None):
    """Causal attention in float64, each product times z^((i - j) / B)."""

    def of(dense):
        return [np.asarray(w, "float64") for w in dense.get_weights()]

    q, k, v = (
        np.einsum("bte,ehd->bthd", x, kernel) + bias
        for kernel, bias in map(of, (layer.query_dense, layer.key_dense, layer.value_dense))
    )
    (xpos,) = (e for e in layer.encodings if isinstance(e, XPos))
    index = np.arange(x.shape[1])
    distance = (index[:, None] - index)[None] if ids is None else ids[:, :, None] - ids[:, None]
    cells = np.tril(np.broadcast_to(keep, x.shape[:2])[:, None] & (distance < window))
    factor = oracles_rotary.xpos_factor(np.where(cells, distance, 0), D // 2, xpos.scale_base)
    theta = oracles_rotary.ladder(D)
    logits = oracles_rotary.at_distances(q, k, distance, theta, xpos.layout, factor) / np.sqrt(D)
    weights = oracles.softmax(np.where(cells[:, None], logits, -1e30))
    kernel, bias = of(layer.output_dense)
    return np.einsum("bhij,bjhd,hde->bie", weights, v, kernel) + bias


@pytest.mark.once
@pytest.mark.parametrize("size", [None, 2**14], ids=["at-once", "in-small-blocks"])
@pytest.mark.parametrize("keep", [True, RIGHT, LEFT], ids=["full", "right", "left"])
@pytest.mark.parametrize("windowed", [False, True])
def test_no_distance_is_too_far_on_any_path(windowed, keep, size, cut_maps):
    if size:
        cut_maps(0, size)
    layer = laws.attention(laws.Case((WINDOW, FAR) if windowed else (FAR,)))
    arguments = {} if keep is True else {"value_mask": keep}
    expected = by_formula(layer, X, keep, 9 if windowed else T)
    rows = np.broadcast_to(keep, (B, T))
    for training in (False, True):
        found = laws.run(layer, X, causal=True, training=training, **arguments)
        laws.close(found[rows], expected[rows], 1e-4)


@pytest.mark.once
@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
def test_no_distance_is_too_far_in_low_precision(policy):
    layer = laws.attention(CASE, dtype=policy)
    found = laws.run(layer, X, causal=True, value_mask=RIGHT)
    laws.close(found[RIGHT], by_formula(layer, X, RIGHT)[RIGHT], 0.1 if policy[0] == "m" else 0.03)


def test_no_distance_is_too_far():
    layer = laws.attention(CASE)
    arguments = {"value_mask": RIGHT, "training": True}
    run = one_program(lambda x: layer(x, x, use_causal_mask=True, **arguments))
    found = laws.to_numpy(run(ops.convert_to_tensor(X)))
    laws.close(found[RIGHT], by_formula(layer, X, RIGHT)[RIGHT], 1e-4)
    found = laws.gradients(layer, X, causal=True, **arguments)
    assert all(np.isfinite(x).all() for x in found)


@pytest.mark.once
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_masks_packed_rows_and_caches_reach_as_far(layout):
    layer = laws.attention(laws.Case(({**FAR, "layout": layout},)))
    expected = by_formula(layer, X)
    mask = np.tri(T, dtype=bool)
    laws.close(laws.run(layer, X, attention_mask=mask), expected, 1e-4)
    # Two documents, the first of which ends 200 scale bases away.
    ids = np.tile(np.r_[:200, : T - 200].astype("int32"), (B, 1))
    packed = laws.run(layer, X, causal=True, query_positions=ids, packed=True)
    laws.close(packed[:, :200], expected[:, :200], 1e-4)
    laws.close(packed[:, 200:], by_formula(layer, X[:, 200:]), 1e-4)
    cache = layer.make_cache(B, 2 * T)
    for part in (slice(0, 190), slice(190, T - 1), slice(T - 1, T)):
        out, cache = laws.call(layer, X[:, part], cache=cache)
        laws.close(laws.to_numpy(out), expected[:, part], 1e-4)


class Shifted(Encoding):
    """Adds to queries that are rotated already."""

    def heads(self, q, k, grid):
        return q + 1.0, k


@pytest.mark.once
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("after", ["rotary", "temperature", "sandwich", "log_n"])
def test_what_follows_it_does_not_depend_on_padding_or_cache(after, layout):
    more = {"rotary": {"layout": layout, "base": 50.0}, "temperature": {"value": 2.0}}
    spec = {"name": after, **more.get(after, {})}
    layer = laws.attention(laws.Case(({**FAR, "layout": layout, "scale_base": 4.0}, spec)))
    x = laws.numbers(length=24)
    alone = laws.run(layer, x, causal=True)
    for before, behind in ((0, 40), (40, 0)):
        y = np.pad(x, [(0, 0), (before, behind), (0, 0)], constant_values=0.5)
        keep = np.pad(np.ones((B, 24), bool), [(0, 0), (before, behind)])
        found = laws.run(layer, y, causal=True, value_mask=keep)
        laws.close(found[:, before : before + 24], alone, 1e-4)
    ids = np.tile(np.arange(24), (B, 1))
    laws.close(laws.run(layer, x, causal=True, query_positions=ids + 90), alone, 1e-4)
    for room in (24, 300):
        cache = layer.make_cache(B, room)
        first, cache = laws.call(layer, x[:, :17], cache=cache)
        last, _ = laws.call(layer, x[:, 17:], cache=cache)
        found = np.concatenate([laws.to_numpy(first), laws.to_numpy(last)], 1)
        laws.close(found, alone, 1e-4)


@pytest.mark.once
def test_room_behind_a_text_changes_nothing_whatever_follows():
    layer = PositionalAttention(H, D, encodings=[XPos(scale_base=4.0), Shifted()])
    x = laws.numbers(length=24)
    alone = laws.run(layer, x, causal=True)
    y = np.pad(x, [(0, 0), (0, 90), (0, 0)])
    keep = np.broadcast_to(np.arange(114) < 24, (B, 114))
    laws.close(laws.run(layer, y, causal=True, value_mask=keep)[:, :24], alone, 1e-4)
    first, cache = laws.call(layer, x[:, :17], cache=layer.make_cache(B, 200))
    last, _ = laws.call(layer, x[:, 17:], cache=cache)
    laws.close(np.concatenate([laws.to_numpy(first), laws.to_numpy(last)], 1), alone, 1e-4)


@pytest.mark.once
@pytest.mark.parametrize(
    "after",
    [
        "transformer_xl",
        {"name": "rotary", "use_bias": True},
        {"name": "xpos", "use_bias": "shared"},
    ],
    ids=["transformer_xl", "rotary", "xpos"],
)
def test_what_adds_to_the_heads_must_come_before_it(after):
    words = "adds to the queries or keys, so in `encodings` it must come before XPos: swap them"
    with pytest.raises(ValueError, match=words):
        PositionalAttention(H, D, encodings=["xpos", "log_n", after])
    PositionalAttention(H, D, encodings=[after, "xpos"])


@pytest.mark.once
@pytest.mark.parametrize("name", ["rerope", "self_extend", "string", "dual_chunk"])
def test_what_turns_again_must_have_its_pairs(name):
    """It turns features that have faded, of which a pair must have faded alike."""
    words = "must act on the same pairs of features: give all of them one `layout`"
    half = {"name": "xpos", "layout": "half"}
    for other in ({"name": name}, {"name": name, "layout": "half", "rotary_dim": 4}):
        with pytest.raises(ValueError, match=words):
            PositionalAttention(H, D, encodings=[half, other])
    PositionalAttention(H, D, encodings=[half, {"name": name, "layout": "half"}])
    PositionalAttention(H, D, encodings=["xpos", {"name": name, "rotary_dim": 4}])


def test_ids_that_span_too_much_are_refused():
    """They would need numbers that float32 has not; 63 scale bases are as far as it goes."""
    layer, x = laws.attention(CASE), laws.numbers(length=3)
    near, far = (np.array([[0, 1, n]] * B) for n in (63, 64))
    found = laws.run(layer, x, causal=True, query_positions=near)
    laws.close(found, by_formula(layer, x, ids=near), 1e-4)
    words = r"XPos with scale_base=1.0 and gamma=0.4 takes query positions that span at most 63: "
    with pytest.raises(ValueError, match=words + r"leave the ids out.*Received: 64"):
        laws.run(layer, x, causal=True, query_positions=far)
    q = ops.convert_to_tensor(np.ones((B, 3, H, D), "float32"))
    with pytest.raises(ValueError, match=words):
        XPos(scale_base=1.0)((q, q), far)
    # One query at a time is near itself.
    last = laws.run(
        layer,
        x[:, 2:],
        x,
        query_positions=far[:, 2:],
        key_positions=far,
        attention_mask=True * np.ones((1, 3), bool),
    )
    laws.close(last, by_formula(layer, x, ids=far)[:, 2:], 1e-4)


@pytest.mark.once
def test_a_map_of_too_many_queries_is_refused():
    layer = laws.attention(CASE)
    words = "XPos computes at most 63 queries in one attention map: request no scores.*220 queries"
    with pytest.raises(ValueError, match=words):
        laws.call(layer, X, causal=True, return_attention_scores=True)
    laws.call(layer, X[:, :63], causal=True, return_attention_scores=True)


@pytest.mark.once
def test_its_scale_may_be_of_any_size():
    x = laws.numbers(length=12)
    for base in (1e-3, 0.2, 1e9):
        layer = PositionalAttention(H, D, encodings=[XPos(scale_base=base)])
        layer.build(x.shape, x.shape)
        laws.close(laws.run(layer, x, causal=True), by_formula(layer, x), 1e-4)
