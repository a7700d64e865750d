"""One table for the encodings of several attention layers."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import (
    ContextualPositionEmbedding,
    GatedAttentionUnit,
    PositionalAttention,
    SharedTable,
    build_transformer_model,
)
from keras_posenc.checkpoints.names import is_fresh
from keras_posenc.encodings import ALiBi, T5Bias

B, T, H, D, E = 2, 7, 2, 4, 6
X = np.random.default_rng(0).normal(size=(B, T, E)).astype("float32")
Y = np.random.default_rng(1).normal(size=(B, T, E)).astype("float32")
ENCODINGS = [
    {"name": "cope", "npos_max": 3, "gate": "separate_keys"},
    {"name": "t5", "num_buckets": 8, "max_distance": 5},
]
SHAPES = [(D, 3), (8, H)]


def numpy(x):
    return ops.convert_to_numpy(x)


def stacked(shared):
    """Two attention layers over the same two tables, or each with its own."""
    specs = [{**spec, "shared": shared} for spec in ENCODINGS]
    x = keras.Input((None, E))
    tables = [SharedTable(spec, H, D)(x) for spec in specs] if shared else None
    y = x
    for i in range(2):
        layer = PositionalAttention(H, D, encodings=specs, name=f"attention_{i}")
        y = y + layer(y, y, use_causal_mask=True, tables=tables)
    return keras.Model(x, y)


def filled(model):
    """The model with random weights, the same in each table of one shape."""
    rng = np.random.default_rng(2)
    for weight in sorted(model.weights, key=lambda w: w.path):
        draw = np.random.default_rng(3) if tuple(weight.shape) in SHAPES else rng
        weight.assign(draw.normal(size=weight.shape) * 0.5)
    return model


def tables_of(model, shape):
    return [w for w in model.trainable_weights if tuple(w.shape) == shape]


@pytest.mark.once
def test_layers_share_one_table_and_its_gradients_add_up(tmp_path):
    shared, apart = (filled(stacked(x)) for x in (True, False))
    starts = [numpy(tables_of(shared, shape)[0]) for shape in SHAPES]
    losses = []
    for model in (shared, apart):
        model.compile(keras.optimizers.SGD(1.0), "mse")
        losses += model.fit(X, Y, batch_size=B, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for shape, start in zip(SHAPES, starts, strict=True):
        (step,) = (numpy(w) - start for w in tables_of(shared, shape))
        steps = [numpy(w) - start for w in tables_of(apart, shape)]
        assert len(steps) == 2 and min(np.abs(step).max() for step in steps) > 1e-4
        np.testing.assert_allclose(step, sum(steps), atol=1e-5)
    # The whole model comes back, and goes on learning; a clone has weights of its own.
    shared.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.weights) == len(shared.weights)
    losses = [model.fit(X, Y, batch_size=B, verbose=0).history["loss"] for model in (shared, again)]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    clone = keras.models.clone_model(shared)
    assert [w.path for w in clone.weights] == [w.path for w in shared.weights]
    assert not {id(w) for w in clone.weights} & {id(w) for w in shared.weights}


@pytest.mark.once
def test_a_model_shares_tables_by_config(tmp_path, tiny_config):
    def specs(*sizes):
        return [[{"name": "t5", "num_buckets": n, "shared": True}] for n in sizes]

    model = build_transformer_model(
        tiny_config, num_hidden_layers=3, encodings=specs(8, 32, 8), dropout_rate=0.0
    )
    paths = [w.path for w in model.weights if "encoding_" in w.path or "Shared" in w.path]
    assert paths == [f"Embedding-Position-Shared-{i}/table" for i in range(2)]
    tokens = np.random.default_rng(0).integers(1, 40, (2, 10)).astype("int32")
    inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
    before = numpy(model(inputs))
    model.get_layer("Embedding-Position-Shared-0").table.assign(
        np.ones((8, 2)) * np.arange(8)[:, None]
    )
    assert np.abs(numpy(model(inputs)) - before).max() > 1e-3
    model.save(tmp_path / "model.keras")
    again = build_transformer_model(
        tiny_config, tmp_path / "model.keras", num_hidden_layers=3, encodings=specs(8, 32, 8)
    )
    np.testing.assert_array_equal(numpy(again(inputs)), numpy(model(inputs)))
    assert is_fresh(paths[0])  # where a checkpoint has no such table, it begins anew


@pytest.mark.once
def test_a_gated_unit_takes_tables():
    spec = {"name": "cope", "npos_max": 4}
    table = np.random.default_rng(4).normal(size=(D, 4)).astype("float32")
    alone = GatedAttentionUnit(8, key_size=D, encodings=[spec])
    given = GatedAttentionUnit(8, key_size=D, encodings=[{**spec, "shared": True}])
    alone.build(X.shape), given.build(X.shape)
    for name in ("input_dense", "output_dense"):
        getattr(alone, name).set_weights(getattr(given, name).get_weights())
    alone.encodings[0].embeddings.assign(table)
    inputs = keras.Input((T, E))
    tables = [keras.Input(batch_shape=table.shape)]
    outputs = [alone(inputs, use_causal_mask=True)]
    outputs.append(given(inputs, use_causal_mask=True, tables=tables))
    one, other = keras.Model([inputs, *tables], outputs).predict_on_batch([X, table])
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_table_stays_float32_under_a_mixed_policy():
    table = SharedTable(T5Bias(shared=True), H, D, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(table(X).dtype) == "float32"
    assert keras.backend.standardize_dtype(table(keras.Input((None, E))).dtype) == "float32"


@pytest.mark.once
def test_errors():
    with pytest.raises(ValueError, match="ALiBi has no table that layers could share"):
        ALiBi(shared=True)
    with pytest.raises(ValueError, match="give it and the attention layers a T5Bias with `shared"):
        SharedTable("t5", H, D)
    layer = PositionalAttention(H, D, encodings=[ContextualPositionEmbedding(4, shared=True)])
    words = (
        r"a table for each encoding with `shared=True`, of the shapes \[\(4, 4\)\], .* Received: "
    )
    for x in (X, keras.Input((T, E))):
        with pytest.raises(ValueError, match=words + r"\[\]"):
            layer(x, x, use_causal_mask=True)
        with pytest.raises(ValueError, match=words + r"\[\(4, 5\)\]"):
            layer(x, x, use_causal_mask=True, tables=[np.zeros((4, 5), "float32")])
    with pytest.raises(ValueError, match=r"of the shapes \[\], .* Received: \[\(4, 4\)\]"):
        PositionalAttention(H, D)(X, X, tables=[np.zeros((4, 4), "float32")])


@pytest.mark.once
def test_shared_is_part_of_the_config():
    for encoding in (T5Bias(shared=True), ContextualPositionEmbedding(shared=True)):
        clone = type(encoding).from_config(encoding.get_config())
        assert clone.shared and not type(encoding)().shared
        clone.build((B, T, H, D))
        assert clone.weights == []


PROJECTED = {"name": "deberta", "max_distance": 3, "shared": True}  # (6, H D)


@pytest.mark.once
@pytest.mark.parametrize("sizes", [(E, E), (H * D, E), (E, H * D)], ids=str)
def test_a_table_that_is_projected_has_the_features_of_queries_and_keys(sizes):
    layer = PositionalAttention(H, D, encodings=[PROJECTED])
    words = (
        f"table of DeBERTaRelative has 8 features.* queries of {sizes[0]} and keys of {sizes[1]}"
    )
    with pytest.raises(ValueError, match=words):
        layer(*(np.ones((B, T, size), "float32") for size in sizes), tables=[np.ones((6, H * D))])


@pytest.mark.once
def test_a_gated_unit_has_no_projection_for_a_table():
    with pytest.raises(ValueError, match="table of DeBERTaRelative: leave `shared` out"):
        GatedAttentionUnit(8, key_size=D, encodings=[PROJECTED])
