"""Half precision and int8 through whole models, trained, saved and read again."""

import functools
import gc
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.layers.token_embedding import TokenEmbedding
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import classifier
from keras_posenc.models.precision import lower_precision

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(1, 40, (4, 20)).astype("int32")
INPUTS = {"token_ids": TOKENS, "segment_ids": np.zeros_like(TOKENS)}
LABELS = np.arange(4) % 2
Q = keras.quantizers
CONDITION = keras.Input((4,), name="condition")


@pytest.fixture
def mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


def compiled(model, **kwargs):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"], **kwargs)
    return model


def predict(model, inputs=INPUTS):
    return np.asarray(model.predict(inputs, verbose=0), "float32")


def quantized(model, mode="int8"):
    """The model in int8 or int4, without warnings of layers that stay in float32, and of time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have a `quantize` method.*")
        warnings.filterwarnings("ignore", "On a CPU, a model quantized to int8")
        model.quantize(mode)
    return model


def calibrated(model, mode, seed):
    """The model by GPTQ or AWQ, with random calibration data."""
    kind = {"gptq": "GPTQConfig", "awq": "AWQConfig"}[mode]
    if not (hasattr(keras.Model, "get_quantization_layer_structure") and hasattr(Q, kind)):
        pytest.skip(f"Keras {keras.__version__} has no {kind} of models with blocks of any kind")
    texts = np.random.default_rng(seed).integers(1, 40, (4, 20)).astype("int32")
    sizes = {"num_samples": 4, "sequence_length": 20, "group_size": 8}
    config = getattr(Q, kind)(dataset=texts, tokenizer=list, **sizes)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have a `quantize` method.*")
        gc.freeze()  # on PyTorch, Keras collects garbage for each kernel
        model.quantize(config=config)
        gc.unfreeze()
    return model


def dtypes(model):
    return {w.path: keras.backend.standardize_dtype(w.value.dtype) for w in model.weights}


def test_mixed_bfloat16_from_building_to_reading_again(tiny_config, mixed_bfloat16, tmp_path):
    tiny_config["num_hidden_layers"] = 1
    encoder = build_transformer_model(tiny_config, hierarchical_position=True)
    assert encoder.compute_dtype == "bfloat16"
    model = compiled(classifier(encoder, 2))
    losses = model.fit(INPUTS, LABELS, epochs=20, verbose=0).history["loss"]
    assert min(losses) < 0.8 * losses[0]
    assert set(dtypes(model).values()) - {"uint32", "int64"} == {"float32"}
    assert np.isfinite(model.evaluate(INPUTS, LABELS, verbose=0)).all()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[-4].compute_dtype == "bfloat16"
    np.testing.assert_array_equal(predict(again), predict(model))


@pytest.mark.parametrize(
    "options",
    [
        {"hierarchical_position": True},
        pytest.param(
            {"absolute_positions": False, "encodings": ["rotary"]}, marks=pytest.mark.once
        ),
    ],
    ids=["hierarchical", "rotary"],
)
def test_positions_are_not_rounded_to_bfloat16(tiny_config, mixed_bfloat16, options):
    """bfloat16 knows 2032, 2040 and 2048, nothing between them: 2049 would be 2048."""
    tiny_config.update(max_position_embeddings=64, initializer_range=0.2, hidden_size=32)
    half = build_transformer_model(tiny_config, custom_position_ids=True, **options)
    keras.config.set_dtype_policy("float32")
    full = build_transformer_model(tiny_config, custom_position_ids=True, **options)
    full.set_weights(half.get_weights())
    ids = np.arange(2030, 2050, dtype="int32")[None]
    rounded = ops.convert_to_numpy(ops.cast(ops.cast(ids, "bfloat16"), "int32"))
    assert set(rounded[0]) == {2032, 2040, 2048}

    def features(model, ids):
        tokens = np.tile(TOKENS[:1], (len(ids), 1))
        inputs = {"token_ids": tokens, "segment_ids": 0 * tokens, "position_ids": ids}
        return predict(model, inputs)

    expected, wrong = features(full, np.concatenate([ids, rounded]))
    (found,) = features(half, ids)
    assert np.linalg.norm(found - expected) < 0.3 * np.linalg.norm(wrong - expected)


COPE = {"name": "cope", "gate": "separate_keys"}  # with a dense layer of its own


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.once),
        {"application": "lm", "with_mlm": "linear", "encodings": [COPE]},
    ],
    ids=["classifier", "language model with a tied head"],
)
def test_int8_is_close_and_read_again_the_same(tiny_config, options, tmp_path):
    tiny_config.update(num_hidden_layers=1, initializer_range=0.3)
    model = build_transformer_model(tiny_config, hierarchical_position=True, **options)
    model = model if options else classifier(model, 2)
    before = predict(model)
    after = predict(quantized(model))
    assert 0 < np.abs(after - before).max() < 0.05 * np.abs(before).max()
    kept = dtypes(model)
    large = [path for path in kept if path.endswith(("/kernel", "/embeddings"))]
    assert len(large) == 3 + 4 + 2 + 1 + 2 * bool(options)
    float32 = {path for path in large if kept[path] != "int8"}
    cope = {"Transformer-0-MultiHeadSelfAttention/encoding_0/embeddings"} if options else set()
    assert float32 == {"Embedding-Position/embeddings"} | cope
    for name in ("first.keras", "second.keras"):  # what was read can be written
        model.save(tmp_path / name)
        model = keras.saving.load_model(tmp_path / name)
        assert dtypes(model) == kept
    np.testing.assert_array_equal(predict(model), after)


def test_tokens_are_scored_by_the_table_that_int8_left():
    """Of the tied output projection too, the scores are those of the rows as they are read."""
    table = TokenEmbedding(40, 16)
    table.build()
    table.quantize("int8")
    assert keras.backend.standardize_dtype(table.embeddings.dtype) == "int8"
    rows = ops.convert_to_numpy(table(np.arange(40)))
    x = RNG.normal(size=(2, 3, 16)).astype("float32")
    scores = ops.convert_to_numpy(table(x, reverse=True))
    np.testing.assert_allclose(scores, x @ rows.T, atol=1e-5)


@pytest.mark.once
def test_int4_takes_less_space_than_int8(tiny_config, tmp_path):
    """The token table, most of a small model, is int8 in both."""
    sizes_of_matrices = {"vocab_size": 4000, "hidden_size": 128, "intermediate_size": 512}
    sizes = {}
    for mode in ("int8", "int4"):
        model = build_transformer_model(tiny_config | sizes_of_matrices, hierarchical_position=True)
        model = quantized(model, mode)
        after = predict(model)
        path = tmp_path / f"{mode}.keras"
        model.save(path)
        again = keras.saving.load_model(path)
        np.testing.assert_array_equal(predict(again), after)
        assert dtypes(again)["Embedding-Token/embeddings"] == "int8"
        sizes[mode] = path.stat().st_size
    assert sizes["int4"] < sizes["int8"]


@pytest.mark.once
@pytest.mark.parametrize("mode", ["int8", "int4", "gptq", "awq"])
def test_a_quantized_model_of_texts_is_read_again_the_same(pretrained, mode, tmp_path):
    from keras_posenc import TextModel, Tokenizer, load_text_model

    model = classifier(build_transformer_model(pretrained, hierarchical_position=True), 2)
    calibrating = mode in ("gptq", "awq")
    model = calibrated(model, mode, 0) if calibrating else quantized(model, mode)
    texts = TextModel(model, Tokenizer(pretrained), max_length=16, label_names=["a", "b"])
    texts.save(tmp_path / "texts")
    again = load_text_model(tmp_path / "texts")
    given = ["the whale", "the boat was late"]
    np.testing.assert_array_equal(again.predict(given), texts.predict(given))
    # Its numbers are no checkpoint's, whatever it is opened as.
    with pytest.raises(ValueError, match="Quantized weights are not read: take the checkpoint"):
        build_transformer_model(pretrained, tmp_path / "texts" / "model.keras")


@pytest.mark.once
def test_other_modes_leave_the_tied_table_alone():
    table = TokenEmbedding(40, 16)
    table.build()
    with pytest.raises(NotImplementedError, match="does not have a `quantize` method"):
        table.quantize("float8")


@pytest.mark.once
@pytest.mark.parametrize("mode", ["gptq", "awq"])
def test_calibration_data_decide_what_is_rounded(tiny_config, mode, tmp_path):
    """As files are read and written again too."""
    set_random_seed(0)
    tiny_config.update(num_hidden_layers=1, initializer_range=0.3)
    build = functools.partial(build_transformer_model, tiny_config, hierarchical_position=True)
    model = classifier(build(), 2)
    kernels = []
    for seed in (0, 1):
        other = classifier(build(), 2)
        other.set_weights(model.get_weights())
        other = calibrated(other, mode, seed)
        kernels.append([w.numpy() for w in other.weights if w.dtype == "uint8"])
        assert len(kernels[-1]) == 2 * 6  # numbers and zero points
    assert any((a != b).any() for a, b in zip(*kernels, strict=True))
    before, after, kept = predict(model), predict(other), dtypes(other)
    assert 0 < np.abs(after - before).max() < 0.3 * np.abs(before).max()
    assert kept["Embedding-Token/embeddings"] == "int8"
    assert kept["Classifier/kernel"] == "float32"
    for name in ("first.keras", "second.keras"):
        other.save(tmp_path / name)
        other = keras.saving.load_model(tmp_path / name)
        assert dtypes(other) == kept
    np.testing.assert_array_equal(predict(other), after)


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual_attention_scores": True}, "Transformer-1-MultiHeadSelfAttention reads 2"),
        (
            {"layer_norm_cond": CONDITION, "additional_input_layers": CONDITION},
            "inputs of this model are .*condition",
        ),
    ],
)
def test_models_that_pass_more_from_block_to_block_are_not_calibrated(
    tiny_config, options, message
):
    model = build_transformer_model(tiny_config | {"num_hidden_layers": 2}, **options)
    with pytest.raises(ValueError, match=f"(?s){message}.*int8 or int4 instead"):
        model.get_quantization_layer_structure("gptq")


@pytest.mark.once
def test_a_model_without_blocks_is_not_calibrated(tiny_config):
    model = build_transformer_model(tiny_config | {"num_hidden_layers": 0})
    with pytest.raises(ValueError, match="no layers of a name like Transformer-0"):
        model.get_quantization_layer_structure("awq")
    assert model.get_quantization_layer_structure("int8") is None


@pytest.mark.once
@pytest.mark.parametrize("family", ["roberta", "albert", "deberta"])
def test_blocks_one_by_one_give_the_features_of_the_model(tiny_config, family):
    """What a block reads besides features (ids, shared tables) is the same for each."""
    options = {
        "roberta": {"padded_positions": True},
        "albert": {"num_hidden_groups": 1},
        "deberta": {},
    }[family]
    encodings = ["deberta"] if family == "deberta" else None
    config = tiny_config | {"num_hidden_layers": 3, "initializer_range": 0.3} | options
    model = build_transformer_model(config, encodings=encodings, hierarchical_position=True)
    parts = model.get_quantization_layer_structure("gptq")
    (x,) = [layer(TOKENS[:1]) for layer in parts["pre_block_layers"]]
    for block in parts["sequential_blocks"]:
        x = block(x)
    assert len(parts["sequential_blocks"]) == (1 if family == "albert" else 3)
    expected = model({name: x[:1] for name, x in INPUTS.items()})
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (x, expected)), atol=1e-5)


@pytest.mark.parametrize("wrong", ["FLOAT32", "fp32", "bfloat16"])
def test_an_unknown_precision_of_the_environment_is_refused(wrong, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    monkeypatch.setenv("KERAS_POSENC_PRECISION", wrong)
    expected = f"KERAS_POSENC_PRECISION must be float32, or unset .* Received: '{wrong}'"
    with pytest.raises(ValueError, match=expected), lower_precision(model):
        pass
    for given in ("float32", ""):
        monkeypatch.setenv("KERAS_POSENC_PRECISION", given)
        with lower_precision(model):
            assert model.predict_on_batch(np.ones((1, 2))).dtype == "float32"
