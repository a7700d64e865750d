"""The laws over the whole table of encodings, on whatever backend runs."""

import keras
import laws
import laws_of_masks
import pytest
from cases import CASES, PAIRS

from keras_posenc import encodings as position_encodings


def _name(spec):
    return spec if isinstance(spec, str) else spec["name"]


def _firsts(cases):
    """The first case of each encoding."""
    found = {}
    for case in cases:
        found.setdefault(tuple(map(_name, case.encodings)), case)
    return list(found.values())


# The first case of every encoding and a few lists, causal where they must be (decoding always is),
# run with every backend and every Keras; the rest, and the other order, `once`: on torch, where a
# case takes milliseconds, and not the seconds for which JAX and TensorFlow compile it. What only
# asks how ids and sizes are read is asked there alone.
FIRSTS = _firsts(CASES)
EVERYWHERE = FIRSTS + PAIRS[:3]
ALL = CASES + PAIRS
# What `keras.ops` alone decides, and compiles for seconds, asks there one encoding of each kind:
# turned keys, a bias by distance, a table of it, features of distances, counts of content, gates.
KINDS = [("rotary",), ("alibi",), ("t5",), ("shaw",), ("cope",), ("forget_gate",)]
SOME = [case for case in FIRSTS if tuple(map(_name, case.encodings)) in KINDS] + PAIRS[:1]
# What goes another way through attention there: another normalization, keys left out or added, and
# what has a gradient of its own.
WAYS = [("window",), ("squared_relu",), ("stick_breaking",), ("sink_logits",), ("path",)]
WAYS += [("deberta",), ("dape",), ("rotary_bias",), ("selective",)]
BY_WAY = SOME + [case for case in FIRSTS if tuple(map(_name, case.encodings)) in WAYS] + PAIRS[1:3]
# TensorFlow takes seconds for each, and hands XLA what JAX hands it too.
COMPILED = SOME if keras.backend.backend() == "tensorflow" else BY_WAY
REST = [case for case in CASES if case not in SOME]
FEW = [case for case in ALL if str(case) in ("rotary", "cope+rotary", "squared_relu+shaw+t5")]


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """On JAX a law calls a layer as one program; `compiled_is_eager` compares it with the calls."""
    monkeypatch.setattr(laws, "COMPILED", keras.backend.backend() == "jax")


def over(cases, everywhere=EVERYWHERE):
    return pytest.mark.parametrize("case", [_once(case in everywhere, case) for case in cases])


def over_orders(cases, everywhere=EVERYWHERE):
    """Every case, causal and not, as far as it may be."""
    pairs = [
        _once(case in everywhere and causal == case.orders[0], case, causal)
        for case in cases
        for causal in case.orders
    ]
    return pytest.mark.parametrize(("case", "causal"), pairs)


def _groups(cases, marks=()):
    """Eight cases at a time."""
    starts = range(0, len(cases), 8)
    return [pytest.param(cases[i : i + 8], id=f"{cases[i]}...", marks=marks) for i in starts]


def _once(everywhere, case, *causal):
    order = [f"-{'causal' if value else 'open'}" for value in causal]
    marks = () if everywhere else pytest.mark.once
    return pytest.param(case, *causal, id="".join([str(case), *order]), marks=marks)


@pytest.mark.once
def test_every_encoding_has_a_case_of_its_defaults_first():
    assert [case.encodings for case in FIRSTS] == [(name,) for name in position_encodings.ENCODINGS]


@over([case for case in ALL if case.causal_only])
def test_causal_only_is_refused_without_an_order(case):
    layer, x = laws.attention(case), laws.numbers()
    with pytest.raises(ValueError, match="is for causal attention: call the layer with"):
        layer(x, x)
    with pytest.raises(ValueError, match="is for causal attention: call the layer with"):
        layer(keras.Input((None, laws.E)), keras.Input((None, laws.E)))


@over_orders(ALL, SOME)
def test_consecutive_ids_are_the_default(case, causal):
    laws.consecutive_ids_are_the_default(case, causal)


@over_orders(ALL, SOME)
def test_shifted_ids_change_nothing(case, causal):
    laws.shifted_ids_change_nothing(case, causal)


@over_orders(SOME, [])
def test_whole_floats_are_integers(case, causal):
    laws.whole_floats_are_integers(case, causal)


@over_orders([case for case in CASES if case.fractional], SOME)
def test_float_ids_keep_their_precision_under_mixed_bfloat16(case, causal):
    laws.float_ids_keep_their_precision_under_mixed_bfloat16(case, causal)


@pytest.mark.once
def test_two_axes_work_or_are_refused():
    for case in FIRSTS:
        laws.two_axes_work_or_are_refused(case, case.orders[0])


@pytest.mark.once
@over_orders([case for case in CASES if case.flat])
def test_one_id_for_all_is_no_position(case, causal):
    laws.one_id_for_all_is_no_position(case, causal)


@over_orders(ALL, SOME)
def test_padding_and_batch_mates_change_nothing(case, causal):
    laws_of_masks.padding_and_batch_mates_change_nothing(case, causal)


@over_orders([case for case in ALL if not case.whole_sequence], SOME)
def test_packed_documents_do_not_meet(case, causal):
    laws_of_masks.packed_documents_do_not_meet(case, causal)


@over_orders(ALL, SOME)
def test_nothing_leaks_through_the_mask(case, causal):
    laws_of_masks.nothing_leaks_through_the_mask(case, causal)


@over(ALL, SOME)
def test_the_causal_order_is_its_mask(case):
    laws_of_masks.the_causal_order_is_its_mask(case)


@over_orders(ALL, SOME)
def test_masked_keys_may_hold_any_number(case, causal):
    laws_of_masks.masked_keys_may_hold_any_number(case, causal)


@over_orders(SOME, [])
def test_nothing_to_attend_to_is_an_answer(case, causal):
    laws_of_masks.nothing_to_attend_to_is_an_answer(case, causal)


@over_orders(ALL, FEW)
def test_a_row_without_keys_is_zero(case, causal, cut_maps):
    laws_of_masks.a_row_without_keys_is_zero(case, causal, cut_maps)


@pytest.mark.once
@over_orders([case for case in ALL if case.apart])
def test_rows_may_be_asked_for_alone(case, causal):
    laws.rows_may_be_asked_for_alone(case, causal)


@over([case for case in ALL if case.decodes], SOME)
def test_decoding_is_the_full_pass(case):
    laws.decoding_is_the_full_pass(case)


@over_orders(ALL, BY_WAY)
def test_every_path_is_the_same(case, causal, monkeypatch):
    laws.every_path_is_the_same(case, causal, monkeypatch)


@over_orders(ALL, SOME)
def test_low_precision_is_near_float32(case, causal):
    laws.low_precision_is_near_float32(case, causal)


@over_orders(ALL, SOME)
def test_bfloat16_tells_large_positions_apart(case, causal):
    laws.bfloat16_tells_large_positions_apart(case, causal)


@over_orders(SOME, [])
def test_one_token_is_enough(case, causal):
    laws.one_token_is_enough(case, causal)


@pytest.mark.once
def test_odd_heads_work_or_are_refused():
    for case in FIRSTS:
        laws.odd_heads_work_or_are_refused(case, case.orders[0])


@pytest.mark.once
def test_values_may_have_another_size():
    for case in FIRSTS:
        laws.values_may_have_another_size(case, case.orders[0])


@pytest.mark.once
@over([case for case in ALL if case.apart and not case.causal_only])
def test_queries_and_keys_may_differ_in_number(case):
    laws.queries_and_keys_may_differ_in_number(case)


@pytest.mark.once
@over(CASES)
def test_config_is_json_and_complete(case):
    laws.config_is_json_and_complete(case)


@pytest.mark.once
@pytest.mark.parametrize("name", sorted(position_encodings.ENCODINGS))
def test_arguments_matter(name):
    # On a line all sections turn alike.
    cases = [c for c in CASES if c.axes == 1 and [_name(spec) for spec in c.encodings] == [name]]
    laws.arguments_matter(cases)


@over_orders(CASES, COMPILED)
def test_compiled_is_eager(case, causal):
    laws.compiled_is_eager(case, causal)


@pytest.mark.parametrize("cases", _groups(SOME) + _groups(REST, pytest.mark.once))
def test_a_saved_model_trains_on(cases, tmp_path):
    laws.saved_model_trains_on(cases, tmp_path)
