"""What bert4keras 0.11.5 itself answered (references/make_bert4keras.py), and what we answer."""

import json
import pathlib

import keras
import numpy as np
import pytest

from keras_posenc.models.factory import build_transformer_model
from keras_posenc.positions.learned import LearnedPositionEmbedding
from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding
from keras_posenc.positions.stretched import HierarchicalPositionEmbedding

REFERENCES = pathlib.Path(__file__).parents[1] / "references"
TOLERANCE = 1e-5


def read(name):
    with np.load(REFERENCES / name) as file:
        return dict(file)


TINY = read("bert4keras_tiny.npz")
TABLES = json.loads(str(TINY["cases"]))
MINILM = read("bert4keras_minilm.npz")
RUNS = {run["name"]: run for run in json.loads(str(MINILM["runs"]))}
# bert4keras departs from RealFormer here, on purpose we do not follow; see the test of it.
NOT_FOLLOWED = "residual_not_cumulative"


def below(arrays, folder):
    """The arrays of a folder, by their names in it."""
    return {k.removeprefix(folder): v for k, v in arrays.items() if k.startswith(folder)}


def assert_close(ours, reference):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(ours), reference, rtol=0, atol=TOLERANCE)


# ---------------------------------------------------------------- tiny models
def split(weights):
    """A BERT checkpoint, and what none holds: second gates and conditions, by our layers' names."""
    beyond = ("hidden_dense", "beta_dense", "gamma_dense", "intermediate_1")
    extra = {k: weights.pop(k) for k in list(weights) if any(b in k for b in beyond)}
    return weights, {our_name(k): v for k, v in extra.items()}


def our_name(google):
    scope, _, variable = google.rpartition("/LayerNorm/")
    if google.startswith("bert/encoder/layer_"):
        number = google.split("/")[2].removeprefix("layer_")
        if not scope:
            return f"Transformer-{number}-FeedForward/intermediate_1/{google.split('/')[-1]}"
        part = "MultiHeadSelfAttention" if "/attention/" in scope else "FeedForward"
        return f"Transformer-{number}-{part}-Norm/{variable}"
    return f"{'MLM' if scope.startswith('cls') else 'Embedding'}-Norm/{variable}"


def assign(transformer, arrays):
    for name, array in arrays.items():
        layer, _, path = name.partition("/")
        if layer not in transformer.layers:  # The MLM head, when it is not built.
            assert layer == "MLM-Norm"
            continue
        (variable,) = [v for v in transformer.layers[layer].weights if v.path.endswith(path)]
        variable.assign(array)


def build_tiny(name):
    """The Transformer of a case, and what to feed it."""
    case = TABLES["cases"][name]
    kwargs = TABLES["sizes"] | case["kwargs"]
    weights = below(TINY, "weights/base/") | below(TINY, f"weights/{case['weights']}/")
    weights, extra = split(weights)
    feeds = below(TINY, f"inputs/{case['inputs']}/")
    if kwargs["segment_vocab_size"] == 0:
        del feeds["segment_ids"]
    if not kwargs.get("custom_position_ids"):
        del feeds["position_ids"]
    if "compound_tokens" in kwargs:
        pairs = kwargs["compound_tokens"]
        kwargs["compound_tokens"] = [tuple(p) if isinstance(p[0], list) else p for p in pairs]
    if "condition" in case:
        kwargs["layer_norm_cond"] = keras.Input((case["condition"],), name="condition")
        kwargs["additional_input_layers"] = kwargs["layer_norm_cond"]
        feeds["condition"] = TINY["condition"]
    if "caches" in case:
        shape = (case["caches"], kwargs["hidden_size"])
        caches = [keras.Input(shape, name=name) for name in ("cached_keys", "cached_values")]
        kwargs["attention_caches"] = {"Transformer-1-MultiHeadSelfAttention": caches}
        kwargs["additional_input_layers"] = caches
        feeds |= dict(zip(("cached_keys", "cached_values"), TINY["caches"], strict=True))
    transformer = build_transformer_model(
        None,
        weights,
        return_keras_model=False,
        ignore_invalid_weights=case["weights"] == "gated",
        **kwargs,
    )
    assign(transformer, extra)
    return transformer, feeds


def outputs_of(transformer, feeds):
    outputs = transformer.model(feeds)
    return outputs if isinstance(outputs, list | tuple) else [outputs]


# What an argument means is no matter of the backend: every twelfth runs on all of them.
FOLLOWED = [
    pytest.param(name, marks=[] if i % 12 == 0 else pytest.mark.once)
    for i, name in enumerate(TABLES["cases"])
    if name != NOT_FOLLOWED
]


@pytest.mark.parametrize("name", FOLLOWED)
def test_tiny_models(name):
    outputs = outputs_of(*build_tiny(name))
    assert len(outputs) == TABLES["cases"][name]["outputs"]
    for i, output in enumerate(outputs):
        assert_close(output, TINY[f"outputs/{name}/{i}"])


def test_residual_scores_run_through_all_layers():
    # bert4keras hands on the scores of one layer without those that it was given, so from the third
    # layer on it computes something else than the paper.
    name = "residual_cumulative"
    (output,) = outputs_of(*build_tiny(name))
    reference = TINY[f"outputs/{NOT_FOLLOWED}/0"]
    assert np.abs(keras.ops.convert_to_numpy(output) - reference).max() > 0.1


# ---------------------------------------------------------------- MiniLM
@pytest.fixture(scope="module")
def stretched_minilm(minilm):
    """MiniLM for a `hierarchical_position`, with its hidden states and its pooler as outputs."""
    built = {}

    def build(hierarchical):
        if hierarchical not in built:
            transformer = build_transformer_model(
                minilm,
                hierarchical_position=hierarchical,
                with_pool=True,
                return_keras_model=False,
            )
            hidden = transformer.layers["Transformer-5-FeedForward-Norm"].output
            model = keras.Model(transformer.model.inputs, [hidden, transformer.model.output])
            built[hierarchical] = model
        return built[hierarchical]

    return build


LONGEST = max(RUNS, key=lambda name: RUNS[name]["length"])
OTHERS = [pytest.param(name, marks=pytest.mark.once) for name in RUNS if name != LONGEST]


@pytest.mark.parametrize("name", [LONGEST, *OTHERS])
def test_minilm(stretched_minilm, name):
    run = RUNS[name]
    model = stretched_minilm(run["hierarchical"])
    hidden, pooled = model.predict(below(MINILM, f"inputs/{run['length']}/"), verbose=0)
    positions = MINILM[f"outputs/{name}/positions"]
    assert_close(hidden[:, :: positions[1]], MINILM[f"outputs/{name}/hidden"])
    assert_close(pooled, MINILM[f"outputs/{name}/pooled"])


@pytest.mark.once
def test_minilm_under_googles_names_is_the_same_model(minilm, stretched_minilm):
    from safetensors.numpy import load_file

    def google(name, value):
        name = "bert/" + name.replace(".", "/").replace("encoder/layer/", "encoder/layer_")
        if name.endswith("_embeddings/weight"):
            return name.removesuffix("/weight"), value
        if "LayerNorm" in name:
            return name.replace("/weight", "/gamma").replace("/bias", "/beta"), value
        return name.replace("/weight", "/kernel"), value.T if value.ndim == 2 else value

    tensors = load_file(minilm / "model.safetensors").items()
    names = dict(google(k, v) for k, v in tensors if not k.endswith("position_ids"))
    model = build_transformer_model(minilm, names, hierarchical_position=0.2, with_pool=True)
    # The same layers in the same order, whatever names the checkpoint gives the weights.
    for ours, reference in zip(model.weights, stretched_minilm(0.2).weights, strict=True):
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(ours), keras.ops.convert_to_numpy(reference)
        )


# ---------------------------------------------------------------- position layers alone
@pytest.mark.parametrize("name", TABLES["learned"])
def test_learned_positions(name):
    case = TABLES["learned"][name]
    arrays = below(TINY, "layers/")
    if case["hierarchical"]:
        alpha = {} if case["hierarchical"] is True else {"alpha": case["hierarchical"]}
        layer = HierarchicalPositionEmbedding(3, 6, merge_mode=case["merge_mode"], **alpha)
    else:
        layer = LearnedPositionEmbedding(7, 6, merge_mode=case["merge_mode"])
    layer.build(arrays["x"].shape)
    layer.set_weights([arrays["table"][: layer.input_dim]])
    ids = [arrays["ids"].astype("int32")] if case["ids"] else []
    assert_close(layer(arrays["x"], *ids), arrays["learned/" + name])


@pytest.mark.parametrize("name", TABLES["sinusoidal"])
def test_sinusoidal_positions(name):
    case = TABLES["sinusoidal"][name]
    arrays = below(TINY, "layers/")
    layer = SinusoidalPositionEmbedding(6, merge_mode=case["merge_mode"])
    ids = [arrays["fractional_ids"]] if case["ids"] else []
    assert_close(layer(arrays["x"], *ids), arrays["sinusoidal/" + name])
