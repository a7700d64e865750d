"""A short convolution: its numbers, what it sees, and padding."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import Generator, build_transformer_model
from keras_posenc.layers.short_convolution import ShortConvolution

LFM2 = {
    "model_type": "lfm2",
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 12,
    "block_multiple_of": 4,
    "layer_types": ["conv", "full_attention"],
}


def test_a_token_reads_itself_and_those_before():
    keras.utils.set_random_seed(0)
    layer = ShortConvolution(3)
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    found = ops.convert_to_numpy(layer(x))
    gates, kernel, outer = (
        np.float64(ops.convert_to_numpy(w))
        for w in (layer.gates.kernel, layer.conv_kernel, layer.outer.kernel)
    )
    before, after, inner = np.split(np.float64(x) @ gates, 3, axis=-1)
    summed = np.zeros_like(inner)
    for t in range(6):
        for k in range(max(0, 2 - t), 3):
            summed[:, t] += kernel[k, 0] * (before * inner)[:, t + k - 2]
    np.testing.assert_allclose(found, (after * summed) @ outer, atol=1e-5)
    real = np.array([[False, False, True, True, True, True]] * 2)
    alone = ops.convert_to_numpy(layer(x[:, 2:]))
    for noise in (0, np.nan, np.inf):
        x[:, :2] = noise
        padded = ops.convert_to_numpy(layer(x, mask=ops.convert_to_tensor(real)))
        np.testing.assert_allclose(padded[:, 2:], alone, atol=1e-6)


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")
@pytest.mark.filterwarnings("ignore:On a CPU, a model quantized to int8")
def test_a_quantized_model_is_saved(tmp_path):
    model = build_transformer_model(LFM2)
    model.quantize("int8")
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    ids = np.array([[3, 4, 5, 6]])
    before, after = (m.predict(ids, verbose=0) for m in (model, again))
    np.testing.assert_array_equal(before, after)


def test_a_map_may_give_its_projections_another_precision():
    policies = keras.dtype_policies.DTypePolicyMap("float32")
    policies["conv/.*"] = keras.DTypePolicy("mixed_bfloat16")
    layer = ShortConvolution(3, dtype=policies, name="conv")
    x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
    output = keras.ops.convert_to_numpy(keras.ops.cast(layer(x), "float32"))
    exact = ShortConvolution(3)
    exact.build(x.shape)
    exact.set_weights(layer.get_weights())
    np.testing.assert_allclose(output, keras.ops.convert_to_numpy(exact(x)), atol=0.05)


@pytest.mark.once
def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="`kernel_size` must be a positive integer. Received: 0"):
        ShortConvolution(0)
    with pytest.raises(ValueError, match="LFM2 reads the tokens before, so `packed` rows"):
        build_transformer_model(LFM2, packed=True)
    with pytest.raises(ValueError, match="`layer_types` must name 2 layers, each 'conv' or"):
        build_transformer_model({**LFM2, "layer_types": ["conv", "sliding_attention"]})
    with pytest.raises(ValueError, match="conv_bias"):
        build_transformer_model({**LFM2, "conv_bias": True})
    with pytest.raises(ValueError, match="ShortConvolution. may look at other tokens, which it"):
        Generator(build_transformer_model(LFM2, with_mlm="linear"))
    older = {k: v for k, v in LFM2.items() if k not in ("layer_types", "intermediate_size")}
    model = build_transformer_model({**older, "block_ff_dim": 30, "full_attn_idxs": [1]})
    config = model.transformer.config
    assert (config.convolutions, config.intermediate_size) == ((3, 0), 20)
