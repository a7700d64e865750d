"""Families that transformers lacks, against their published code written out in NumPy."""

import dataclasses
import math

import keras
import numpy as np
import pytest
from keras import ops
from programs import predicted
from published import SIZES, publish, token_ids
from selection import on_all

from keras_posenc import Transformer, build_transformer_model, save_checkpoint
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.models import families

TOLERANCE = 1e-5
V, D, LAYERS, H, INNER = (
    SIZES[name]
    for name in (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
    )
)
CONFIG = {**SIZES, "type_vocab_size": 2, "layer_norm_eps": 1e-6}


class Weights(dict):
    """Random float64 weights by name: a name that is new is drawn, transposed as torch has it."""

    def __init__(self):
        self.random = np.random.default_rng(0)

    def new(self, name, *shape, mean=0.0):
        if name not in self:
            self[name] = self.random.normal(mean, 0.3, shape).astype("float32")
        return self[name].astype("float64")

    def dense(self, x, name, size, bias=True):
        y = x @ self.new(f"{name}.weight", size, x.shape[-1]).T
        return y + self.new(f"{name}.bias", size) if bias else y

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return self.rms(x, name) + self.new(f"{name}.bias", x.shape[-1])

    def rms(self, x, name=None, epsilon=1e-6):
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x if name is None else x * self.new(f"{name}.weight", x.shape[-1], mean=1.0)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def turned(x, frequencies, neighbours):
    """Heads (B, T, H, d), pairs of features turned by their positions."""
    angles = np.arange(x.shape[1])[:, None] * frequencies
    turns = np.exp(1j * angles)[:, None]
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    y = (a + 1j * b) * turns
    if neighbours:
        return np.stack([y.real, y.imag], -1).reshape(x.shape)
    return np.concatenate([y.real, y.imag], -1)


def attend(q, k, v, keep, bias=0.0):
    """q, k, v (B, T, H, d) -> (B, T, H d)."""
    logits = np.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5 + bias
    logits = np.where(keep[:, None, None], logits, -1e9)
    return np.einsum("bhqk,bkhd->bqhd", softmax(logits), v).reshape(*q.shape[:2], -1)


def heads(*features):
    return [x.reshape(*x.shape[:2], H, -1) for x in features]


def frequencies(size, base):
    return base ** (-np.arange(0, size, 2) / size)


def bert_embeddings(w, ids, norm, scope="embeddings"):
    x = w.new(f"{scope}.word_embeddings.weight", V, D)[ids]
    return w.norm(x + w.new(f"{scope}.token_type_embeddings.weight", 2, D)[0], norm)


def nomic(w, ids, keep, scaling=None):
    """modeling_hf_nomic_bert.py: gate fc12, Wqkv by thirds; the base grows beyond 16 tokens."""
    x, size = bert_embeddings(w, ids, "emb_ln"), D // H
    base = 1000.0
    if scaling and ids.shape[1] > 16:
        base *= (scaling * ids.shape[1] / 16 - (scaling - 1)) ** (size / (size - 2))
    turns = frequencies(size, base)
    for i in range(LAYERS):
        at = f"encoder.layers.{i}"
        qkv = np.split(w.dense(x, f"{at}.attn.Wqkv", 3 * D, bias=False), 3, -1)
        q, k, v = heads(*qkv)
        out = attend(turned(q, turns, False), turned(k, turns, False), v, keep)
        x = w.norm(x + w.dense(out, f"{at}.attn.out_proj", D, bias=False), f"{at}.norm1")
        y = w.dense(x, f"{at}.mlp.fc11", INNER, bias=False)
        y = y * silu(w.dense(x, f"{at}.mlp.fc12", INNER, bias=False))
        x = w.norm(x + w.dense(y, f"{at}.mlp.fc2", D, bias=False), f"{at}.norm2")
    return x


def gte(w, ids, keep, scaling=None):
    """modeling.py of Alibaba-NLP/new-impl: NTKScalingRotaryEmbedding, eq. 6 of its source."""
    x, size = bert_embeddings(w, ids, "new.embeddings.LayerNorm", "new.embeddings"), D // H
    base = 500.0 * (scaling or 1)
    turns = frequencies(size, base) / (scaling or 1) ** (2 / size)
    for i in range(LAYERS):
        at = f"new.encoder.layer.{i}"
        q, k, v = heads(*np.split(w.dense(x, f"{at}.attention.qkv_proj", 3 * D), 3, -1))
        out = attend(turned(q, turns, False), turned(k, turns, False), v, keep)
        x = w.norm(x + w.dense(out, f"{at}.attention.o_proj", D), f"{at}.attn_ln")
        up, gate = np.split(w.dense(x, f"{at}.mlp.up_gate_proj", 2 * INNER, bias=False), 2, -1)
        x = w.norm(x + w.dense(gelu(gate) * up, f"{at}.mlp.down_proj", D), f"{at}.mlp_ln")
    return x


def jina_v2(w, ids, keep):
    """modeling_bert.py of jinaai/jina-bert-implementation."""
    x = bert_embeddings(w, ids, "embeddings.LayerNorm")
    steps = np.arange(ids.shape[1])
    slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
    bias = -slopes[:, None, None] * abs(steps[:, None] - steps)
    for i in range(LAYERS):
        at = f"encoder.layer.{i}"
        parts = (w.dense(x, f"{at}.attention.self.{n}", D) for n in ("query", "key", "value"))
        out = attend(*heads(*parts), keep, bias)
        out = w.dense(out, f"{at}.attention.output.dense", D)
        x = w.norm(x + out, f"{at}.attention.output.LayerNorm")
        gated, plain = np.split(w.dense(x, f"{at}.mlp.gated_layers", 2 * INNER, bias=False), 2, -1)
        x = w.norm(x + w.dense(gelu(gated) * plain, f"{at}.mlp.wo", D), f"{at}.mlp.layernorm")
    return x


def neobert(w, ids, keep):
    """model.py of chandar-lab/NeoBERT: SwiGLU of xformers, qkv of a head side by side."""
    x = w.new("model.encoder.weight", V, D)[ids]
    size, inner = D // H, 8 * ((2 * INNER // 3 + 7) // 8)
    turns = frequencies(size, 10000.0)
    for i in range(LAYERS):
        at = f"model.transformer_encoder.{i}"
        y = w.dense(w.rms(x, f"{at}.attention_norm"), f"{at}.qkv", 3 * D, bias=False)
        q, k, v = np.split(y.reshape(*y.shape[:2], H, 3 * size), 3, -1)
        out = attend(turned(q, turns, True), turned(k, turns, True), v, keep)
        x = x + w.dense(out, f"{at}.wo", D, bias=False)
        y = w.dense(w.rms(x, f"{at}.ffn_norm"), f"{at}.ffn.w12", 2 * inner, bias=False)
        gate, up = np.split(y, 2, -1)
        x = x + w.dense(silu(gate) * up, f"{at}.ffn.w3", D, bias=False)
    return w.rms(x, "model.layer_norm")


def roformer_v2(w, ids, keep):
    """bert4keras: RoFormer without biases, its norms without weights."""

    def dense(x, name, size):
        return x @ w.new(f"{name}/kernel", x.shape[-1], size)

    x = w.new("bert/embeddings/word_embeddings", V, D)[ids]
    x = w.rms(x + w.new("bert/embeddings/token_type_embeddings", 2, D)[0], epsilon=1e-7)
    turns = frequencies(D // H, 10000.0)
    for i in range(LAYERS):
        at = f"bert/encoder/layer_{i}"
        parts = (dense(x, f"{at}/attention/self/{n}", D) for n in ("query", "key", "value"))
        q, k, v = heads(*parts)
        out = attend(turned(q, turns, True), turned(k, turns, True), v, keep)
        x = w.rms(x + dense(out, f"{at}/attention/output/dense", D), epsilon=1e-7)
        y = np.maximum(dense(x, f"{at}/intermediate/dense", INNER), 0)
        x = w.rms(x + dense(y, f"{at}/output/dense", D), epsilon=1e-7)
    return x


def gau_alpha(w, ids, keep):
    """models.py of ZhuiyiTechnology/GAU-alpha: softmax_plus, heads of size 6."""
    x = w.new("bert/embeddings/word_embeddings", V, D)[ids]
    x = w.rms(x + w.new("bert/embeddings/token_type_embeddings", 2, D)[0], epsilon=1e-7)
    size = 6
    turns = frequencies(size, 10000.0)
    count = np.log(np.maximum(keep.sum(1), 16)) / np.log(512)
    for i in range(LAYERS):
        at = f"GAU_alpha/encoder/layer_{i}/gau"
        y = silu(x @ w.new(f"{at}/i_dense/kernel", D, 2 * INNER + size))
        u, v, z = y[..., :INNER], y[..., INNER : 2 * INNER], y[..., 2 * INNER :]
        q, k = (
            turned(
                (z * w.new(f"{at}/{n}_scaleoffset/gamma", size, mean=1.0))[:, :, None], turns, True
            )
            for n in "qk"
        )
        out = attend(q * count[:, None, None, None], k, v[:, :, None], keep)
        x = w.rms(x + (u * out) @ w.new(f"{at}/o_dense/kernel", INNER, D), epsilon=1e-7)
    return x


HUB_NOMIC = {
    "model_type": "nomic_bert", "vocab_size": V, "n_embd": D, "n_layer": LAYERS, "n_head": H,
    "n_inner": INNER, "activation_function": "swiglu", "n_positions": 64, "causal": False,
    "layer_norm_epsilon": 1e-6, "type_vocab_size": 2, "rotary_emb_fraction": 1.0,
    "rotary_emb_base": 1000, "qkv_proj_bias": False, "prenorm": False, "pad_token_id": 0,
    "max_trained_positions": 16, "rotary_scaling_factor": None,
}  # fmt: skip
GTE = {**CONFIG, "model_type": "new", "rope_theta": 500.0, "hidden_act": "gelu"}
JINA = {**CONFIG, "model_type": "bert", "position_embedding_type": "alibi", "hidden_act": "gelu"}
# Name -> family, published code, its arguments, config, format that is written.
CASES = {
    "nomic": ("nomic", nomic, {}, HUB_NOMIC),
    "nomic_dynamic": (
        "nomic", nomic, {"scaling": 2.0}, {**HUB_NOMIC, "rotary_scaling_factor": 2},
    ),
    "gte": ("gte", gte, {}, GTE),
    "gte_ntk": (
        "gte", gte, {"scaling": 8.0}, {**GTE, "rope_scaling": {"type": "ntk", "factor": 8.0}},
    ),
    "jina_v2": ("jina_v2", jina_v2, {}, {**JINA, "feed_forward_type": "geglu"}),
    "neobert": ("neobert", neobert, {}, {**SIZES, "model_type": "neobert", "norm_eps": 1e-6}),
    "roformer_v2": ("roformer_v2", roformer_v2, {}, {**SIZES, "type_vocab_size": 2}),
    "gau_alpha": (
        "gau_alpha", gau_alpha, {}, {**SIZES, "type_vocab_size": 2, "attention_key_size": 6},
    ),
}  # fmt: skip


def built(name):
    """Our model of a case, and the weights it is filled with."""
    family, published, arguments, config = CASES[name]
    weights = Weights()
    published(weights, *token_ids(4), **arguments)  # draws them
    model = None if config.get("model_type") else family
    return build_transformer_model(config, dict(weights), model=model), weights


def compare(name, ours, weights, length):
    """The largest difference, as a share of the largest value."""
    _, published, arguments, _ = CASES[name]
    ids, real = token_ids(length)
    # The base of a text grows with its own length; in the published code with the batch's.
    ids, real = (ids[:1], real[:1]) if "dynamic" in name else (ids, real)
    expected = published(weights, ids, real, **arguments)[real]
    found = predicted(ours, [ids, 0 * ids][: len(ours.inputs)])[real]
    return abs(found - expected).max() / abs(expected).max()


@pytest.mark.parametrize("name", on_all(("nomic_dynamic",), CASES))
def test_the_numbers_are_those_of_the_published_code(name, tmp_path):
    family, _, _, config = CASES[name]
    named = config.get("model_type")
    ours, weights = built(name)
    assert ours.transformer.family == family
    for length in (12, 40):
        assert compare(name, ours, weights, length) <= TOLERANCE
    ids = token_ids(12)[0]
    feeds = [ids, 0 * ids][: len(ours.inputs)]
    found = ops.convert_to_numpy(ours(feeds, training=False))
    if named is None and keras.backend.backend() != "tensorflow":
        return  # Google's format needs TensorFlow
    save_checkpoint(ours, tmp_path, format="huggingface" if named else "google")
    again = build_transformer_model(tmp_path, model=None if named else family)
    np.testing.assert_array_equal(ops.convert_to_numpy(again(feeds, training=False)), found)


@pytest.mark.once
def test_tensors_next_to_the_adapters_of_their_tasks_are_found(tmp_path):
    """The names that torch gives to what jina v3's adapters change."""
    plain = publish(tmp_path, "JinaEmbeddingsV3Model", **SIZES)
    weights = open_checkpoint(tmp_path)
    renamed = {
        name.replace(".weight", ".parametrizations.weight.original") if array.ndim == 2 else name: (
            array
        )
        for name, array in weights.items()
    }
    some = next(name for name in renamed if name.endswith("original"))
    renamed[some.replace("original", "0.lora_A")] = np.ones((2, 4), "float32")
    config = {**plain.config.to_dict(), "model_type": "xlm-roberta"}
    config |= {"position_embedding_type": "rotary", "rotary_emb_base": 20000.0}
    config.pop("rope_parameters")
    feeds = [token_ids(9)[0], np.zeros((3, 9), "int32")]
    one, other = (
        build_transformer_model(*source, with_pool=True)
        for source in ((tmp_path,), (config, renamed))
    )
    np.testing.assert_array_equal(*(ops.convert_to_numpy(m(feeds)) for m in (one, other)))


@pytest.mark.once
def test_a_tensor_of_another_family_or_a_part_of_one_is_refused():
    """One line says what does not fit; nothing is loaded."""
    weights = Weights()
    neobert(weights, *token_ids(4))
    config = {**SIZES, "model_type": "neobert", "norm_eps": 1e-6}
    for name, change, message in [
        ("model.transformer_encoder.1.ffn.w12.weight", lambda w: w[:-16], "of the wrong shape"),
        ("model.transformer_encoder.0.qkv.weight", lambda w: w[:32], "of the wrong shape"),
        ("model.encoder.weight", None, "1 missing .Embedding-Token/embeddings."),
    ]:
        broken = {n: w for n, w in weights.items() if n != name}
        broken |= {name: change(weights[name])} if change else {}
        with pytest.raises(ValueError, match=rf"{message}.*Nothing was loaded") as error:
            build_transformer_model(config, broken)
        assert "\n" not in str(error.value)
    strange = {**weights, "bert.embeddings.LayerNorm.weight": np.ones(16, "float32")}
    with pytest.raises(ValueError, match="1 unexpected .bert.embeddings.LayerNorm.weight"):
        build_transformer_model(config, strange)


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modernbert", {"layer_types": ["full_attention"]}, "`layer_types` must name 3 layers"),
        ("modernbert", {"layer_types": ["a", "b", "c"]}, "each 'sliding_attention' or"),
        ("qwen3", {"use_sliding_window": True}, "Qwen3's sliding window is not supported"),
        ("deberta-v2", {"relative_attention": True, "pos_att_type": "c2p"}, "`share_att_key` must"),
        ("bert", {"position_embedding_type": "alibi"}, "jina v2 has feed_forward_type 'geglu'"),
        ("eurobert", {"rope_scaling": {"type": "yan", "factor": 2}}, "did you mean 'yarn'"),
        ("eurobert", {"num_key_value_heads": 3}, "must divide the 2 heads. Received: 3"),
        ("albert", {"inner_group_num": 2}, "The family 'albert' knows no other value"),
        ("nomic_bert", {"prenorm": True}, "Found prenorm=True"),
        ("roformer", {"rotary_value": True}, "Found rotary_value=True"),
        ("mpnet", {"pad_token_id": 0}, "'mpnet' knows no other value. Found pad_token_id=0"),
        ("neobert", {"norm": "around"}, "`norm` must be one of"),
        ("t5", {"feed_forward_proj": "gated-glue"}, "Unknown activation 'glue'"),
    ],
)
def test_a_config_that_cannot_be_built_says_why(name, change, message):
    config = {**SIZES, "hidden_act": "gelu", "model_type": name, **change}
    with pytest.raises(ValueError, match=message):
        build_transformer_model(config)


@pytest.mark.once
def test_albert_unshared_needs_one_block():
    config = {**SIZES, "model_type": "albert", "num_hidden_groups": 3}
    with pytest.raises(ValueError, match="fills all layers from one block. Received: num_hidden_g"):
        build_transformer_model(config, model="albert_unshared")


@pytest.mark.once
@pytest.mark.parametrize(
    ("family", "tensor", "message"),
    [
        ("modernbert", "layers.0.attn.Wqkv.weight", "3 missing .*query/kernel.*key/.*value/"),
        ("modernbert", "layers.0.mlp.Wi.weight", "2 missing .*intermediate/.*intermediate_1/"),
        ("eurobert", "layers.0.mlp.up_proj.weight", "1 missing .*intermediate_1/kernel"),
    ],
)
def test_what_is_packed_or_half_of_a_gated_unit_is_missing(tmp_path, family, tensor, message):
    sizes = {**SIZES, "hidden_size": 16, "intermediate_size": 32, "pad_token_id": 0}
    config = {**sizes, "model_type": family}
    save_checkpoint(build_transformer_model(config), tmp_path)
    arrays = {name: np.array(array) for name, array in open_checkpoint(tmp_path).items()}
    arrays = {name: array for name, array in arrays.items() if not name.endswith(tensor)}
    with pytest.raises(ValueError, match=rf"{message}.* Nothing was loaded\.$"):
        build_transformer_model(config, arrays)


@pytest.mark.once
@pytest.mark.parametrize("act", ["SwiGLU", "swiglu", None])
def test_neobert_names_its_gated_unit_or_does_not(act):
    config = {**SIZES, "model_type": "neobert"} | ({"hidden_act": act} if act else {})
    model = build_transformer_model(config)
    assert model.transformer.config.hidden_act == ["silu", "linear"]


@pytest.mark.once
def test_a_family_and_its_transformer_from_outside():
    class Doubled(Transformer):
        def embed(self):
            return 2 * super().embed()

        def block(self, x, i, scores=None):
            return (x, scores) if i else super().block(x, i, scores)

        def heads(self, x):
            return self.dense("Answer", 3)(x)

    mine = dataclasses.replace(
        families.FAMILIES["bert"],
        name="mine",
        model_types=("mine",),
        defaults={"norm": "pre", "hidden_act": "relu"},
        transformer=Doubled,
    )
    try:
        assert families.register_family(mine) is mine
        config = {**SIZES, "model_type": "mine", "type_vocab_size": 0}
        model = build_transformer_model(config)
        assert model.output_shape == (None, None, 3)
        assert type(model.transformer) is Doubled
        assert "Transformer-1-FeedForward" not in model.transformer.layers
    finally:
        del families.FAMILIES["mine"]
    with pytest.raises(TypeError, match="`register_family` takes a Family. Received: 'mine'"):
        families.register_family("mine")
    with pytest.raises(ValueError, match="model_type 'mine' is not supported: "):
        build_transformer_model(config)


@pytest.mark.once
@pytest.mark.parametrize("model", ["electra", "distilbert", "mpnet", "gpt2"])
def test_every_table_of_positions_is_stretched(model):
    sizes = {**SIZES, "hidden_act": "relu", "max_position_embeddings": 12, "pad_token_id": 1}
    built = build_transformer_model(sizes, model=model, hierarchical_position=True)
    ids = np.random.default_rng(0).integers(2, V, (1, 60))
    feeds = [ids, 0 * ids][: len(built.inputs)]
    assert built(feeds).shape[1] == 60
