"""Edges of layers: frozen parts, quantized parts in other models, keys without values, far ids."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.attention.log_n import LogNAttention
from keras_posenc.layers.experts import MixtureOfExperts
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.structured.crf import ConditionalRandomField
from keras_posenc.layers.structured.decoders import ViterbiDecoder
from keras_posenc.layers.structured.memm import MaximumEntropyMarkovModel
from keras_posenc.layers.structured.pointer import GlobalPointer
from keras_posenc.layers.token_embedding import BiasAdd, TokenEmbedding
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.generation import Generator
from keras_posenc.models.heads import MaskedPooling, classifier
from keras_posenc.models.span_logits import SpanLogits
from keras_posenc.positions import (
    AbacusPositionIds,
    PaddedPositionIds,
    RandomPositionIds,
    SegmentPositionIds,
)
from keras_posenc.positions.learned import LearnedPositionEmbedding
from keras_posenc.positions.stretched import InterpolatedPositionEmbedding

COPE = {"name": "cope", "gate": "separate_keys", "bidirectional": True}
FROZEN = {
    "attention": lambda: PositionalAttention(2, 4, encodings=["t5", COPE], trainable=False),
    "gated unit": lambda: GatedAttentionUnit(8, 4, trainable=False),
    "feed-forward": lambda: FeedForward(8, trainable=False),
    "pointer": lambda: GlobalPointer(2, 4, trainable=False),
}


def of_features(layer):
    inputs = keras.Input((None, 8))
    return keras.Model(
        inputs, layer(inputs, inputs) if type(layer) is PositionalAttention else layer(inputs)
    )


@pytest.mark.once
@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_layer_is_frozen_in_all_its_parts(name, tmp_path):
    model = of_features(FROZEN[name]())
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for each in (model, keras.models.clone_model(model), again):
        assert each.weights and not each.trainable_weights
    again.trainable = True
    for layer in again.layers:
        layer.trainable = True
    assert len(again.trainable_weights) == len(again.weights)


@pytest.mark.once
def test_a_frozen_encoder_stays_frozen_when_it_is_loaded(tiny_config, tmp_path):
    encoder = build_transformer_model(tiny_config)
    encoder.trainable = False
    model = classifier(encoder, 2)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(model.trainable_weights) == len(again.trainable_weights) == 2
    again.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [ops.convert_to_numpy(w) for w in again.non_trainable_weights if "seed" not in w.path]
    inputs = {name: np.array([[2, 5, 3]]) for name in ("token_ids", "segment_ids")}
    inputs["segment_ids"] *= 0
    again.fit(inputs, np.array([1]), verbose=0)
    after = [ops.convert_to_numpy(w) for w in again.non_trainable_weights if "seed" not in w.path]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_key_has_a_value():
    layer, x = PositionalAttention(2, 4), np.zeros((1, 6, 8), "float32")
    for make in (lambda length: x[:, :length], lambda length: keras.Input((length, 8))):
        with pytest.raises(ValueError, match="a key has a value each. Received: 6 keys and 5 val"):
            layer(make(4), make(5), make(6))


def test_shapes_are_checked_alike_on_every_backend():
    layer, x = PositionalAttention(2, 4), np.zeros((3, 5, 8), "float32")
    layer(x, x)
    for shape in ((3, 5), (5,), (3, 5, 4), (3, 4, 5, 5), (1, 1, 1, 5, 5)):
        for inputs in (x, keras.Input((5, 8), batch_size=3)):
            with pytest.raises(ValueError, match="an `attention_mask` is .Tq, Tk., .B, Tq, Tk. or"):
                layer(inputs, inputs, attention_mask=np.ones(shape, bool))
    for shape in ((5, 5), (1, 5), (3, 5, 5), (1, 5, 5), (3, 2, 5, 5), (3, 1, 5, 5)):
        layer(x, x, attention_mask=np.ones(shape, bool))
    with pytest.raises(ValueError, match="takes features .B, T, D.. Received: `query` .5, 8."):
        PositionalAttention(2, 4)(x[0], x[0])
    with pytest.raises(ValueError, match="takes features .B, T, D.. Received: `inputs` .5, 8."):
        GatedAttentionUnit(8, 4)(x[0])


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
def test_quantized_parts_are_found_in_any_model(mode, tmp_path):
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    models = {
        "unit": [GatedAttentionUnit(8, 4)],
        "feed-forward": [FeedForward(16)],
        "span": [SpanLogits()],
        "distributed": [
            keras.layers.Reshape((1, 5, 8)),
            keras.layers.TimeDistributed(FeedForward(16)),
        ],
    }
    for name, layers in models.items():
        model = keras.Sequential([keras.Input((5, 8)), *layers])
        model.quantize(mode)
        expected = model.predict(x, verbose=0)
        model.save(tmp_path / f"{name}.keras")
        again = keras.saving.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_allclose(again.predict(x, verbose=0), expected, atol=1e-6)


@pytest.mark.once
def test_layers_with_a_map_of_policies_are_saved(tmp_path):
    policies = keras.dtype_policies.DTypePolicyMap("float32")
    kinds = BiasAdd, SpanLogits, ConditionalRandomField, ViterbiDecoder
    layers = [kind(dtype=policies) for kind in kinds]
    keras.Sequential([keras.Input((5, 8)), *layers]).save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").output_shape == (None, 5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a file of TensorFlow")
def test_a_checkpoint_of_tensorflow_has_the_weights_of_all_parts(tmp_path):
    import tensorflow as tf

    x, scores = keras.Input((5, 8)), keras.Input((5, 3))
    dape = {"name": "dape", "bias": "kerple"}
    layers = [FeedForward(6, ["relu", "linear"]), MixtureOfExperts(2, 6, 1)]
    outputs = [layer(x) for layer in layers]
    outputs.append(PositionalAttention(2, 4, encodings=["t5", dape])(x, x, use_causal_mask=True))
    chains = ConditionalRandomField(), MaximumEntropyMarkovModel(), MaximumEntropyMarkovModel(2)
    model = keras.Model([x, scores], outputs + [chain(scores) for chain in chains])
    expected = [weight.numpy() for weight in model.weights]
    path = tf.train.Checkpoint(model=model).save(tmp_path / "all")
    for weight in model.weights:
        weight.assign(keras.random.uniform(weight.shape))
    tf.train.Checkpoint(model=model).restore(path)
    for weight, numbers in zip(model.weights, expected, strict=True):
        np.testing.assert_array_equal(weight.numpy(), numbers, weight.path)


@pytest.mark.once
@pytest.mark.parametrize(
    "layer",
    [
        SpanLogits(),
        PaddedPositionIds(),
        RandomPositionIds(),
        RandomPositionIds("exponential"),
        AbacusPositionIds([1]),
        SegmentPositionIds([1]),
    ],
)
def test_the_shape_of_an_output_is_known_without_a_call(layer):
    x = np.ones((2, 5, 8) if type(layer) is SpanLogits else (2, 5), "int32")
    shape = layer.compute_output_shape(x.shape)
    y = layer(x)
    assert shape == (tuple(each.shape for each in y) if type(y) is tuple else y.shape)
    if type(y) is not tuple:  # which Keras' wrapper has no axis for
        assert keras.layers.TimeDistributed(layer)(x[:, None]).shape == (2, 1, *shape[1:])


def causal(offset, **named):
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    offset = offset(ids) if callable(offset) else offset
    table = TokenEmbedding(12, 8, pad_token_id=None)
    x = LearnedPositionEmbedding(20, 8, embeddings_initializer="normal")(table(ids), offset=offset)
    x = PositionalAttention(2, 4)(x, x, use_causal_mask=True, **named)
    return keras.Model(ids, keras.layers.Dense(12)(x))


@pytest.mark.once
def test_positions_that_begin_later_do_so_in_generation():
    model = causal(offset=3)
    prompt = np.array([[5, 7, 2]])
    text = prompt
    for _ in range(5):
        text = np.concatenate([text, model.predict(text, verbose=0)[:, -1:].argmax(-1)], axis=1)
    written = Generator(model, max_length=5).predict({"token_ids": prompt}, verbose=0)
    np.testing.assert_array_equal(written[:, -5:], text[:, -5:])
    with pytest.raises(
        ValueError, match="embeddings with an int as `offset`, and this one is made"
    ):
        Generator(causal(offset=keras.ops.max))
    with pytest.raises(ValueError, match="and the model has 17"):
        Generator(model, max_length=18).predict({"token_ids": prompt}, verbose=0)


def test_a_cache_that_is_full_keeps_no_wrong_number():
    """Where XLA drops the check, as on TensorFlow, the result is NaN."""
    if not backend.TRAITS.drops_assertions:
        pytest.skip("here the check is never dropped")
    import tensorflow as tf

    layer, x = PositionalAttention(2, 4), np.ones((1, 3, 8), "float32")
    layer(x, x)

    @tf.function(jit_compile=True)
    def step(cache, x):
        return layer(x, x, use_causal_mask=True, cache=cache)

    cache = layer.make_cache(1, 2)
    outputs = []
    for place in range(3):
        output, cache = step(cache, tf.constant(x[:, place : place + 1]))
        outputs.append(np.isfinite(output).all())
    assert outputs == [True, True, False]


def test_random_ids_of_a_text_that_is_too_long_are_none_below_zero():
    if not backend.TRAITS.drops_assertions:
        pytest.skip("here the check is never dropped")
    import tensorflow as tf

    for method in ("offset", "pose"):
        layer = RandomPositionIds(method=method, max_position=8)

        @tf.function(jit_compile=True, input_signature=[tf.TensorSpec((None, None, 2))])
        def ids(x, layer=layer):
            return layer(x, training=True)

        found = np.asarray(ids(tf.zeros((2, 12, 2))))
        assert (np.diff(found) > 0).all() and found.min() >= 0 and found.max() >= 8


@pytest.mark.once
def test_ids_that_are_floats_have_a_mask():
    inputs = keras.Input((None,))
    model = keras.Model(inputs, MaskedPooling()(TokenEmbedding(9, 4)(inputs)))
    padded, alone = (model.predict(np.array([row]), verbose=0) for row in ([5, 6, 0, 0], [5, 6]))
    np.testing.assert_allclose(padded, alone, atol=1e-6)


@pytest.mark.once
def test_int8_logits_with_lora():
    layer = TokenEmbedding(12, 8)
    layer.build((None,))
    layer.quantize("int8")
    layer.enable_lora(2)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(12, 2)), rng.normal(size=(2, 8))
    layer.lora_embeddings_a.assign(a)
    layer.lora_embeddings_b.assign(b)
    x = rng.normal(size=(1, 3, 8)).astype("float32")
    rows = ops.convert_to_numpy(layer(np.arange(12)[None]))[0]
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, reverse=True)), x @ rows.T, atol=1e-4)


@pytest.mark.once
def test_encodings_of_a_layer_in_float32_are_too():
    before = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_float16")
        inherited = PositionalAttention(2, 4, encodings=[COPE, "rotary"], dtype="float32")
        given = PositionalAttention(2, 4, encodings=[{**COPE, "dtype": "float16"}], dtype="float32")
    finally:
        keras.config.set_dtype_policy(before)
    assert [e.compute_dtype for e in inherited.encodings] == ["float32", "float32"]
    assert given.encodings[0].compute_dtype == "float16"
    again = PositionalAttention.from_config(inherited.get_config())
    assert [e.compute_dtype for e in again.encodings] == ["float32", "float32"]


@pytest.mark.once
def test_what_layers_would_drop_without_a_word():
    with pytest.raises(ValueError, match="one head: leave `head_norm` out"):
        GatedAttentionUnit(8, 4, head_norm=keras.layers.LayerNormalization())
    with pytest.raises(ValueError, match="one head: leave `num_key_value_heads` out"):
        GatedAttentionUnit(8, 4, num_key_value_heads=1)
    for make in (
        lambda e: LogNAttention(2, 4, encodings=e),
        lambda e: GatedAttentionUnit(8, 4, encodings=e),
    ):
        with pytest.raises(TypeError, match="`encodings` is a list of names"):
            make("rotary")
        with pytest.raises(TypeError, match="`encodings` is a list of names"):
            make({"t5": 1})
    with pytest.raises(ValueError, match="interpolated to at most 262177 positions"):
        InterpolatedPositionEmbedding(8192, 4, max_position=300_000)


@pytest.mark.once
def test_a_clone_of_a_packed_encoder_is_packed(tiny_config):
    packed = build_transformer_model(tiny_config, packed=True)
    with pytest.raises(ValueError, match="the rows of this encoder hold several"):
        classifier(keras.models.clone_model(packed), 2)
