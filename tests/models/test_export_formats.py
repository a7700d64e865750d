"""What is exported runs without Keras, at lengths that the export did not see."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from keras import ops
from packaging.version import Version
from programs import predicted
from published import SIZES

from keras_posenc import PositionalAttention, backend, build_transformer_model, export_model
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.backend import shared
from keras_posenc.heads import classifier
from keras_posenc.layers.experts import MixtureOfExperts
from keras_posenc.models import serving_export
from keras_posenc.models.pooling import MaskedPooling

BACKEND, KERAS = keras.backend.backend(), Version(keras.__version__)
WRITES_LITERT = BACKEND == "tensorflow" and KERAS >= Version("3.15")
WRITES_ONNX = BACKEND == "tensorflow" or (BACKEND == "torch" and KERAS >= Version("3.15"))
SHAPES = [(2, 9), (1, 5), (3, 70)]


@pytest.fixture(scope="module", autouse=True)
def operations_of_onnx():
    """PyTorch lists them for each export, which is a fifth of the time of a small one."""
    with pytest.MonkeyPatch.context() as patch:
        if BACKEND == "torch" and WRITES_ONNX:
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            listed = functools.cache(ONNXRegistry.from_torchlib)
            patch.setattr(ONNXRegistry, "from_torchlib", lambda self, **version: listed(**version))
        yield


@pytest.fixture(scope="module")
def model():
    """A stretched classifier: 12 positions serve 144."""
    keras.utils.set_random_seed(1)  # the weights of seed 0 keep .92
    config = {**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 12}
    config["hidden_act"] = "gelu"
    return classifier(build_transformer_model(config, hierarchical_position=True), 3)


def feeds(batch, length):
    ids = np.random.default_rng(length).integers(1, 40, (batch, length)).astype("int32")
    ids[0, length // 2 :] = 0
    return ids, 0 * ids


def check(model, run):
    for batch, length in SHAPES:
        arrays = feeds(batch, length)[: len(model.inputs)]
        expected = predicted(model, list(arrays))
        np.testing.assert_allclose(run(*arrays), expected, rtol=0, atol=1e-5)


def run_onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]


@pytest.mark.once
def test_what_int8_refuses(model, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"`quantize` must be one of \(None, 'int8'\). Received"):
        export_model(model, tmp_path / "model.onnx", quantize="int4")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ImportError, match="needs onnxruntime, .* pip install onnxruntime"):
            export_model(model, tmp_path / "model.onnx", quantize="int8")
    with monkeypatch.context() as patch:
        traits = dataclasses.replace(backend.TRAITS, writes_litert=True)
        patch.setattr(backend, "TRAITS", traits)
        with pytest.raises(ValueError, match='quantize="int8" is for .onnx files: leave it out'):
            export_model(model, tmp_path / "model.tflite", quantize="int8")
    quantized = build_transformer_model({**SIZES, "num_hidden_layers": 1, "hidden_act": "gelu"})
    with pytest.warns(UserWarning) as found:
        quantized.quantize("int8")
    slower = [each for each in found if "is slower than float32" in str(each.message)]
    assert len(slower) == 1 and 'export_model(model, "model.onnx", quantize=' in str(slower[0])
    with pytest.raises(ValueError, match="takes a model in float32, and this one is quantized to"):
        export_model(quantized, tmp_path / "model.onnx", quantize="int8")
    assert not list(tmp_path.iterdir())


# What the exporters say of themselves is not ours.
@pytest.mark.filterwarnings("ignore")
def test_onnx(model, tmp_path):
    path = tmp_path / "new" / "model.onnx"
    if BACKEND == "jax":
        with pytest.raises(ImportError, match="ONNX needs jax2onnx, .* pip install jax2onnx"):
            export_model(model, path)
        return
    if not WRITES_ONNX:
        with pytest.raises(ImportError, match=f"^ONNX .* by Keras 3.15 .*, and this is {KERAS}"):
            export_model(model, path)
        return
    export_model(model, path)
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]
    check(model, run_onnx(path))
    # A product of features with weights is a MatMul, which runtimes quantize and fuse.
    assert not any("Einsum" == each.op_type and weighted(each, path) for each in nodes(path))
    assert not any("call" in vars(layer) for layer in model._flatten_layers())
    check_int8(model, path)


@pytest.mark.parametrize("missing", [["onnx"], [backend.TRAITS.writes_onnx], "both"])
def test_only_a_package_that_is_missing_is_to_be_installed(model, tmp_path, monkeypatch, missing):
    missing = ["onnx", backend.TRAITS.writes_onnx] if missing == "both" else missing
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in missing else object()
    )
    names = f"{' and '.join(missing)}, .*: pip install {' '.join(missing)}$"
    with pytest.raises(ImportError, match=f"^Writing ONNX needs {names}"):
        export_model(model, tmp_path / "model.onnx")
    missing.clear()

    def refuse(*arguments):
        raise ImportError("too old: pip install -U keras")

    monkeypatch.setattr(backend, "export_model", refuse)
    with pytest.raises(ImportError, match="^too old: pip install -U keras$"):
        export_model(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def attention(*encodings):
    layer = PositionalAttention(2, 4, encodings=list(encodings))
    return lambda x: layer(x, x, use_causal_mask=True)


# Encodings that read tables by the distance, count keys or replace operations in an export.
EXPORTED = {
    "sums and counts": attention("forget_gate", "log_n", "cope"),
    "distances": attention("fire", "nezha", "transformer_xl"),
    "experts": MixtureOfExperts(6, 4, 2),
    "ends and both sides": attention({"name": "forget_gate", "bidirectional": True}, "deberta"),
    "orders": lambda x: PositionalAttention(2, 4)(x, x, query_order=order(x), key_order=order(x)),
    "a window, sides and a part of a head": attention(
        {"name": "window", "window": 3, "global_tokens": 1},
        {"name": "alibi", "direction": "one_sided"},
        {"name": "rotary", "rotary_dim": 2},
    ),
    "unit": GatedAttentionUnit(8, 4),
    "last": lambda x: MaskedPooling("last")(keras.layers.Masking()(x)),
}


def order(x):
    return ops.cumsum(ops.cast(x[..., 0] > 1.0, "int32"), axis=1)


# What the exporters say of themselves is not ours.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not WRITES_ONNX, reason="this backend writes no ONNX")
@pytest.mark.parametrize("suffix", [".onnx", ".tflite"][: 1 + WRITES_LITERT])
@pytest.mark.parametrize("name", EXPORTED)
def test_layers(name, suffix, tmp_path):
    x = keras.Input((None, 8), name="x")
    model = keras.Model(x, EXPORTED[name](x))
    path = tmp_path / f"model{suffix}"
    export_model(model, path)
    run = run_onnx(path) if suffix == ".onnx" else run_litert(path)
    for batch, length in SHAPES:
        texts = np.random.default_rng(length).normal(size=(batch, length, 8)).astype("float32")
        expected = ops.convert_to_numpy(model(texts))
        np.testing.assert_allclose(run(texts), expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not WRITES_ONNX, reason="this backend writes no ONNX")
def test_buckets_and_a_table_for_all_layers(tmp_path):
    config = {**SIZES, "model_type": "deberta-v2", "hidden_act": "gelu", "num_hidden_layers": 1}
    config |= {"relative_attention": True, "position_buckets": 4, "share_att_key": True}
    config |= {"norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"]}
    model = build_transformer_model({**config, "position_biased_input": False})
    export_model(model, tmp_path / "model.onnx")
    run = run_onnx(tmp_path / "model.onnx")
    check(model, run)


@pytest.mark.once
def test_an_encoding_that_is_not_exported(tmp_path):
    x = keras.Input((None, 8), name="x")
    model = keras.Model(x, attention("path")(x))
    with pytest.raises(ValueError, match="of PaTH cannot be exported, because .*: save the model"):
        export_model(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def nodes(path):
    import onnx

    return onnx.load(path).graph.node


def weighted(node, path):
    import onnx

    return {each.name for each in onnx.load(path).graph.initializer} & set(node.input)


def check_int8(model, path):
    export_model(model, path, quantize="int8")
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]
    kinds = [each.op_type for each in nodes(path)]
    # Six projections of the block.
    assert kinds.count("MatMulInteger") >= 6
    ids, segments = feeds(3, 70)
    expected = ops.convert_to_numpy(model([ids, segments], training=False))
    found = run_onnx(path)(ids, segments)
    cosine = np.sum(found * expected) / np.linalg.norm(found) / np.linalg.norm(expected)
    assert 0.95 < cosine < 1 - 1e-6


def test_what_is_refused(model):
    with pytest.raises(
        ValueError, match=r"writes .onnx or .tflite files; .* Received: 'model.bin'"
    ):
        export_model(model, "model.bin")
    if BACKEND != "tensorflow":
        with pytest.raises(ValueError, match="is written on TensorFlow: set KERAS_BACKEND=tensorf"):
            export_model(model, "model.tflite")


def run_litert(path):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    inputs = sorted(interpreter.get_input_details(), key=lambda x: "segment" in x["name"])

    def run(*arrays):
        for each, array in zip(inputs, arrays, strict=True):
            interpreter.resize_tensor_input(each["index"], array.shape)
        interpreter.allocate_tensors()
        for each, array in zip(inputs, arrays, strict=True):
            interpreter.set_tensor(each["index"], array)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return run


if BACKEND == "tensorflow":

    def test_keras_that_writes_no_litert(model, tmp_path, monkeypatch):
        monkeypatch.setattr(shared, "KERAS", (3, 12))
        with pytest.raises(ImportError, match=f"^LiteRT .* by Keras 3.15 .*, and this is {KERAS}"):
            export_model(model, tmp_path / "model.tflite")

    @pytest.mark.filterwarnings("ignore")
    def test_saved_model(model, tmp_path):
        import tensorflow as tf

        model.export(tmp_path / "saved", format="tf_saved_model", verbose=False)
        loaded = tf.saved_model.load(tmp_path / "saved")
        check(model, lambda *arrays: loaded.serve(list(arrays)).numpy())


if WRITES_LITERT:

    @pytest.mark.filterwarnings("ignore")
    def test_litert(model, tmp_path):
        export_model(model, tmp_path / "model.tflite")
        check(model, run_litert(tmp_path / "model.tflite"))

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize(
        "options",
        [{"model_type": "roberta"}, {"model": "gau_alpha", "application": "lm"}],
        ids=str,
    )
    def test_positions_and_scales_of_families_in_litert(options, tmp_path):
        """The positions of RoBERTa skip padding; softmax_plus scales a row by its keys."""
        config = {**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 74, "pad_token_id": 0}
        config |= {"hidden_act": "gelu"}
        if "model_type" in options:
            config, options = {**config, **options}, {}
        model = build_transformer_model(config, **options)
        export_model(model, tmp_path / "model.tflite")
        run = run_litert(tmp_path / "model.tflite")
        check(model, run)

    @pytest.mark.filterwarnings("ignore")
    def test_an_operation_that_onnx_or_litert_lacks(tmp_path):
        x = keras.Input((None, 8), name="x")
        with pytest.raises(ValueError, match="be exported to LiteRT: .* Received: StridedSlice"):
            export_model(keras.Model(x, x[:, :, None, :, None] + 1), tmp_path / "model.tflite")
        with pytest.raises(ValueError, match="be exported to ONNX on this backend: try .*Log1p"):
            export_model(keras.Model(x, ops.log1p(x)), tmp_path / "model.onnx")
        assert not list(tmp_path.iterdir())


if BACKEND == "jax":
    # Each way in which an encoding counts columns, sums, looks up distances or limits rows.
    SAVED = [["rotary", "log_n", "cope"], ["t5", "stick_breaking"], ["window", "xpos"],
             ["transformer_xl"], ["dape"], ["path"]]  # fmt: skip

    def saved(model, tmp_path):
        import tensorflow as tf

        model.export(tmp_path / "saved", format="tf_saved_model", verbose=False)
        return tf.saved_model.load(tmp_path / "saved")

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("encodings", SAVED, ids=str)
    def test_attention_in_a_saved_model(encodings, tmp_path):
        x = keras.Input((None, 8), name="x")
        model = keras.Model(x, attention(*encodings)(x))
        loaded = saved(model, tmp_path)
        for batch, length in SHAPES[0], (1, 300):
            texts = np.random.default_rng(length).normal(size=(batch, length, 8)).astype("float32")
            expected = predicted(model, texts)
            np.testing.assert_allclose(loaded.serve(texts).numpy(), expected, rtol=0, atol=1e-5)

    @pytest.mark.filterwarnings("ignore")
    def test_an_encoder_in_a_saved_model(tmp_path):
        """Its inputs have one free length. JAX writes gelu in words that older TensorFlow lacks."""
        config = {**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 12}
        encoder = build_transformer_model(
            {**config, "hidden_act": "relu"}, extension="hierarchical"
        )
        model = classifier(encoder, 3)
        loaded = saved(model, tmp_path)
        check(model, lambda *arrays: loaded.serve(list(arrays)).numpy())


@pytest.mark.once
def test_int8_weights_beside_a_file_take_the_name_of_those_before(tmp_path):
    """As from 2 GB on; a file of zeros that takes no room stands for the rest of the weights."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    weight = np.random.default_rng(0).random((64, 64), "float32")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 64])
        for name in "xy"
    )
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph(
        [node], "graph", [x], [y], [onnx.numpy_helper.from_array(weight, "w")]
    )
    opset = onnx.helper.make_opsetid("", 18)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    place = {"save_as_external_data": True, "location": "m.onnx.data", "size_threshold": 0}
    onnx.save_model(model, tmp_path / "m.onnx", **place)
    with open(tmp_path / "more", "wb") as file:
        file.truncate(3 * 2**30)
    serving_export._quantize(tmp_path, "m.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", "m.onnx.data"}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (found,) = session.run(None, {"x": np.ones((1, 64), "float32")})
    np.testing.assert_allclose(found, weight.sum(0)[None], atol=0.5)


@pytest.mark.once
@pytest.mark.parametrize("bias_axes, is_product", [(None, True), ("de", True), ("e", False)])
def test_a_bias_of_some_axes_is_no_row(bias_axes, is_product):
    layer = keras.layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes=bias_axes)
    assert serving_export._is_product(layer) == is_product
