"""KerasHub's backbones as data: their config keys in Hugging Face's words, and their weights.

A backbone is one `Backbone`: which `model_type` it is, what its keys are called there, what it
computes without a key for it, and where its weights are in `model.weights.h5`. KerasHub numbers
equal layers from the second one on (`transformer_encoder`, `transformer_encoder_1`); here the first
has the number 0.
"""

import dataclasses
import functools
import re
from collections.abc import Callable

from keras_posenc.checkpoints.names import TASK_LAYERS, Table

ATTENTION = "Transformer-{i}-MultiHeadSelfAttention"
FEED_FORWARD = "Transformer-{i}-FeedForward"
TANH_GELU = "gelu_new"

SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
}
ENCODER = {
    **SIZES,
    "num_heads": "num_attention_heads",
    "max_sequence_length": "max_position_embeddings",
    "dropout": "hidden_dropout_prob",
}
BERT = {**ENCODER, "num_segments": "type_vocab_size"}
DECODER = {
    **SIZES,
    "num_query_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "rope_max_wavelength": "rope_theta",
    "layer_norm_epsilon": "rms_norm_eps",
    "dropout": "attention_dropout",
}
TIED = {"tie_word_embeddings": "tie_word_embeddings"}


def unchanged(theirs, ours):
    """Nothing beyond the keys."""


@dataclasses.dataclass(frozen=True)
class Backbone:
    """A class of `keras_hub.models`, as far as a checkpoint of it is concerned."""

    model_type: str  # as in Hugging Face's config.json
    keys: dict  # maps a key of the class to Hugging Face's
    # Keys of Hugging Face's config and what the class computes, whatever its own config is.
    values: dict
    rows: dict  # the rows of its `Table`
    # Keys of the class, and the values without an effect, which others must not have.
    neutral: dict = dataclasses.field(default_factory=dict)
    # Function (theirs, ours) -> None. Fills what else a config has into Hugging Face's.
    read: Callable = unchanged
    # Function (theirs, source) -> None. The same in the other direction, from the keys that the
    # model's config was read from.
    write: Callable = unchanged
    heads_first: bool = False  # whether matrices of attention are (heads, rows, columns)
    # Names of layers -> what they are called here in a model without the latter: KerasHub numbers
    # what there is.
    shifted: dict = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def block(self):
        """The name of the layer that is repeated."""
        found = (re.match(r"layers/(\w+)_\{i\}/", scope) for scope, _ in self.rows.values())
        return next(filter(None, found))[1]

    def table(self, family):
        """The `Table` of its weights. `family`: str, the name of our family."""
        heads = ("Pooler-Dense", "MLM-Output", "Embedding-Segment", *TASK_LAYERS)
        return Table(self.rows, family, heads=heads)


def _block(block, attention, names):
    """Rows of a block.

    `block`: name of the layer. `attention`: pattern of the names of attention's matrices. `names`:
    dict, our layers of the block -> (name in it, kind).
    """
    scope = f"layers/{block}_{{i}}"
    parts = {"query": "query", "key": "key", "value": "value", "attention_output": "output"}
    rows = {
        f"{ATTENTION}/{ours}": (f"{scope}/{attention.format(name)}", "hub_dense")
        for ours, name in parts.items()
    }
    return rows | {ours: (f"{scope}/{name}", kind) for ours, (name, kind) in names.items()}


def _encoder(block="transformer_encoder", attention="_self_attention_layer/{}_dense"):
    names = {
        f"{ATTENTION}-Norm": ("_self_attention_layer_norm", "hub_norm"),
        f"{FEED_FORWARD}/intermediate": ("_feedforward_intermediate_dense", "hub_dense"),
        f"{FEED_FORWARD}/output": ("_feedforward_output_dense", "hub_dense"),
        f"{FEED_FORWARD}-Norm": ("_feedforward_layer_norm", "hub_norm"),
    }
    return _block(block, attention, names)


def _decoder(name, norm):
    names = {
        f"{ATTENTION}-Norm": ("_self_attention_layernorm", "hub_norm"),
        f"{FEED_FORWARD}/intermediate": ("_feedforward_gate_dense", "hub_dense"),
        f"{FEED_FORWARD}/intermediate_1": ("_feedforward_intermediate_dense", "hub_dense"),
        f"{FEED_FORWARD}/output": ("_feedforward_output_dense", "hub_dense"),
        f"{FEED_FORWARD}-Norm": ("_feedforward_layernorm", "hub_norm"),
    }
    attention = "_self_attention_layer/_{}_dense"
    return {
        **TOKENS,
        "MLM-Output": ("layers/reversible_embedding", "hub_reverse"),
        **_block(f"{name}_transformer_decoder", attention, names),
        "Final-Norm": (f"layers/{norm}", "hub_norm"),
    }


TOKENS = {"Embedding-Token": ("layers/reversible_embedding", "hub_table")}
POSITIONS = {"Embedding-Position": ("layers/position_embedding", "hub_table")}
NORM = {"Embedding-Norm": ("layers/layer_normalization", "hub_norm")}
TYPES = {"Embedding-Segment": ("layers/embedding", "hub_table")}
BOTH = {  # tokens and positions in one layer
    "Embedding-Token": ("layers/token_and_position_embedding/token_embedding", "hub_table"),
    "Embedding-Position": ("layers/token_and_position_embedding/position_embedding", "hub_table"),
}


def _roberta_read(theirs, ours):
    """Hugging Face counts the rows of the padding id and below."""
    ours["max_position_embeddings"] += 2


def _rope_read(theirs, ours):
    """Linear scaling, or Llama 3's."""
    factor = theirs.get("rope_scaling_factor") or 1
    llama3 = theirs.get("rope_frequency_adjustment_factor")
    if llama3 is not None:
        ours["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": llama3,
            "low_freq_factor": theirs.get("rope_low_freq_factor"),
            "high_freq_factor": theirs.get("rope_high_freq_factor"),
            "original_max_position_embeddings": theirs.get("rope_pretraining_sequence_length"),
        }
    elif factor != 1:
        ours["rope_scaling"] = {"rope_type": "linear", "factor": factor}


def _rope_write(theirs, ours, llama=False):
    rope = ours.get("rope_parameters") or ours.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    theirs["rope_max_wavelength"] = rope.get("rope_theta") or ours.get("rope_theta") or 10000.0
    if kind == "linear" and not llama:
        theirs["rope_scaling_factor"] = rope["factor"]
    elif kind == "llama3" and llama:
        theirs["rope_frequency_adjustment_factor"] = rope["factor"]
        theirs["rope_low_freq_factor"] = rope["low_freq_factor"]
        theirs["rope_high_freq_factor"] = rope["high_freq_factor"]
        original = rope["original_max_position_embeddings"]
        theirs["rope_pretraining_sequence_length"] = original
    elif kind != "default":
        raise ValueError(f"KerasHub has no rope_type {kind!r} for this backbone.")


def _mistral_read(theirs, ours):
    _rope_read(theirs, ours)
    ours["sliding_window"] = theirs.get("sliding_window")
    if theirs.get("head_dim") is not None:
        ours["head_dim"] = theirs["head_dim"]


def _mistral_write(theirs, ours):
    _rope_write(theirs, ours)
    theirs["sliding_window"] = ours.get("sliding_window")
    theirs["head_dim"] = ours.get("head_dim")


def _qwen_read(theirs, ours):
    """Its window is longer than any text that the published models were trained on."""
    _rope_read(theirs, ours)
    used = theirs.get("use_sliding_window_attention", theirs.get("sliding_window_size"))
    ours["use_sliding_window"] = bool(used and (theirs.get("sliding_window_size") or 0) < 32768)


def _qwen3_write(theirs, ours):
    _rope_write(theirs, ours)
    theirs["sliding_window_size"] = None


def _gemma_read(theirs, ours):
    """Five of six layers are local, with a base of their own."""
    heads = theirs["num_query_heads"]
    normalized = theirs.get("query_head_dim_normalize", True)
    scalar = theirs["head_dim"] if normalized else theirs["hidden_dim"] // heads
    local = theirs.get("use_sliding_window_attention", False)
    kinds = ("full_attention", "sliding_attention")
    layers = range(theirs["num_layers"])
    ours["query_pre_attn_scalar"] = scalar
    ours["layer_types"] = [kinds[bool(local and i % 6 < 5)] for i in layers]
    ours["rope_parameters"] = {
        kind: {"rope_type": "linear", "factor": factor} if factor != 1 else {}
        for kind, key in zip(kinds, ("global", "local"), strict=True)
        for factor in [theirs.get(f"{key}_rope_scaling_factor") or 1]
    }
    ours["rope_parameters"]["full_attention"]["rope_theta"] = 1e6
    ours["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e4
    if theirs.get("use_bidirectional_attention"):
        ours["use_bidirectional_attention"] = True


def _both_dropouts(key):
    def read(theirs, ours):
        ours[key] = theirs.get("dropout", 0.0)

    return read


BERT_EPS = {"layer_norm_eps": 1e-12}


def _roberta(model_type):
    def read(theirs, ours):
        _roberta_read(theirs, ours)
        ours["attention_probs_dropout_prob"] = theirs.get("dropout", 0.1)

    return Backbone(
        model_type,
        ENCODER,
        {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "pad_token_id": 1, "type_vocab_size": 0},
        {**BOTH, **NORM, **_encoder()},
        read=read,
    )


LLAMA = Backbone(
    "llama",
    DECODER,
    {"hidden_act": "silu"},
    _decoder("llama", "llama_layer_norm"),
    # KerasHub's Llama stores this factor and computes without it.
    neutral={"rope_position_scaling_factor": (1,)},
    read=_rope_read,
    write=functools.partial(_rope_write, llama=True),
)

ALBERT = Backbone(
    "albert",
    {
        **BERT,
        "embedding_dim": "embedding_size",
        "num_groups": "num_hidden_groups",
        "num_inner_repetitions": "inner_group_num",
    },
    {"hidden_act": TANH_GELU, **BERT_EPS},
    {
        **TOKENS,
        **POSITIONS,
        **TYPES,
        **NORM,
        **_encoder(),
        "Embedding-Mapping": ("layers/dense", "hub_dense"),
        "Pooler-Dense": ("layers/dense_1", "hub_dense"),
    },
    read=_both_dropouts("attention_probs_dropout_prob"),
)

BACKBONES = {
    "BertBackbone": Backbone(
        "bert",
        BERT,
        {"hidden_act": TANH_GELU, **BERT_EPS},
        {
            **TOKENS,
            **POSITIONS,
            **TYPES,
            **NORM,
            **_encoder(),
            "Pooler-Dense": ("layers/dense", "hub_dense"),
        },
        read=_both_dropouts("attention_probs_dropout_prob"),
    ),
    "RobertaBackbone": _roberta("roberta"),
    "XLMRobertaBackbone": _roberta("xlm-roberta"),
    "DistilBertBackbone": Backbone(
        "distilbert",
        {
            "vocabulary_size": "vocab_size",
            "num_layers": "n_layers",
            "num_heads": "n_heads",
            "hidden_dim": "dim",
            "intermediate_dim": "hidden_dim",
            "max_sequence_length": "max_position_embeddings",
            "dropout": "dropout",
        },
        {"activation": "gelu", **BERT_EPS},
        {**BOTH, **NORM, **_encoder()},
        read=_both_dropouts("attention_dropout"),
    ),
    "AlbertBackbone": ALBERT,
    "ElectraBackbone": dataclasses.replace(
        ALBERT,
        model_type="electra",
        keys={
            **{name: key for name, key in BERT.items() if name != "vocabulary_size"},
            "vocab_size": "vocab_size",
            "embedding_dim": "embedding_size",
        },
        # The projection, which a model of one width has not, is before the pooler.
        shifted={"layers/dense": "layers/dense_1"},
    ),
    "DebertaV3Backbone": Backbone(
        "deberta-v2",
        {**ENCODER, "bucket_size": "position_buckets"},
        {
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-7,
            "type_vocab_size": 0,
            "relative_attention": True,
            "share_att_key": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "norm_rel_ebd": "layer_norm",
        },
        {
            **TOKENS,
            **NORM,
            **_encoder("disentangled_attention_encoder", "_self_attention_layer/_{}_dense"),
            "Embedding-Position-Shared-0": ("layers/relative_embedding", "hub_shared_table"),
            "Embedding-Position-Shared-0-Norm": (
                "layers/relative_embedding/layer_norm",
                "hub_norm",
            ),
        },
        read=_both_dropouts("attention_probs_dropout_prob"),
    ),
    "GPT2Backbone": Backbone(
        "gpt2",
        {
            "vocabulary_size": "vocab_size",
            "num_layers": "n_layer",
            "num_heads": "n_head",
            "hidden_dim": "n_embd",
            "intermediate_dim": "n_inner",
            "max_sequence_length": "n_positions",
            "dropout": "resid_pdrop",
        },
        {"activation_function": TANH_GELU, "layer_norm_epsilon": 1e-5},
        {
            **TOKENS,
            **POSITIONS,
            **_encoder("transformer_decoder"),
            "Final-Norm": ("layers/layer_normalization", "hub_norm"),
        },
        read=_both_dropouts("attn_pdrop"),
    ),
    "LlamaBackbone": LLAMA,
    "Llama3Backbone": LLAMA,
    "MistralBackbone": Backbone(
        "mistral",
        DECODER,
        {"hidden_act": "silu"},
        _decoder("mistral", "mistral_layer_normalization"),
        read=_mistral_read,
        write=_mistral_write,
    ),
    "QwenBackbone": Backbone(
        "qwen2",
        {**DECODER, **TIED},
        {"hidden_act": "silu"},
        _decoder("qwen", "qwen_layer_norm"),
        read=_qwen_read,
        write=_rope_write,
    ),
    "Qwen3Backbone": Backbone(
        "qwen3",
        {**DECODER, **TIED, "head_dim": "head_dim"},
        {"hidden_act": "silu"},
        {
            **_decoder("qwen3", "qwen3_layer_norm"),
            f"{ATTENTION}/query_norm": (
                "layers/qwen3_transformer_decoder_{i}/_self_attention_layer"
                "/_query_dense_layer_norm",
                "hub_norm",
            ),
            f"{ATTENTION}/key_norm": (
                "layers/qwen3_transformer_decoder_{i}/_self_attention_layer/_key_dense_layer_norm",
                "hub_norm",
            ),
        },
        read=_qwen_read,
        write=_qwen3_write,
    ),
    "Gemma3Backbone": Backbone(
        "gemma3_text",
        {
            **SIZES,
            "num_query_heads": "num_attention_heads",
            "num_key_value_heads": "num_key_value_heads",
            "head_dim": "head_dim",
            "layer_norm_epsilon": "rms_norm_eps",
            "sliding_window_size": "sliding_window",
            "dropout": "attention_dropout",
        },
        {"hidden_activation": "gelu_pytorch_tanh"},
        {
            **TOKENS,
            **_block(
                "gemma3_decoder_block",
                "attention/{}_dense",
                {
                    f"{ATTENTION}/query_norm": ("attention/query_norm", "hub_norm"),
                    f"{ATTENTION}/key_norm": ("attention/key_norm", "hub_norm"),
                    f"{ATTENTION}-Norm": ("pre_attention_norm", "hub_norm"),
                    f"{ATTENTION}-Output-Norm": ("post_attention_norm", "hub_norm"),
                    f"{FEED_FORWARD}-Norm": ("pre_ffw_norm", "hub_norm"),
                    f"{FEED_FORWARD}-Output-Norm": ("post_ffw_norm", "hub_norm"),
                    f"{FEED_FORWARD}/intermediate": ("gating_ffw", "hub_dense"),
                    f"{FEED_FORWARD}/intermediate_1": ("gating_ffw_2", "hub_dense"),
                    f"{FEED_FORWARD}/output": ("ffw_linear", "hub_dense"),
                },
            ),
            "Final-Norm": ("layers/rms_normalization", "hub_norm"),
        },
        neutral={
            "vision_encoder": (None,),
            "use_query_key_norm": (True,),
            "use_post_ffw_norm": (True,),
            "use_post_attention_norm": (True,),
            "attention_logit_soft_cap": (None,),
            "final_logit_soft_cap": (None,),
        },
        read=_gemma_read,
        heads_first=True,
    ),
}
# Those that are written, by `model_type`: the first of each.
WRITTEN = {}
for _name, _backbone in BACKBONES.items():
    if _name != "Gemma3Backbone":  # its config has no place for a rope base or a pattern of layers
        WRITTEN.setdefault(_backbone.model_type, _name)
