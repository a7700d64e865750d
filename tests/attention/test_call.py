"""Which keys a query may see, and what a call refuses before it computes anything."""

import dataclasses
import inspect

import keras
import numpy as np
import pytest
from keras import ops
from programs import one_program

from keras_posenc import Encoding, PositionalAttention
from keras_posenc.attention.call import Call

X = np.random.default_rng(0).normal(size=(2, 10, 8)).astype("float32")


def rows_of(encodings, rows, **arguments):
    """Attention of some rows of X over all of it, and those rows of the whole causal pass."""
    layer = PositionalAttention(2, 4, encodings=encodings)
    whole = ops.convert_to_numpy(layer(X, X, use_causal_mask=True))
    some = layer(X[:, rows], X, use_causal_mask=True, **arguments)
    return ops.convert_to_numpy(some), whole[:, rows]


@pytest.mark.parametrize("encodings", [[], ["rotary"], ["t5", "log_n"]], ids=str)
def test_a_causal_mask_over_fewer_queries_follows_their_positions(encodings):
    rows = np.array([3, 4, 8])
    ids = {"query_positions": rows[None], "key_positions": np.arange(10)[None]}
    some, whole = rows_of(encodings, rows, **ids)
    np.testing.assert_allclose(some, whole, atol=1e-5)


def test_of_as_many_queries_as_keys_it_follows_the_index():
    """Ids that jump back, as of packed texts, do not open the future."""
    layer, ids = PositionalAttention(2, 4), np.arange(10)[None] % 5
    plain = layer(X, X, use_causal_mask=True)
    found = layer(X, X, use_causal_mask=True, query_positions=ids)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, plain)), atol=1e-6)


@pytest.mark.once
def test_positions_on_two_axes_have_no_order():
    ids = np.zeros((1, 10, 2), "int32")
    with pytest.raises(ValueError, match="on 2 axes have no single distance"):
        PositionalAttention(2, 4)(
            X[:, :3], X, use_causal_mask=True, query_positions=ids[:, :3], key_positions=ids
        )


def test_other_widths_than_were_built_are_refused():
    """TensorFlow would fold the eight features into two texts of four."""
    layer = PositionalAttention(2, 4)
    layer(X, X)
    for query, value, name in ((X[..., :4], X, "query"), (X, X[..., :4], "key")):
        expected = f"was built for a `{name}` of 8 features: .* Received: 4 features"
        with pytest.raises(ValueError, match=expected):
            layer(query, value)
    with pytest.raises(ValueError, match="was built for a `query` of 8 features"):
        layer(keras.Input((None, 4)), keras.Input((None, 8)))


IDS = np.arange(10)[None]
CACHE = PositionalAttention(2, 4).make_cache(2, 12)
REFUSED = [
    ({"query_positions": np.arange(9)}, "`query_positions` must have .* T = 10, .* Received: 9"),
    ({"key_positions": IDS[:, 1:]}, "`key_positions` must have .* T = 10, .* Received: 9 ids"),
    ({"key_positions": IDS, "cache": CACHE}, "`key_positions` must have .* T = 12, .*: 10 ids"),
    ({"query_order": IDS}, "`query_order` and `key_order` must be given .* `query_order` alone"),
    ({"key_order": IDS}, "must be given together, or neither. Received: `key_order` alone"),
    (
        {"query_order": IDS, "key_order": IDS, "use_causal_mask": True},
        "`query_order` and `key_order` replace the causal order",
    ),
    ({"packed": True}, "`packed` rows hold documents .* call the layer with these ids"),
    ({"packed": True, "query_positions": IDS / 2}, "`packed` rows need ids .* float"),
    ({"value_mask": np.ones((2, 9), bool)}, "a mask of the keys has one bool a key"),
    ({"attention_mask": np.ones((9, 10), bool)}, "an `attention_mask` is .* one of the shape"),
]


@pytest.mark.once
@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_call_is_refused_alike_with_and_without_numbers(arguments, message):
    for x in (X, keras.Input(X.shape[1:])):
        with pytest.raises(ValueError, match=message):
            PositionalAttention(2, 4)(x, x, **arguments)


@pytest.mark.once
def test_a_call_holds_the_arguments_of_the_layer():
    fields = {f.name: f.default for f in dataclasses.fields(Call)}
    given = inspect.signature(PositionalAttention.call).parameters.values()
    parameters = {p.name: p.default for p in given if p.name != "self"}
    required = {"query": inspect.Parameter.empty, "value": inspect.Parameter.empty}
    assert list(fields) == list(parameters)
    assert {**fields, **required} == parameters


@pytest.mark.once
def test_what_encodings_do_is_asked_once(monkeypatch):
    """When the layer is made: no call asks again."""
    layer = PositionalAttention(2, 4, encodings=["rotary", "cope", "selective", "shaw"])
    layer(X, X, use_causal_mask=True)
    monkeypatch.setattr(Encoding, "overrides", lambda *_: pytest.fail("asked in a call"))
    layer(X, X, use_causal_mask=True, training=True)
    layer(X, X, use_causal_mask=True, return_attention_scores=True)


def test_the_order_of_other_keys_is_the_same_where_lengths_are_unknown():
    layer = PositionalAttention(2, 4, encodings=["rotary"])
    queries, keys = keras.Input((None, 8)), keras.Input((None, 8))
    ids = [keras.Input((None,), dtype="int32") for _ in range(2)]
    names = {"query_positions": ids[0], "key_positions": ids[1], "use_causal_mask": True}
    model = keras.Model([queries, keys, *ids], layer(queries, keys, **names))
    rng = np.random.default_rng(0)
    for few, many in ((3, 8), (4, 9), (5, 5)):
        x, y = (rng.normal(size=(2, n, 8)).astype("float32") for n in (few, many))
        places = np.arange(many - few, many)[None].repeat(2, 0), np.arange(many)[None].repeat(2, 0)
        given = dict(zip(names, places, strict=False), use_causal_mask=True)
        run = one_program(lambda x, y, given=given: layer(x, y, **given))
        expected = ops.convert_to_numpy(run(x, y))
        found = model.predict([x, y, *(each.astype("int32") for each in places)], verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("name", ["query_positions", "key_positions"])
def test_ids_of_other_texts_are_refused(name):
    ids = np.arange(10)[None].repeat(3, 0)
    expected = f"`{name}` must have ids of one text or of as many as there are, 2. Received: ids "
    with pytest.raises(ValueError, match=f"{expected}of 3"):
        PositionalAttention(2, 4)(X, X, **{name: ids})
