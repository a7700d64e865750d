import json

import keras
import numpy as np
import oracles
import pytest
from keras import ops

from keras_posenc import PositionalAttention, build_transformer_model, save_checkpoint
from keras_posenc.heads import classifier

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def fresh_numbers():
    """The same random numbers in every test, whichever ran before."""
    global RNG
    RNG = np.random.default_rng(0)


def batch(length=10, size=2, vocabulary=40):
    token_ids = RNG.integers(1, vocabulary, (size, length)).astype("int32")
    segment_ids = (np.arange(length) >= length // 2).astype("int32")[None].repeat(size, 0)
    return [token_ids, segment_ids]


def predict(model, inputs):
    """The model's outputs, without the compilation that `predict` would pay for every model."""
    outputs = model(inputs, training=False)
    if isinstance(outputs, (list, tuple)):
        return [ops.convert_to_numpy(x) for x in outputs]
    return ops.convert_to_numpy(outputs)


def shuffle_weights(model):
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(RNG.normal(size=weight.shape) * 0.3)


@pytest.mark.once
def test_inputs_go_by_name_or_by_order(tiny_config):
    model = build_transformer_model(tiny_config, custom_position_ids=True)
    assert [x.name for x in model.inputs] == ["token_ids", "segment_ids", "position_ids"]
    tokens, segments = batch()
    ids = np.arange(10, dtype="int32")[None].repeat(2, 0)
    by_name = {"token_ids": tokens, "segment_ids": segments, "position_ids": ids}
    by_order = model.predict([tokens, segments, ids], verbose=0)
    np.testing.assert_array_equal(by_order, model.predict(by_name, verbose=0))
    np.testing.assert_allclose(predict(model, by_name), by_order, atol=1e-5)


@pytest.mark.once
def test_layer_names_are_bert4keras_names(tiny_config):
    transformer = build_transformer_model(
        {**tiny_config, "hidden_dropout_prob": 0.1},
        with_nsp=True,
        with_mlm=True,
        return_keras_model=False,
    )
    block = ["", "-Dropout", "-Add", "-Norm"]
    names = [
        "Embedding-Token",
        "Embedding-Segment",
        "Embedding-Token-Segment",
        "Embedding-Position",
    ]
    names += ["Embedding-Norm", "Embedding-Dropout"]
    for i in range(2):
        names += [f"Transformer-{i}-MultiHeadSelfAttention{part}" for part in block]
        names += [f"Transformer-{i}-FeedForward{part}" for part in block]
    names += ["Pooler-Dense", "NSP-Proba", "MLM-Dense", "MLM-Norm", "MLM-Bias", "MLM-Activation"]
    assert set(transformer.layers) == set(names)
    assert isinstance(transformer.model.get_layer(names[6]), PositionalAttention)


@pytest.mark.once
@pytest.mark.parametrize(
    "heads, shapes",
    [
        ({}, [(2, 10, 16)]),
        ({"with_pool": True}, [(2, 16)]),
        ({"with_nsp": True}, [(2, 2)]),
        ({"with_mlm": True}, [(2, 10, 40)]),
        ({"with_pool": True, "with_mlm": "linear"}, [(2, 16), (2, 10, 40)]),
        ({"with_nsp": True, "with_mlm": True, "with_pool": True}, [(2, 2), (2, 10, 40)]),
    ],
)
def test_outputs_are_bert4keras_outputs(tiny_config, heads, shapes):
    outputs = predict(build_transformer_model(tiny_config, **heads), batch())
    outputs = outputs if isinstance(outputs, list) else [outputs]
    assert [x.shape for x in outputs] == shapes
    if heads.get("with_mlm") is True:
        np.testing.assert_allclose(outputs[-1].sum(-1), 1, atol=1e-5)
    if heads.get("with_nsp"):
        np.testing.assert_allclose(outputs[0].sum(-1), 1, atol=1e-5)


@pytest.mark.once
def test_activations_of_heads_can_be_named(tiny_config):
    model = build_transformer_model(tiny_config, with_pool="linear")
    shuffle_weights(model)
    assert np.abs(predict(model, batch())).max() > 1
    function = build_transformer_model(tiny_config, with_mlm=keras.activations.sigmoid)
    np.testing.assert_allclose(predict(function, batch()), 0.5, atol=0.1)


@pytest.mark.once
def test_keywords_alone_may_say_rows_and_reach(tiny_config):
    tiny_config.pop("model_type")
    model = build_transformer_model(**tiny_config, max_position=20, extension="fresh")
    layer = model.get_layer("Embedding-Position")
    assert (layer.embeddings.shape, layer.fresh.shape) == ((12, 16), (8, 16))


@pytest.mark.parametrize("stretch", ["hierarchical", "tile", "interpolate", "fresh"])
def test_every_stretch_serves_long_inputs(tiny_config, stretch):
    model = build_transformer_model(tiny_config, extension=stretch, max_position=60)
    assert predict(model, batch(60)).shape == (2, 60, 16)
    layer = model.get_layer("Embedding-Position")
    assert layer.embeddings.shape == (12, 16)


@pytest.mark.once
def test_the_row_of_the_first_token_may_be_kept_for_it(tiny_config):
    model = build_transformer_model(tiny_config, extension="hierarchical:0.2,kept_rows=1")
    layer = model.transformer.layers["Embedding-Position"]
    table = ops.convert_to_numpy(layer.embeddings)
    rows = ops.convert_to_numpy(layer.rows(ops.arange(60)))
    np.testing.assert_allclose(rows[1:], oracles.hierarchical(table[1:], 0.2, range(59)), atol=1e-5)


@pytest.mark.once
def test_hierarchical_position_gives_alpha(tiny_config):
    model = build_transformer_model(tiny_config, hierarchical_position=0.2)
    layer = model.get_layer("Embedding-Position")
    layer.embeddings.assign(RNG.normal(size=(12, 16)))
    rows = ops.convert_to_numpy(layer.rows(ops.arange(144)))
    table = ops.convert_to_numpy(layer.embeddings)
    np.testing.assert_allclose(rows, oracles.hierarchical(table, 0.2, range(144)), atol=1e-5)
    assert (
        build_transformer_model(tiny_config, hierarchical_position=True)
        .get_layer("Embedding-Position")
        .alpha
        == 0.4
    )
    for same in ({"hierarchical_position": 0.2}, {"extension": "hierarchical:0.2"}):
        model = build_transformer_model(tiny_config, **same)
        assert model.get_layer("Embedding-Position").alpha == 0.2
    for off in (False, None):
        plain = build_transformer_model(tiny_config, hierarchical_position=off)
        with pytest.raises(Exception, match="positions run from 0 to 11"):
            predict(plain, batch(13))


@pytest.mark.once
def test_padding_changes_nothing_visible(tiny_config):
    model = build_transformer_model(tiny_config, with_mlm="linear")
    shuffle_weights(model)
    tokens, segments = batch(8)
    padded = [np.pad(x, [(0, 0), (0, 3)]) for x in (tokens, segments)]
    np.testing.assert_allclose(
        predict(model, padded)[:, :8], predict(model, [tokens, segments]), atol=1e-5
    )


@pytest.mark.once
def test_padding_id_is_the_configs(tiny_config):
    tiny_config["pad_token_id"] = 5
    model = build_transformer_model(tiny_config)
    shuffle_weights(model)
    tokens, segments = batch(8)
    tokens[tokens == 5] = 6
    pad = np.full((2, 3), 5, "int32")
    padded = [np.concatenate([tokens, pad], 1), np.pad(segments, [(0, 0), (0, 3)])]
    np.testing.assert_allclose(
        predict(model, padded)[:, :8], predict(model, [tokens, segments]), atol=1e-5
    )


def test_a_language_model_does_not_see_ahead(tiny_config):
    model = build_transformer_model(tiny_config, application="lm", with_mlm="linear")
    shuffle_weights(model)
    tokens, segments = batch()
    changed = tokens.copy()
    changed[:, 6:] = 39 - changed[:, 6:] % 30
    before, after = predict(model, [tokens, segments]), predict(model, [changed, segments])
    np.testing.assert_allclose(before[:, :6], after[:, :6], atol=1e-5)
    assert np.abs(before[:, 6:] - after[:, 6:]).max() > 1e-3


def test_unilm_sees_its_prompt_whole_and_its_answer_so_far(tiny_config):
    model = build_transformer_model(tiny_config, application="unilm", with_mlm="linear")
    shuffle_weights(model)
    tokens, segments = batch()  # a prompt of 5, an answer of 5

    def moved(position):
        changed = tokens.copy()
        changed[:, position] = changed[:, position] % 39 + 1
        difference = predict(model, [tokens, segments]) - predict(model, [changed, segments])
        return np.abs(difference).max((0, 2)) > 1e-4

    np.testing.assert_array_equal(moved(4), [True] * 10)
    np.testing.assert_array_equal(moved(7), [False] * 7 + [True] * 3)


def test_a_condition_moves_every_norm(tiny_config):
    condition = keras.Input((3,), name="condition")
    model = build_transformer_model(
        tiny_config,
        layer_norm_cond=condition,
        layer_norm_cond_hidden_size=4,
        layer_norm_cond_hidden_act="relu",
        additional_input_layers=condition,
    )
    plain = build_transformer_model(tiny_config)
    for layer in plain.layers:
        if layer.weights and not layer.name.endswith("Norm"):
            model.get_layer(layer.name).set_weights(layer.get_weights())
    c = RNG.normal(size=(2, 3)).astype("float32")
    inputs = batch()
    np.testing.assert_allclose(predict(model, [*inputs, c]), predict(plain, inputs), atol=1e-5)
    shuffle_weights(model)
    assert np.abs(predict(model, [*inputs, c]) - predict(model, [*inputs, -c])).max() > 1e-3


@pytest.mark.once
def test_residual_scores_are_cumulative(tiny_config):
    """RealFormer: layer i's logits are the sum of all layers' up to i."""
    tiny_config["num_hidden_layers"] = 3
    model = build_transformer_model(tiny_config, residual_attention_scores=True)
    shuffle_weights(model)
    names = [f"Transformer-{i}-MultiHeadSelfAttention" for i in range(3)]
    inner = keras.Model(
        model.inputs,
        [
            x
            for name in names
            for x in (model.get_layer(name).output[1], model.get_layer(name).input[0])
        ],
    )
    results = predict(inner, batch())
    total = 0
    for i, name in enumerate(names):
        logits, x = results[2 * i], results[2 * i + 1]
        layer = model.get_layer(name)
        block_logits = layer(x, x, return_attention_logits=True)[1]
        total = total + ops.convert_to_numpy(block_logits)
        np.testing.assert_allclose(logits, total, rtol=1e-4, atol=1e-3)


@pytest.mark.once
def test_caches_are_attended_to_and_shared_layers_are_the_same(tiny_config):
    first = build_transformer_model(tiny_config, return_keras_model=False)
    shuffle_weights(first.model)
    prefix = keras.Input((None, 16), name="prefix")
    caches = {"Transformer-0-MultiHeadSelfAttention": [prefix, prefix]}
    second = build_transformer_model(
        tiny_config,
        layers=first.layers,
        attention_caches=caches,
        additional_input_layers=[prefix],
        prefix="b-",
    )
    assert [x.name for x in second.inputs] == ["b-token_ids", "b-segment_ids", "prefix"]
    inputs = batch()
    none = predict(second, [*inputs, np.zeros((2, 0, 16), "float32")])
    np.testing.assert_allclose(none, predict(first.model, inputs), atol=1e-5)
    some = predict(second, [*inputs, RNG.normal(size=(2, 2, 16)).astype("float32")])
    assert np.abs(some - none).max() > 1e-3


@pytest.mark.once
def test_sizes_of_every_kind(tiny_config):
    model = build_transformer_model(
        tiny_config,
        embedding_size=6,
        attention_head_size=5,
        attention_key_size=3,
        hidden_act=["gelu", "linear"],
        segment_vocab_size=0,
        sequence_length=7,
        with_mlm=True,
    )
    assert model.input_shape in ((None, 7), [(None, 7)])
    assert model.output_shape == (None, 7, 40)
    attention = model.get_layer("Transformer-0-MultiHeadSelfAttention")
    assert attention.query_dense.kernel.shape == (16, 2, 3)
    assert attention.value_dense.kernel.shape == (16, 2, 5)
    assert model.get_layer("Embedding-Mapping").kernel.shape == (6, 16)
    assert predict(model, [batch(7)[0]]).shape == (2, 7, 40)


@pytest.mark.once
def test_shared_segments_are_looked_up_among_the_tokens(tiny_config):
    model = build_transformer_model(tiny_config, shared_segment_embeddings=True)
    assert "Embedding-Segment" not in model.transformer.layers
    tokens, segments = batch()
    assert (
        np.abs(predict(model, [tokens, segments]) - predict(model, [tokens, segments + 7])).max()
        > 0
    )


@pytest.mark.once
def test_weights_start_at_the_configs_range(tiny_config):
    tiny_config.update(initializer_range=0.5, vocab_size=2000)
    model = build_transformer_model(tiny_config)
    table = ops.convert_to_numpy(model.get_layer("Embedding-Token").embeddings)
    assert 0.4 < table.std() < 0.5  # a normal cut at two deviations has 0.88 of them


def test_what_is_loaded_is_not_drawn_first_and_a_clone_is_drawn(tiny_config, tmp_path):
    source = build_transformer_model(tiny_config, with_mlm=True)
    save_checkpoint(source, tmp_path)
    loaded = build_transformer_model(tmp_path, with_mlm=True, extension="fresh", max_position=20)
    positions = loaded.get_layer("Embedding-Position")
    assert ops.convert_to_numpy(positions.fresh).std() > 0.01
    np.testing.assert_array_equal(predict(loaded, (x := batch())), predict(source, x))
    clone = keras.models.clone_model(loaded)
    for weight in clone.weights:
        if weight.path.endswith(("kernel", "embeddings")):
            assert ops.convert_to_numpy(weight).std() > 0.01, weight.path
    with pytest.raises(ValueError, match="Pooler-Dense"):
        keras.utils.set_random_seed(1)
        headless = build_transformer_model(tiny_config, prefix="x-")
        save_checkpoint(headless, tmp_path / "headless")
        build_transformer_model(tmp_path / "headless", with_pool=True)
    kept = build_transformer_model(
        tmp_path / "headless", with_pool=True, ignore_invalid_weights=True
    )
    assert ops.convert_to_numpy(kept.get_layer("Pooler-Dense").kernel).std() > 0.01
    assert "Pooler-Dense/kernel" in str(kept.transformer.account)


@pytest.mark.once
def test_tokens_kept_and_compounded(tiny_config, minilm):
    keep = [0, 100, 101, 102, 2003, 2004]
    model = build_transformer_model(
        minilm, keep_tokens=keep, compound_tokens=[[4, 5], ([4, 5], [3, 1])]
    )
    full = build_transformer_model(minilm)
    table = ops.convert_to_numpy(full.get_layer("Embedding-Token").embeddings)
    kept = ops.convert_to_numpy(model.get_layer("Embedding-Token").embeddings)
    np.testing.assert_array_equal(kept[:6], table[keep])
    np.testing.assert_allclose(kept[6], (table[2003] + table[2004]) / 2, atol=1e-6)
    np.testing.assert_allclose(kept[7], 0.75 * table[2003] + 0.25 * table[2004], atol=1e-6)
    ours = np.array([[2, 4, 5, 3, 0]], "int32")
    reference = np.array([[101, 2003, 2004, 102, 0]], "int32")
    zeros = np.zeros_like(ours)
    np.testing.assert_allclose(
        predict(model, [ours, zeros])[:, :4], predict(full, [reference, zeros])[:, :4], atol=1e-5
    )


@pytest.mark.once
def test_a_stretched_minilm_keeps_its_first_512_positions_to_the_bit(minilm):
    plain = build_transformer_model(minilm)
    long = build_transformer_model(minilm, hierarchical_position=True)
    inputs = [RNG.integers(1000, 20000, (1, 512)).astype("int32"), np.zeros((1, 512), "int32")]
    np.testing.assert_array_equal(predict(plain, inputs), predict(long, inputs))
    longer = [np.tile(x, (1, 2)) for x in inputs]
    assert np.isfinite(predict(long, longer)).all()
    assert "101 loaded" in long.transformer.account.summary()


@pytest.mark.once
def test_config_and_checkpoint_may_be_given_apart(minilm):
    one = build_transformer_model(
        minilm / "config.json", minilm / "model.safetensors", with_pool=True
    )
    two = build_transformer_model(minilm, with_pool=True)
    inputs = [np.array([[101, 2023, 102]], "int32"), np.zeros((1, 3), "int32")]
    np.testing.assert_array_equal(predict(one, inputs), predict(two, inputs))


def test_fit_save_reload(tiny_config, tmp_path):
    tiny_config.update(
        num_hidden_layers=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    model = classifier(build_transformer_model(tiny_config, hierarchical_position=True), 3)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(batch(30, 8), np.arange(8) % 3, batch_size=4, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    inputs = batch(30)
    np.testing.assert_array_equal(predict(model, inputs), predict(again, inputs))
    again.fit(batch(30, 8), np.arange(8) % 3, batch_size=4, verbose=0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_pooling_reads_the_real_tokens_only(tiny_config, pooling):
    encoder = build_transformer_model(tiny_config)
    shuffle_weights(encoder)
    model = classifier(encoder, 3, pooling=pooling)
    tokens, segments = batch(8)
    padded = [np.pad(x, [(0, 0), (0, 3)]) for x in (tokens, segments)]
    short = predict(model, [tokens, segments])
    np.testing.assert_allclose(predict(model, padded), short, atol=1e-5)
    features = predict(encoder, [tokens, segments])
    pooled = {"mean": features.mean(1), "max": features.max(1)}
    pooled = {**pooled, "cls": features[:, 0], "last": features[:, -1]}[pooling]
    kernel, bias = model.get_layer("Classifier").get_weights()
    np.testing.assert_allclose(short, pooled @ kernel + bias, atol=1e-4)


@pytest.mark.once
def test_roberta_in_googles_layout_is_bert(tiny_config):
    tiny_config["model_type"] = "bert"
    model = build_transformer_model(tiny_config, model="roberta")
    assert model.get_layer("Embedding-Position").input_dim == 12


@pytest.mark.once
def test_errors_name_the_value_and_the_remedy(tiny_config, tmp_path, minilm):
    def refused(error, message, *args, **kwargs):
        with pytest.raises(error, match=message):
            build_transformer_model(*args, **kwargs)

    refused(ValueError, "Unknown model 'brt': did you mean 'bert'?", tiny_config, model="brt")
    caches = {"Transformer-0-MultiHeadSelfAttention": [1, 2]}
    refused(
        ValueError, 'go with application="encoder"',
        tiny_config, application="lm", attention_caches=caches,
    )  # fmt: skip
    wrong = {"Transformer-0-FeedForward": [1, 2]}
    refused(ValueError, "did you mean 'Transformer-.-Mul", tiny_config, attention_caches=wrong)
    alone = {"Transformer-0-MultiHeadSelfAttention": 1}
    refused(ValueError, r"must be \[K, V\].*Received: 1", tiny_config, attention_caches=alone)
    shared = build_transformer_model(tiny_config, return_keras_model=False).layers
    refused(
        ValueError, "`layers` brings a LearnedPositionEmbedding.*leave Embedding-Position out",
        tiny_config, layers=shared, hierarchical_position=True,
    )  # fmt: skip
    roberta = {**tiny_config, "model_type": "roberta", "pad_token_id": None}
    refused(ValueError, "give `pad_token_id`", roberta, model="roberta")
    refused(ValueError, "Unknown model 5: .*FAMILIES. lists", tiny_config, model=5)
    refused(ValueError, "`application` must be one of", tiny_config, application="decoder")
    refused(
        TypeError, "no argument 'with_mml': did you mean 'with_mlm'?", tiny_config, with_mml=True
    )
    refused(
        TypeError, "did you mean 'hierarchical_position'?", tiny_config, hierarchical_positions=True
    )
    refused(TypeError, "did you mean 'dropout_rate'?", tiny_config, dropout_rates=0.1)
    refused(
        TypeError, "`autoresize_weights` is not supported", tiny_config, autoresize_weights=True
    )
    refused(
        ValueError, "Only absolute positions", tiny_config, position_embedding_type="relative_key"
    )
    refused(
        ValueError,
        "`alpha` must be a number above 0 and below 1",
        tiny_config,
        hierarchical_position=1.2,
    )
    refused(ValueError, "must not be 0.5", tiny_config, hierarchical_position=0.5)
    refused(
        ValueError, "`extension` or `hierarchical_position`, not both. Received: extension='tile'",
        tiny_config, extension="tile", hierarchical_position=True,
    )  # fmt: skip
    refused(ValueError, "`extension` must be one of", tiny_config, extension="pad")
    refused(ValueError, "stretch='fresh' needs `max_position`", tiny_config, extension="fresh")
    refused(ValueError, "out of reach", tiny_config, hierarchical_position=True, max_position=145)
    refused(
        ValueError, "answer by segments", tiny_config, application="unilm", segment_vocab_size=0
    )
    refused(ValueError, "`keep_tokens` has 40, but the ids of 40", tiny_config, keep_tokens=[0, 40])
    refused(ValueError, "must keep the padding token, 0", tiny_config, keep_tokens=[1, 2])
    strange = {"model_type": "xlnet", "attention_dropout": 0.1, "n_layer": 3}
    refused(ValueError, "^model_type 'xlnet' is not supported: ", strange)
    refused(
        ValueError, "model='bert' cannot hold a checkpoint of model_type .xlnet.: .*lists",
        strange, model="bert",
    )  # fmt: skip
    fairseq = {**tiny_config, "model_type": "xlm-roberta"}
    refused(ValueError, "give model='roberta'", fairseq, model="bert")
    (tmp_path / "config.json").write_text(json.dumps(tiny_config))
    refused(FileNotFoundError, "holds no checkpoint", tmp_path)
    refused(ValueError, "(?s)Embedding-Position.*stretch", minilm, max_position=1024)
    with pytest.raises(
        ValueError, match="`num_classes` must be an integer of at least 2. Received: 1"
    ):
        classifier(build_transformer_model(tiny_config), 1)
    with pytest.raises(ValueError, match="encoder without heads"):
        classifier(build_transformer_model(tiny_config, with_pool=True), 2)
    with pytest.raises(ValueError, match="`pooling` must be one of .*'mean'.*Received: 'sum'"):
        classifier(build_transformer_model(tiny_config), 2, pooling="sum")
