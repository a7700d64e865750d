"""The gate and the sliding window of Keras' own attention layers, here with encodings."""

import functools
import inspect
import json

import keras
import laws
import laws_of_masks
import numpy as np
import pytest
from keras import ops

from keras_posenc import GatedAttentionUnit, PositionalAttention
from keras_posenc.attention import choose

B, T, H, D, E = laws.B, laws.T, laws.H, laws.D, laws.E
KERAS = keras.layers.MultiHeadAttention
SHARING = keras.layers.GroupQueryAttention
BOTH = {"use_gate": True, "sliding_window": 3}


def needs(*names):
    known = inspect.signature(KERAS.__init__).parameters
    missing = [name for name in names if name not in known]
    return pytest.mark.skipif(bool(missing), reason=f"this Keras has no {missing}")


@needs("use_gate", "sliding_window")
@pytest.mark.parametrize("arguments", [{"use_gate": True}, {"sliding_window": 3}, BOTH], ids=str)
@pytest.mark.parametrize("use_bias", [True, False])
def test_it_is_keras_attention_with_the_same_weights(arguments, use_bias):
    # With dropout Keras takes its explicit path; its fused one fails on JAX if value_dim differs.
    sizes = {"value_dim": 4, "output_shape": 6, "dropout": 0.1, "use_bias": use_bias, **arguments}
    reference, ours = KERAS(H, D, **sizes), PositionalAttention(H, D, **sizes)
    x, y = laws.numbers(), laws.numbers(1, length=T + 3)
    reference(x, y), ours(x, y)
    names = [w.path.split("/", 1)[1] for w in ours.trainable_weights]
    assert names == [w.path.split("/", 1)[1] for w in reference.trainable_weights]
    random = np.random.default_rng(0)
    ours.set_weights([random.normal(size=w.shape) for w in ours.weights])
    reference.set_weights(ours.get_weights())
    keep = np.ones((B, T), bool)
    keep[0, 5:] = False
    mask = np.broadcast_to(np.tri(T, T, 1, dtype=bool), (B, T, T))
    for given in ({}, {"use_causal_mask": True}, {"attention_mask": mask}):
        laws.close(*(laws.to_numpy(layer(x, x, **given)) for layer in (ours, reference)))
    padded = {"value_mask": ops.convert_to_tensor(keep)}
    laws.close(*(laws.to_numpy(layer(x, x, **padded)) for layer in (ours, reference)))

    for other in (y, y[:, : T - 2]):
        laws.close(*(laws.to_numpy(layer(x, other)) for layer in (ours, reference)))
    _, ours = ours(x, x, return_attention_scores=True)
    laws.close(laws.to_numpy(ours), laws.to_numpy(reference(x, x, return_attention_scores=True)[1]))


@needs("use_gate", "sliding_window")
def test_shared_heads_are_gated_as_kerass():
    reference = SHARING(D, 4, 2, use_gate=True, sliding_window=2)
    ours = PositionalAttention(4, D, num_key_value_heads=2, use_gate=True, sliding_window=2)
    x = laws.numbers()
    reference(x, x), ours(x, x)
    ours.set_weights([0.3 * np.random.default_rng(0).normal(size=w.shape) for w in ours.weights])
    weights = ours.get_weights()
    order = [np.shape(w) for w in reference.get_weights()]
    assert order == [np.shape(w) for w in weights]
    reference.set_weights(weights)
    laws.close(laws.run(ours, x, causal=True), laws.to_numpy(reference(x, x, use_causal_mask=True)))


@pytest.fixture
def gated(monkeypatch):
    """The attention of every law has a gate and a window."""
    attention = functools.partial(laws.attention, **BOTH)
    for module in (laws, laws_of_masks):
        monkeypatch.setattr(module, "attention", attention)


LISTS = [laws.Case(()), laws.Case(("rotary", "log_n")), laws.Case(("t5", "shaw", "sink_logits"))]
over_lists = pytest.mark.parametrize(
    "case", [LISTS[0], *(pytest.param(c, marks=pytest.mark.once) for c in LISTS[1:])], ids=str
)


@over_lists
@pytest.mark.parametrize("causal", [True, False])
def test_a_gate_and_a_window_keep_the_laws(case, causal, gated, monkeypatch):
    laws.consecutive_ids_are_the_default(case, causal)
    laws.shifted_ids_change_nothing(case, causal)
    laws.rows_may_be_asked_for_alone(case, causal)
    laws.every_path_is_the_same(case, causal, monkeypatch)
    laws.low_precision_is_near_float32(case, causal)
    laws_of_masks.padding_and_batch_mates_change_nothing(case, causal)
    laws_of_masks.packed_documents_do_not_meet(case, causal)
    laws_of_masks.nothing_leaks_through_the_mask(case, causal)
    laws_of_masks.masked_keys_may_hold_any_number(case, causal)


@pytest.mark.once
@over_lists
def test_they_decode_from_a_cache(case, gated):
    laws.decoding_is_the_full_pass(case)


@pytest.mark.once
def test_a_sliding_window_is_the_encoding_at_its_cost(monkeypatch):
    taken, local = [], choose.attend_locally

    def noted(*arguments, **options):
        taken.append(True)
        return local(*arguments, **options)

    monkeypatch.setattr(choose, "attend_locally", noted)
    x = laws.numbers(length=512)
    ours = PositionalAttention(H, D, encodings=["rotary"], sliding_window=7)
    other = PositionalAttention(H, D, encodings=["rotary", {"name": "window", "window": 7}])
    ours(x, x), other(x, x)
    other.set_weights(ours.get_weights())
    for causal in (True, False):
        laws.close(laws.run(ours, x, causal=causal), laws.run(other, x, causal=causal))
    assert len(taken) == 6


@pytest.mark.once
def test_they_are_in_the_config_and_the_file(tmp_path):
    for layer in (
        PositionalAttention(H, D, **BOTH),
        GatedAttentionUnit(8, 4, sliding_window=3, normalization="softmax_plus"),
    ):
        config = layer.get_config()
        again = type(layer).from_config(json.loads(json.dumps(config)))
        assert again.get_config() == config and again.sliding_window == 3
    x = keras.Input((None, E))
    layer = PositionalAttention(H, D, encodings=["shaw"], **BOTH)
    model = keras.Model(x, layer(x, x))
    model.save(tmp_path / "model.keras")
    found = keras.saving.load_model(tmp_path / "model.keras").predict(laws.numbers(), verbose=0)
    laws.close(found, model.predict(laws.numbers(), verbose=0))


@pytest.mark.once
@pytest.mark.parametrize("window", [0, -1, 2.5, True, "3"])
def test_a_window_is_a_positive_integer(window):
    with pytest.raises(ValueError, match="`sliding_window` must be a positive integer. Received:"):
        PositionalAttention(H, D, sliding_window=window)


@pytest.mark.once
def test_two_windows_and_two_gates_are_refused():
    x = laws.numbers()
    with pytest.raises(ValueError, match="Two windows over one attention map: keep the one that"):
        PositionalAttention(H, D, encodings=["window"], sliding_window=3)(x, x)
    with pytest.raises(ValueError, match="A gated unit has a gate, u, in the place of that"):
        GatedAttentionUnit(8, use_gate=True)
    assert not GatedAttentionUnit(8, use_gate=False).use_gate
