"""RoFormer, RoFormerV2 (no biases, norms without weights) and GAU-alpha: rotary positions."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.weight_rows import like_bert


def rotating(config):
    """Rotary pairs are adjacent features."""
    return dataclasses.replace(config, encodings=(rotary(config, layout="interleaved"),))


WEIGHTS = like_bert(
    classes={"roformer": "RoFormer"},
    prefixes=("roformer.", "bert.", ""),
    rows={"Embedding-Position": None},
    huggingface={"Embedding-Mapping": "roformer.embeddings_project"},
    unused={"*encoder.embed_positions.weight": "sines"},
)

ROFORMER = Family(
    name="roformer",
    title="RoFormer",
    model_types=("roformer",),
    weights=WEIGHTS,
    configure=rotating,
    defaults={"hidden_act": "gelu", "max_position": 1536, "position_table": False},
    keys=ROPE_KEYS,
    required={"rotary_value": (False, None)},
    without_type=True,
    rescales=False,
    positions="rotary, neighbouring features",
    paper="https://arxiv.org/abs/2104.09864",
)


# What is left of BERT's rows: no norm and no bias has a place in the files.
WEIGHTS_V2 = dataclasses.replace(
    WEIGHTS,
    rows={name: row for name, row in WEIGHTS.rows.items() if "Norm" not in name},
    classes={"roformer_v2": "RoFormerV2"},
)

ROFORMER_V2 = dataclasses.replace(
    ROFORMER,
    name="roformer_v2",
    title="RoFormerV2",
    model_types=("roformer_v2",),
    weights=WEIGHTS_V2,
    defaults={
        **ROFORMER.defaults,
        "hidden_act": "relu",
        "layer_norm_eps": 1e-7,
        "norm_type": "rms_norm_without_scale",
        "attention_bias": False,
        "feed_forward_bias": False,
        "mlm_dense": False,
        "mlm_bias": False,
    },
    compared="its published code",
    paper="https://kexue.fm/archives/8998",
)


UNIT = "Transformer-{i}-GatedAttentionUnit"
SCOPE = "GAU_alpha/encoder/layer_{i}/gau"

GAU_ALPHA = dataclasses.replace(
    ROFORMER_V2,
    name="gau_alpha",
    title="GAU-alpha",
    model_types=("gau_alpha",),
    weights=dataclasses.replace(
        WEIGHTS_V2,
        rows={name: WEIGHTS_V2.rows[name] for name in ("Embedding-Token", "Embedding-Segment")}
        | {
            f"{UNIT}/input": (f"{SCOPE}/i_dense", "dense"),
            f"{UNIT}/attention_output": (f"{SCOPE}/o_dense", "dense"),
            UNIT: (SCOPE, "unit"),
        },
        heads=("Embedding-Segment",),
        classes={"gau_alpha": "GAUAlpha"},
    ),
    defaults={
        **ROFORMER_V2.defaults,
        "hidden_act": "swish",
        "attention_key_size": 128,
        "block": "gau",
        "gau_normalization": "softmax_plus",
    },
    positions="rotary, neighbouring features; log-n",
    compared="its published code",
    paper="https://kexue.fm/archives/9052",
)
