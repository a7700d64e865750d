"""GAU-alpha: RoFormerV2 with gated attention units in place of its blocks."""

import dataclasses

from keras_posenc.models.families import roformer_v2

UNIT = "Transformer-{i}-GatedAttentionUnit"
SCOPE = "GAU_alpha/encoder/layer_{i}/gau"

FAMILY = dataclasses.replace(
    roformer_v2.FAMILY,
    name="gau_alpha",
    title="GAU-alpha",
    model_types=("gau_alpha",),
    weights=dataclasses.replace(
        roformer_v2.WEIGHTS,
        family="gau_alpha",
        rows={
            name: roformer_v2.WEIGHTS.rows[name]
            for name in ("Embedding-Token", "Embedding-Segment")
        }
        | {
            f"{UNIT}/input": (f"{SCOPE}/i_dense", "dense"),
            f"{UNIT}/attention_output": (f"{SCOPE}/o_dense", "dense"),
            UNIT: (SCOPE, "unit"),
        },
        heads=("Embedding-Segment",),
        classes={"gau_alpha": "GAUAlpha"},
    ),
    defaults={
        **roformer_v2.FAMILY.defaults,
        "hidden_act": "swish",
        "attention_key_size": 128,
        "block": "gau",
        "gau_normalization": "softmax_plus",
    },
    positions="rotary, neighbouring features; log-n",
    compared="its published code",
    paper="https://kexue.fm/archives/9052",
)
